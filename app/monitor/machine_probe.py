"""What processor, memory and drives do now; and how much of it the engine takes.

    probe = MachineProbe()
    probe.sample(engine_pid)      # the first sample has no rates yet

Blocks for some milliseconds: use it off the main thread, one call at a time.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass

import psutil

from engine.core.cgroup import memory_limit

# Looking for the engine's worker processes goes through all processes of the PC.
_FAMILY_EVERY_S = 30.0


@dataclass(frozen=True, slots=True)
class EngineProcess:
    """What the engine's processes take.

    Attributes:
        cpu_share: of all cores together, 0 to 1; None in the first sample.
        resident_bytes: of their memory, mapped model included.
        has_low_priority: other programs go first.
    """

    cpu_share: float | None
    resident_bytes: int
    has_low_priority: bool


@dataclass(frozen=True, slots=True)
class MachineSample:
    """One look at the machine.

    Attributes:
        cpu_share: of all cores together, 0 to 1; None in the first sample.
        ram_used_bytes: that could not be given to another program.
        swap_used_bytes: of the page file or swap.
        swapped_in_per_s: bytes that came back from there; None when it cannot be told.
        read_per_s: bytes that all drives read; None in the first sample and where it is not told.
        written_per_s: bytes that all drives wrote.
        on_battery: None on a PC without one.
        cpu_mhz: clock now; None when it is not told.
        cpu_mhz_max: highest clock.
        engine: None while no engine runs.
    """

    cpu_share: float | None
    ram_used_bytes: int
    ram_total_bytes: int
    swap_used_bytes: int
    swapped_in_per_s: float | None = None
    read_per_s: float | None = None
    written_per_s: float | None = None
    on_battery: bool | None = None
    cpu_mhz: float | None = None
    cpu_mhz_max: float | None = None
    engine: EngineProcess | None = None


class MachineProbe:
    """Keeps what rates are made of."""

    def __init__(self) -> None:
        self._before_s: float | None = None
        self._disk: tuple[int, int] | None = None
        self._swapped_in: int | None = None
        self._family: list[psutil.Process] = []
        self._family_pid: int | None = None
        self._family_at_s = 0.0
        self._engine_cpu_s: float | None = None
        self._cores = psutil.cpu_count(logical=True) or 1
        psutil.cpu_percent()  # the first answer is meaningless

    @property
    def engine_pids(self) -> frozenset[int]:
        """The engine's processes at the last sample."""
        return frozenset(process.pid for process in self._family)

    def sample(self, engine_pid: int | None) -> MachineSample:
        """Look."""
        now_s = time.monotonic()
        passed_s = None if self._before_s is None else max(now_s - self._before_s, 1e-3)
        self._before_s = now_s
        memory = psutil.virtual_memory()
        used, total = int(memory.total - memory.available), int(memory.total)
        limit = memory_limit()
        if limit is not None and limit.total_bytes < total:
            total = limit.total_bytes
            used = total - min(limit.available_bytes, total)
        swap_used, swapped_in = self._swap(passed_s)
        read, written = self._drives(passed_s)
        clock, clock_max = _clock()
        return MachineSample(
            cpu_share=None if passed_s is None else psutil.cpu_percent() / 100,
            ram_used_bytes=used,
            ram_total_bytes=total,
            swap_used_bytes=swap_used,
            swapped_in_per_s=swapped_in,
            read_per_s=read,
            written_per_s=written,
            on_battery=_on_battery(),
            cpu_mhz=clock,
            cpu_mhz_max=clock_max,
            engine=self._engine(engine_pid, now_s, passed_s),
        )

    def _swap(self, passed_s: float | None) -> tuple[int, float | None]:
        try:
            swap = psutil.swap_memory()
        except (OSError, RuntimeError, psutil.Error):
            return 0, None
        before, self._swapped_in = self._swapped_in, int(swap.sin)
        rate = None
        if before is not None and passed_s is not None:
            rate = max(0, self._swapped_in - before) / passed_s
        return int(swap.used), rate

    def _drives(self, passed_s: float | None) -> tuple[float | None, float | None]:
        try:
            counters = psutil.disk_io_counters()
        except (OSError, RuntimeError, psutil.Error):
            return None, None
        if counters is None:
            return None, None
        before, self._disk = self._disk, (int(counters.read_bytes), int(counters.write_bytes))
        if before is None or passed_s is None:
            return None, None
        read, written = (
            max(0, now - then) / passed_s for now, then in zip(self._disk, before, strict=True)
        )
        return read, written

    def _engine(
        self, pid: int | None, now_s: float, passed_s: float | None
    ) -> EngineProcess | None:
        if pid != self._family_pid or now_s - self._family_at_s > _FAMILY_EVERY_S:
            if pid != self._family_pid:
                self._engine_cpu_s = None
            self._family_pid, self._family_at_s = pid, now_s
            self._family = _family(pid)
        cpu_s, resident, is_low, seen = 0.0, 0, False, False
        for process in self._family:
            try:
                with process.oneshot():
                    times = process.cpu_times()
                    cpu_s += times.user + times.system
                    resident += int(process.memory_info().rss)
                    is_low = is_low or _is_low(process)
            except (psutil.Error, OSError):
                self._family_at_s = 0.0  # one has ended: look for the others again
                continue
            seen = True
        if not seen:
            self._engine_cpu_s = None
            return None
        before, self._engine_cpu_s = self._engine_cpu_s, cpu_s
        share = None
        if before is not None and passed_s is not None and cpu_s >= before:
            share = min(1.0, (cpu_s - before) / passed_s / self._cores)
        return EngineProcess(share, resident, is_low)


def busiest_others(engine_pid: int | None, wait_s: float = 0.5) -> list[tuple[str, float]]:
    """Programs that keep the processor busy, the engine left out: name, share of all cores.

    Takes `wait_s` and looks at every process, so it is for a question of the person's only.
    """
    own = {process.pid for process in _family(engine_pid)} | {psutil.Process().pid}
    before = _cpu_times()
    time.sleep(wait_s)
    cores = psutil.cpu_count(logical=True) or 1
    shares: dict[str, float] = {}
    for pid, (name, cpu_s) in _cpu_times().items():
        if pid in own or pid not in before or not name:
            continue
        share = max(0.0, cpu_s - before[pid][1]) / wait_s / cores
        shares[name] = min(1.0, shares.get(name, 0.0) + share)
    return sorted(shares.items(), key=lambda entry: -entry[1])


def _cpu_times() -> dict[int, tuple[str, float]]:
    found: dict[int, tuple[str, float]] = {}
    for process in psutil.process_iter(["name", "cpu_times"]):
        times = process.info["cpu_times"]
        if times is not None and process.pid != 0:  # 0 is Windows' idle time
            found[process.pid] = (process.info["name"] or "", times.user + times.system)
    return found


def _family(pid: int | None) -> list[psutil.Process]:
    if pid is None:
        return []
    try:
        process = psutil.Process(pid)
        return [process, *process.children(recursive=True)]
    except (psutil.Error, OSError, ValueError):
        return []


def _is_low(process: psutil.Process) -> bool:
    nice = process.nice()
    if psutil.WINDOWS:
        return nice in (psutil.BELOW_NORMAL_PRIORITY_CLASS, psutil.IDLE_PRIORITY_CLASS)
    return isinstance(nice, int) and nice > 0


def _on_battery() -> bool | None:
    with contextlib.suppress(OSError, RuntimeError, AttributeError, psutil.Error, ValueError):
        battery = psutil.sensors_battery()
        if battery is not None and battery.power_plugged is not None:
            return not battery.power_plugged
    return None


def _clock() -> tuple[float | None, float | None]:
    with contextlib.suppress(
        OSError, RuntimeError, NotImplementedError, AttributeError, ValueError
    ):
        clock = psutil.cpu_freq()
        if clock is not None:
            return clock.current or None, clock.max or None
    return None, None
