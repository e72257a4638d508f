"""Looks at this PC as a whole: what the wizard shows, what a recommendation is made of.

    seen = survey(Path("data"))
    print(json.dumps(as_plain(seen)))

Everything is asked at once, each question in a thread of its own, and none is waited for beyond the
time limit: what has not answered by then is missing, with a note. Nothing fails when something is not
there. What a placement needs alone is `machine.py`.
"""

from __future__ import annotations

import dataclasses
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

from engine.core.bandwidth import measure_bandwidth
from engine.core.card_record import card_troubles
from engine.core.cpu_features import CpuFeatures, probe_cpu_features
from engine.core.drives import Drive, drive_of, list_drives, speed_of
from engine.core.environment import (
    Environment,
    cpu_name_by_cpuinfo,
    probe_environment,
    same_cpu_name,
)
from engine.core.gpu import GpuReport, probe_gpus
from engine.core.machine import Machine, probe_machine
from engine.core.network_reach import Reach, ReachState, ask, endpoints_to_ask
from engine.core.note import Note
from engine.core.other_cards import ListedCard, Maker, list_cards
from engine.core.topology import Core, read_cores

logger = logging.getLogger(__name__)

TIMEOUT_S = 10.0
_MARGIN_S = 0.5  # for putting the answers together
_REACH_S = 4.0
_DRIVE_S = 4.0
_CPUINFO_S = 6.0
_MEASURED_DRIVES = 4
_CLOCK_OFF_S = 300.0

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Survey:
    """All that was found.

    Attributes:
        machine: processor's name, cores, memory; a container's limits included.
        environment: the system around us.
        cpu: which kernels the processor can run.
        fast_cores: cores that are not slow ones.
        slow_cores: efficiency cores beside faster ones.
        memory_bytes_per_s: what all cores read together; None when not measured.
        gpus: NVIDIA cards.
        card_troubles: why some of them cannot be used here, by their numbers, as far as that is known.
        other_cards: cards of other makers, which are not used.
        data_drive: the drive of the data folder; None when it does not answer.
        drives: all drives with room, with the speed where it was measured.
        reach: hub and mirror.
        notes: what is missing, and what sources disagree about.
        took_s: how long it took.
    """

    machine: Machine
    environment: Environment
    cpu: CpuFeatures
    fast_cores: int
    slow_cores: int
    memory_bytes_per_s: float | None = None
    gpus: GpuReport = field(default_factory=GpuReport)
    card_troubles: Mapping[int, Note] = field(default_factory=dict)
    other_cards: tuple[ListedCard, ...] = ()
    data_drive: Drive | None = None
    drives: tuple[Drive, ...] = ()
    reach: tuple[Reach, ...] = ()
    notes: tuple[Note, ...] = ()
    took_s: float = 0.0


def survey(
    data_dir: Path, timeout_s: float = TIMEOUT_S, endpoints: Sequence[str] | None = None
) -> Survey:
    """Look at this PC.

    Args:
        data_dir: where models would go; need not exist, and is not made.
        timeout_s: at most so long.
        endpoints: addresses of hubs to try; None: the one that is set, and a mirror.
    """
    began = time.monotonic()
    deadline = began + max(timeout_s - _MARGIN_S, _MARGIN_S)
    drive_s = min(_DRIVE_S, (timeout_s - _MARGIN_S) / 2)

    machine = _Question("machine", probe_machine)
    environment = _Question("environment", probe_environment)
    features = _Question("cpu_features", probe_cpu_features)
    cores = _Question("cores", read_cores)
    cpu_name = _Question("cpu_name", lambda: cpu_name_by_cpuinfo(min(_CPUINFO_S, timeout_s / 2)))
    gpus = _Question("gpus", lambda: probe_gpus(timeout_s / 2))
    cards = _Question("other_cards", list_cards)
    data_drive = _Question("data_drive", lambda: drive_of(data_dir))
    drives = _Question("drives", list_drives)
    data_speed = _Question("drive_speed", lambda: speed_of(data_dir, drive_s))
    addresses = endpoints_to_ask() if endpoints is None else endpoints
    asked = [
        _Question("network", lambda url=url: ask(url, min(_REACH_S, timeout_s / 2)))  # type: ignore[misc]
        for url in addresses
    ]
    # What the rest needs is asked on the spot if its thread has not answered.
    notes: list[Note] = []
    found_machine = machine.answer(deadline, notes) or probe_machine()
    found_cores = cores.answer(deadline, notes) or [Core((0,))] * found_machine.physical_cores
    bandwidth = _Question(
        "bandwidth",
        lambda: measure_bandwidth(
            min(len(found_cores), found_machine.physical_cores),
            found_machine.ram_available_bytes,
        ),
    )
    found_drive = data_drive.answer(deadline, notes)
    found_drives = _with_speeds(
        drives.answer(deadline, notes) or [], found_drive, drive_s, deadline, notes
    )
    speed = data_speed.answer(deadline, notes)
    if found_drive is not None:
        found_drive = dataclasses.replace(found_drive, speed=speed)
        found_drives = [
            found_drive if drive.mount == found_drive.mount else drive for drive in found_drives
        ]
        notes += found_drive.notes()
    found_features = features.answer(deadline, notes)
    cpu = CpuFeatures(avx2=True)
    if found_features is not None:
        cpu = found_features[0]
        notes += found_features[1]
    reach = tuple(
        question.answer(deadline, notes) or Reach(url, ReachState.NOT_ASKED)
        for url, question in zip(addresses, asked, strict=True)
    )
    found_gpus = gpus.answer(deadline, notes) or GpuReport()
    listed = cards.answer(deadline, notes) or ()
    memory_speed = bandwidth.answer(deadline, notes)
    other_name = cpu_name.answer(deadline, notes)
    notes += found_gpus.notes
    notes += compare(found_machine, found_gpus, listed, reach, other_name or "")
    slow = sum(core.is_slow for core in found_cores)
    return Survey(
        machine=found_machine,
        environment=environment.answer(deadline, notes) or probe_environment(),
        cpu=cpu,
        fast_cores=len(found_cores) - slow,
        slow_cores=slow,
        memory_bytes_per_s=memory_speed,
        gpus=found_gpus,
        card_troubles=card_troubles(data_dir, found_gpus),
        other_cards=tuple(card for card in listed if card.maker is not Maker.NVIDIA),
        data_drive=found_drive,
        drives=tuple(found_drives),
        reach=reach,
        notes=tuple(notes),
        took_s=round(time.monotonic() - began, 3),
    )


def compare(
    machine: Machine,
    gpus: GpuReport,
    listed: Sequence[ListedCard],
    reach: Sequence[Reach],
    other_cpu_name: str,
) -> list[Note]:
    """What sources disagree about."""
    notes: list[Note] = []
    if other_cpu_name and not same_cpu_name(machine.cpu_name, other_cpu_name):
        params = {"system": machine.cpu_name, "cpuinfo": other_cpu_name}
        notes.append(Note("cpu_name_sources_disagree", params))
    silent = [card.name for card in listed if card.maker is Maker.NVIDIA]
    if silent and not gpus.cards:
        notes.append(Note("nvidia_card_without_driver", {"card": ", ".join(silent)}))
    off = [answer.clock_off_s for answer in reach if answer.clock_off_s is not None]
    if off and min(abs(seconds) for seconds in off) > _CLOCK_OFF_S:
        notes.append(Note("clock_is_off", {"minutes": round(min(off, key=abs) / 60)}))
    return notes


class _Question(Generic[_T]):
    """A question asked in a thread that nobody has to wait for."""

    def __init__(self, name: str, function: Callable[[], _T]) -> None:
        self.name = name
        self._function = function
        self._answer: _T | None = None
        self._failed = ""
        # A daemon: a look-up of a name may hang for a minute, and must not hold up the program's end.
        self._thread = threading.Thread(target=self._ask, name=f"probe-{name}", daemon=True)
        self._thread.start()

    def _ask(self) -> None:
        try:
            self._answer = self._function()
        except Exception as error:
            logger.exception("the probe of %s failed", self.name)
            self._failed = f"{type(error).__name__}: {error}"

    def answer(self, deadline: float, notes: list[Note]) -> _T | None:
        """The answer; None, with a note, when it does not come in time or not at all."""
        self._thread.join(max(0.0, deadline - time.monotonic()))
        if self._thread.is_alive():
            notes.append(Note("probe_timed_out", {"what": self.name}))
            return None
        if self._failed:
            notes.append(Note("probe_failed", {"what": self.name, "reason": self._failed}))
        return self._answer


def _with_speeds(
    drives: Sequence[Drive],
    data_drive: Drive | None,
    drive_s: float,
    deadline: float,
    notes: list[Note],
) -> list[Drive]:
    """The drives, the roomiest of them measured; the data folder's is measured already."""
    wanted = [
        drive
        for drive in sorted(drives, key=lambda drive: -drive.free_bytes)
        if not drive.is_network and (data_drive is None or drive.mount != data_drive.mount)
    ][:_MEASURED_DRIVES]
    asked = {
        drive.mount: _Question(
            f"drive_speed {drive.mount}",
            lambda mount=drive.mount: speed_of(mount, drive_s),  # type: ignore[misc]
        )
        for drive in wanted
    }
    return [
        dataclasses.replace(drive, speed=asked[drive.mount].answer(deadline, notes))
        if drive.mount in asked
        else drive
        for drive in drives
    ]
