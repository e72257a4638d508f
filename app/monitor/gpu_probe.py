"""What NVIDIA cards do now, as their driver tells; on other machines there are none.

    probe = GpuProbe()
    probe.sample()       # () without a card
    probe.close()

Asked through NVML (`pynvml`), which is there only where a driver was found at the installation. A
question that a card does not answer gives None. Use it off the main thread, one call at a time.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable
from dataclasses import dataclass

logger = logging.getLogger(__name__)

# Numbers of nvml.h.
_TEMPERATURE_GPU = 0
_PCIE_SENT, _PCIE_RECEIVED = 0, 1
# Reasons for a lower clock: power cap, slowdown by heat or power, the board's own power brake.
_HEAT = 0x20 | 0x40
_POWER = 0x04 | 0x80


@dataclass(frozen=True, slots=True)
class GpuSample:
    """One look at a card.

    Attributes:
        load: share of the time in which it computed, 0 to 1.
        others_bytes: of its memory, held by other programs; None where the driver does not say.
        temperature_c: of the chip.
        power_w: now.
        power_limit_w: what it may take at most.
        sent_per_s: bytes over PCIe from the card.
        received_per_s: bytes over PCIe to the card.
        is_slowed_by_heat: the clock is lowered because of the temperature.
        is_slowed_by_power: the clock is lowered because of the power limit.
        pcie: generation and lanes now.
        pcie_max: generation and lanes that card and slot can use.
    """

    index: int
    name: str
    vram_used_bytes: int
    vram_total_bytes: int
    load: float | None = None
    others_bytes: int | None = None
    temperature_c: int | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    sent_per_s: float | None = None
    received_per_s: float | None = None
    is_slowed_by_heat: bool = False
    is_slowed_by_power: bool = False
    pcie: tuple[int, int] | None = None
    pcie_max: tuple[int, int] | None = None


class GpuProbe:
    """Keeps the driver's library open between samples."""

    def __init__(self, module: object | None = None) -> None:
        """Prepare it; the driver is asked at the first sample.

        Args:
            module: in place of `pynvml`.
        """
        self._module = module
        self._is_open = False
        self._has_failed = False
        if module is None:  # here and not in `sample`, which runs in a thread: see plots.py
            try:
                self._module = importlib.import_module("pynvml")
            except ImportError:
                self._has_failed = True

    def sample(self, engine_pids: frozenset[int] = frozenset()) -> tuple[GpuSample, ...]:
        """All cards."""
        if not self._open():
            return ()
        count = _whole(self._ask("nvmlDeviceGetCount")) or 0
        cards = (self._card(index, engine_pids) for index in range(count))
        return tuple(card for card in cards if card is not None)

    def close(self) -> None:
        """Let the driver's library go."""
        if self._is_open:
            self._ask("nvmlShutdown")
            self._is_open = False

    def _open(self) -> bool:
        if self._is_open or self._has_failed:
            return self._is_open
        try:
            self._module.nvmlInit()  # type: ignore[union-attr]
        except Exception as error:  # noqa: BLE001  # no driver, and it has error classes of its own
            logger.debug("no graphics card is watched: %s", error)
            self._has_failed = True
            return False
        self._is_open = True
        return True

    def _ask(self, name: str, *arguments: object) -> object:
        function: Callable[..., object] | None = getattr(self._module, name, None)
        if function is None:
            return None
        try:
            return function(*arguments)
        except Exception as error:  # noqa: BLE001  # NVMLError, and what old drivers' libraries add
            logger.debug("%s: %s", name, error)
            return None

    def _card(self, index: int, engine_pids: frozenset[int]) -> GpuSample | None:
        handle = self._ask("nvmlDeviceGetHandleByIndex", index)
        memory = self._ask("nvmlDeviceGetMemoryInfo", handle) if handle is not None else None
        total, used = _whole(getattr(memory, "total", None)), _whole(getattr(memory, "used", None))
        if total is None or used is None:
            return None
        load = _whole(getattr(self._ask("nvmlDeviceGetUtilizationRates", handle), "gpu", None))
        reasons = _whole(self._ask("nvmlDeviceGetCurrentClocksThrottleReasons", handle)) or 0
        name = self._ask("nvmlDeviceGetName", handle)
        return GpuSample(
            index=index,
            name=name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name or "GPU"),
            vram_used_bytes=used,
            vram_total_bytes=total,
            load=None if load is None else load / 100,
            others_bytes=self._others(handle, engine_pids),
            temperature_c=_whole(self._ask("nvmlDeviceGetTemperature", handle, _TEMPERATURE_GPU)),
            power_w=_milli(self._ask("nvmlDeviceGetPowerUsage", handle)),
            power_limit_w=_milli(self._ask("nvmlDeviceGetEnforcedPowerLimit", handle)),
            sent_per_s=_kilo(self._ask("nvmlDeviceGetPcieThroughput", handle, _PCIE_SENT)),
            received_per_s=_kilo(self._ask("nvmlDeviceGetPcieThroughput", handle, _PCIE_RECEIVED)),
            is_slowed_by_heat=bool(reasons & _HEAT),
            is_slowed_by_power=bool(reasons & _POWER),
            pcie=self._link(handle, "Curr"),
            pcie_max=self._link(handle, "Max"),
        )

    def _link(self, handle: object, which: str) -> tuple[int, int] | None:
        generation = _whole(self._ask(f"nvmlDeviceGet{which}PcieLinkGeneration", handle))
        width = _whole(self._ask(f"nvmlDeviceGet{which}PcieLinkWidth", handle))
        return (generation, width) if generation and width else None

    def _others(self, handle: object, engine_pids: frozenset[int]) -> int | None:
        held: dict[int, int] = {}
        is_told = False
        for kind in ("Compute", "Graphics"):
            found = self._ask(f"nvmlDeviceGet{kind}RunningProcesses", handle)
            for entry in found if isinstance(found, list) else ():
                pid = _whole(getattr(entry, "pid", None))
                num_bytes = _whole(getattr(entry, "usedGpuMemory", None))
                if pid is None or num_bytes is None:
                    continue
                is_told = True
                held[pid] = max(held.get(pid, 0), num_bytes)
        if not is_told:
            return None
        return sum(num_bytes for pid, num_bytes in held.items() if pid not in engine_pids)


def _whole(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 <= value < 1 << 62 else None  # "not available" is the largest number


def _milli(value: object) -> float | None:
    whole = _whole(value)
    return None if whole is None else whole / 1000


def _kilo(value: object) -> float | None:
    whole = _whole(value)
    return None if whole is None else whole * 1000.0
