"""The NVIDIA cards of this machine, as their driver describes them.

Asked through NVML (`pynvml`, from the package nvidia-ml-py, which is only there when a driver was
found at the installation), and beside it through `nvidia-smi`, which comes with the driver. A question
that a driver or card does not answer gives None for that fact; nothing here fails. Cards are numbered
as nvidia-smi numbers them (order on the PCI bus).
"""

from __future__ import annotations

import importlib
import logging
import shutil
from collections.abc import Callable
from dataclasses import dataclass

import psutil

from engine.core.emulated_cards import (
    EMULATED_CAPABILITY,
    EMULATED_DRIVER,
    emulated_name,
    emulated_sizes,
)
from engine.core.note import Note
from engine.core.pci import pci_place
from engine.core.programs import output_of

logger = logging.getLogger(__name__)

_NVML_CLOCK_MEMORY = 2
_SMI_FIELDS = (
    "name",
    "memory.total",
    "memory.free",
    "driver_version",
    "pcie.link.gen.current",
    "pcie.link.gen.max",
    "pcie.link.width.current",
    "pcie.link.width.max",
    "display_active",
)


@dataclass(frozen=True, slots=True)
class GpuProcess:
    """A program that holds memory of a card.

    Attributes:
        pid: its process.
        name: its file name; empty when the system does not say.
        vram_bytes: what it holds; None where the driver does not say (Windows).
    """

    pid: int
    name: str
    vram_bytes: int | None


@dataclass(frozen=True, slots=True)
class Gpu:
    """One NVIDIA card.

    Attributes:
        index: its number, as nvidia-smi counts.
        name: as its driver calls it.
        vram_total_bytes: its memory.
        vram_free_bytes: what no program holds now.
        compute_capability: such as (8, 9); None when unknown.
        pcie_generation: of the link now; many cards lower it while idle.
        pcie_generation_max: what card and slot can do together.
        pcie_width: lanes now.
        pcie_width_max: lanes that card and slot can use.
        has_display: whether a screen hangs on it; None when unknown.
        memory_bytes_per_s: bandwidth of its memory, from clock and bus width.
        processes: who holds its memory, the largest first.
        uuid: that belongs to the card itself, such as `GPU-1f3a...`; empty when unknown.
        pci: its place on the bus, as `pci_place` writes it; empty when unknown.
    """

    index: int
    name: str
    vram_total_bytes: int
    vram_free_bytes: int
    compute_capability: tuple[int, int] | None = None
    pcie_generation: int | None = None
    pcie_generation_max: int | None = None
    pcie_width: int | None = None
    pcie_width_max: int | None = None
    has_display: bool | None = None
    memory_bytes_per_s: float | None = None
    processes: tuple[GpuProcess, ...] = ()
    uuid: str = ""
    pci: str = ""


@dataclass(frozen=True, slots=True)
class GpuReport:
    """All NVIDIA cards.

    Attributes:
        cards: in nvidia-smi's order; empty without a card or driver.
        driver: version of the driver, such as `580.95.05`; empty without one.
        source: who said it: `nvml`, `nvidia-smi`, `emulator`, or nothing.
        notes: what the sources disagree about.
    """

    cards: tuple[Gpu, ...] = ()
    driver: str = ""
    source: str = ""
    notes: tuple[Note, ...] = ()

    @property
    def driver_major(self) -> int | None:
        """The number before the driver version's first point."""
        major = self.driver.partition(".")[0]
        return int(major) if major.isdecimal() else None


def probe_gpus(timeout_s: float = 6.0) -> GpuReport:
    """Ask both sources; NVML's answer counts, the other's is compared with it."""
    sizes = emulated_sizes()
    if sizes:
        return GpuReport(
            tuple(map(_emulated, range(len(sizes)), sizes)), EMULATED_DRIVER, "emulator"
        )
    smi = read_smi(run_smi(timeout_s))
    try:
        nvml = importlib.import_module("pynvml")
    except ImportError:
        return without_nvml(smi, "pynvml_missing")
    return combine(read_nvml(nvml), smi)


def _emulated(index: int, size: int) -> Gpu:
    name, capability = emulated_name(index), EMULATED_CAPABILITY
    return Gpu(index, name, size, size, compute_capability=capability, has_display=False)


def without_nvml(smi: GpuReport, reason: str) -> GpuReport:
    """The report when NVML cannot be asked."""
    if not smi.cards:
        return GpuReport()
    note = Note("nvml_failed", {"reason": reason, "cards": len(smi.cards)})
    return GpuReport(smi.cards, smi.driver, smi.source, (note,))


def combine(nvml: GpuReport, smi: GpuReport) -> GpuReport:
    """NVML's report with a note for each thing that nvidia-smi says otherwise."""
    if not nvml.cards:
        return without_nvml(smi, "nvml_sees_none") if smi.cards else nvml
    notes = list(nvml.notes)
    if smi.cards:
        ours = [card.name for card in nvml.cards]
        theirs = [card.name for card in smi.cards]
        if ours != theirs:
            params = {"nvml": ", ".join(ours), "nvidia_smi": ", ".join(theirs)}
            notes.append(Note("gpu_sources_disagree", params))
        if smi.driver and nvml.driver and smi.driver != nvml.driver:
            # An updated driver whose old kernel part still runs: the PC must be restarted.
            params = {"nvml": nvml.driver, "nvidia_smi": smi.driver}
            notes.append(Note("driver_sources_disagree", params))
    return GpuReport(nvml.cards, nvml.driver, nvml.source, tuple(notes))


def read_nvml(nvml: object) -> GpuReport:
    """The cards as a `pynvml` module names them."""
    asked = _Nvml(nvml)
    if not asked.start():
        return GpuReport()
    try:
        driver = _text(asked.ask("nvmlSystemGetDriverVersion"))
        count = _whole(asked.ask("nvmlDeviceGetCount")) or 0
        cards = []
        for index in range(count):
            handle = asked.ask("nvmlDeviceGetHandleByIndex", index)
            card = _card(asked, index, handle) if handle is not None else None
            if card is not None:
                cards.append(card)
        return GpuReport(tuple(cards), driver, "nvml")
    finally:
        asked.ask("nvmlShutdown")


class _Nvml:
    """Asks a `pynvml` module; an answer that is refused, or a function that lacks, is None."""

    def __init__(self, module: object) -> None:
        self._module = module

    def start(self) -> bool:
        return self._call("nvmlInit")[0]

    def ask(self, name: str, *arguments: object) -> object:
        return self._call(name, *arguments)[1]

    def _call(self, name: str, *arguments: object) -> tuple[bool, object]:
        function: Callable[..., object] | None = getattr(self._module, name, None)
        if function is None:
            return False, None
        try:
            return True, function(*arguments)
        except Exception as error:  # noqa: BLE001  # NVMLError, and what old drivers' libraries add
            logger.debug("%s: %s", name, error)
            return False, None


def _card(asked: _Nvml, index: int, handle: object) -> Gpu | None:
    memory = asked.ask("nvmlDeviceGetMemoryInfo", handle)
    total = _whole(getattr(memory, "total", None))
    if total is None:
        return None
    capability = asked.ask("nvmlDeviceGetCudaComputeCapability", handle)
    screens = [
        _whole(asked.ask(name, handle))
        for name in ("nvmlDeviceGetDisplayMode", "nvmlDeviceGetDisplayActive")
    ]
    known = [screen for screen in screens if screen is not None]
    place = asked.ask("nvmlDeviceGetPciInfo", handle)
    numbers = [_whole(getattr(place, name, None)) for name in ("domain", "bus", "device")]
    parts = [number for number in numbers if number is not None]
    return Gpu(
        index=index,
        name=_text(asked.ask("nvmlDeviceGetName", handle)) or "NVIDIA card",
        vram_total_bytes=total,
        vram_free_bytes=_whole(getattr(memory, "free", None)) or 0,
        compute_capability=_pair(capability),
        pcie_generation=_whole(asked.ask("nvmlDeviceGetCurrPcieLinkGeneration", handle)),
        pcie_generation_max=_whole(asked.ask("nvmlDeviceGetMaxPcieLinkGeneration", handle)),
        pcie_width=_whole(asked.ask("nvmlDeviceGetCurrPcieLinkWidth", handle)),
        pcie_width_max=_whole(asked.ask("nvmlDeviceGetMaxPcieLinkWidth", handle)),
        has_display=any(known) if known else None,
        memory_bytes_per_s=_memory_speed(asked, handle),
        processes=_processes(asked, handle),
        uuid=_text(asked.ask("nvmlDeviceGetUUID", handle)),
        pci=pci_place(*parts) if len(parts) == len(numbers) else "",
    )


def _memory_speed(asked: _Nvml, handle: object) -> float | None:
    """Two transfers a clock, as NVML counts memory clocks (GDDR6 to 7 and HBM)."""
    clock_mhz = _whole(asked.ask("nvmlDeviceGetMaxClockInfo", handle, _NVML_CLOCK_MEMORY))
    bus_bits = _whole(asked.ask("nvmlDeviceGetMemoryBusWidth", handle))
    return 2e6 * clock_mhz * bus_bits / 8 if clock_mhz and bus_bits else None


def _processes(asked: _Nvml, handle: object) -> tuple[GpuProcess, ...]:
    held: dict[int, int | None] = {}
    for name in (
        "nvmlDeviceGetComputeRunningProcesses",
        "nvmlDeviceGetGraphicsRunningProcesses",
    ):
        found = asked.ask(name, handle)
        for entry in found if isinstance(found, list) else ():
            pid = _whole(getattr(entry, "pid", None))
            if pid is not None:
                num_bytes = _whole(getattr(entry, "usedGpuMemory", None))
                held[pid] = max(filter(None, (held.get(pid), num_bytes)), default=None)
    processes = [GpuProcess(pid, _program(pid), num_bytes) for pid, num_bytes in held.items()]
    return tuple(sorted(processes, key=lambda p: (-(p.vram_bytes or 0), p.pid)))


def _program(pid: int) -> str:
    try:
        return str(psutil.Process(pid).name())
    except (psutil.Error, OSError, ValueError, OverflowError):
        return ""


def run_smi(timeout_s: float) -> str:
    """What nvidia-smi prints about the cards; empty when it is not there or fails."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return ""
    fields = ",".join(_SMI_FIELDS)
    return output_of([program, f"--query-gpu={fields}", "--format=csv,noheader,nounits"], timeout_s)


def read_smi(text: str) -> GpuReport:
    """The cards in nvidia-smi's lines (of `_SMI_FIELDS`); lines that are none are left out."""
    cards: list[Gpu] = []
    driver = ""
    for line in text.splitlines():
        fields = [field.strip() for field in line.split(",")]
        if len(fields) != len(_SMI_FIELDS) or not fields[1].isdecimal():
            continue
        numbers = [int(field) if field.isdecimal() else None for field in fields]
        driver = fields[3]
        screen = {"enabled": True, "disabled": False, "yes": True, "no": False}
        cards.append(
            Gpu(
                index=len(cards),
                name=fields[0],
                vram_total_bytes=(numbers[1] or 0) << 20,
                vram_free_bytes=(numbers[2] or 0) << 20,
                pcie_generation=numbers[4],
                pcie_generation_max=numbers[5],
                pcie_width=numbers[6],
                pcie_width_max=numbers[7],
                has_display=screen.get(fields[8].lower()),
            )
        )
    return GpuReport(tuple(cards), driver, "nvidia-smi" if cards else "")


def _whole(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 <= value < 1 << 62 else None  # "not available" is the largest number


def _text(value: object) -> str:
    if isinstance(value, bytes):  # older versions of the library
        return value.decode("utf-8", errors="replace").strip()
    return value.strip() if isinstance(value, str) else ""


def _pair(value: object) -> tuple[int, int] | None:
    if isinstance(value, tuple | list) and len(value) == 2:
        major, minor = _whole(value[0]), _whole(value[1])
        if major is not None and minor is not None:
            return major, minor
    return None
