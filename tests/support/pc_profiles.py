"""PCs for tests, as a survey would find them: memory as real kits report it, cards as drivers do."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from engine.core.cpu_features import CpuFeatures
from engine.core.drive_speed import DriveSpeed
from engine.core.drives import Drive
from engine.core.environment import Environment
from engine.core.gpu import Gpu, GpuProcess, GpuReport
from engine.core.machine import Machine
from engine.core.network_reach import Reach, ReachState
from engine.core.note import Note
from engine.core.other_cards import ListedCard
from engine.core.survey import Survey

GIB = 1 << 30
NVME = DriveSpeed(9e-5, 3.2e9, is_unbuffered=True)
SATA_SSD = DriveSpeed(1.4e-4, 5.2e8, is_unbuffered=True)
USB_STICK = DriveSpeed(1.2e-3, 9e7, is_unbuffered=True)
HARD_DISK = DriveSpeed(9.5e-3, 1.6e8, is_unbuffered=True)

_CPUS = {
    "avx512": CpuFeatures(avx2=True, avx512=True, source="cpuid"),
    "avxvnni": CpuFeatures(avx2=True, avx_vnni=True, source="cpuid"),
    "avx2": CpuFeatures(avx2=True, source="cpuid"),
    "old": CpuFeatures(source="cpuid"),
    "arm": CpuFeatures(is_x86=False),
}


def card(
    name: str,
    vram_gib: float,
    capability: tuple[int, int] = (8, 9),
    *,
    index: int = 0,
    has_display: bool | None = False,
    taken_gib: float = 0.3,
    per_s: float | None = None,
    lanes: int = 16,
    processes: Sequence[GpuProcess] = (),
) -> Gpu:
    """A card; drivers report a little less than the box says."""
    total = int(vram_gib * GIB * 0.985)
    return Gpu(
        index=index,
        name=name,
        vram_total_bytes=total,
        vram_free_bytes=total - int(taken_gib * GIB),
        compute_capability=capability,
        pcie_generation=1,
        pcie_generation_max=4,
        pcie_width=lanes,
        pcie_width_max=lanes,
        has_display=has_display,
        memory_bytes_per_s=per_s,
        processes=tuple(processes),
    )


def drive(
    free_gb: float, speed: DriveSpeed | None = NVME, mount: str = "/", kind: str = "ext4"
) -> Drive:
    """A drive with room."""
    return Drive(Path(mount), kind, int(2e12), int(free_gb * 1e9), speed=speed)


def pc(
    ram_gib: float = 62.7,
    *,
    free_share: float = 0.85,
    cards: Sequence[Gpu] = (),
    driver: str = "580.95.05",
    cpu: str = "avx512",
    cores: int = 8,
    slow_cores: int = 0,
    bandwidth: float | None = 60e9,
    data_drive: Drive | None = None,
    other_drives: Sequence[Drive] = (),
    system: str = "Linux",
    is_wsl: bool = False,
    container: str = "",
    has_memory_limit: bool = False,
    cpu_limit: float | None = None,
    is_laptop: bool = False,
    on_battery: bool = False,
    is_admin: bool = False,
    swap_gib: float = 8,
    other_cards: Sequence[ListedCard] = (),
    reach: Sequence[ReachState] = (ReachState.REACHED, ReachState.REACHED),
    notes: Sequence[Note] = (),
) -> Survey:
    """A PC; what is not said is an ordinary one with 64 GB and no card."""
    total = int(ram_gib * GIB)
    own = data_drive or drive(900)
    hosts = ("https://huggingface.co", "https://hf-mirror.com")
    return Survey(
        machine=Machine(
            system=system,
            cpu_name="Some processor",
            physical_cores=cores + slow_cores,
            logical_cores=2 * cores + slow_cores,
            ram_total_bytes=total,
            ram_available_bytes=int(total * free_share),
            swap_total_bytes=int(swap_gib * GIB),
        ),
        environment=Environment(
            system=system,
            version=f"Some {system}",
            architecture="aarch64" if cpu == "arm" else "x86_64",
            is_wsl=is_wsl,
            container=container,
            has_memory_limit=has_memory_limit,
            cpu_limit=cpu_limit,
            is_laptop=is_laptop,
            on_battery=on_battery if is_laptop else None,
            is_admin=is_admin,
            swap_total_bytes=int(swap_gib * GIB),
        ),
        cpu=_CPUS[cpu],
        fast_cores=cores,
        slow_cores=slow_cores,
        memory_bytes_per_s=bandwidth,
        gpus=GpuReport(tuple(cards), driver if cards else "", "nvml" if cards else ""),
        other_cards=tuple(other_cards),
        data_drive=own,
        drives=(own, *other_drives),
        reach=tuple(Reach(url, state) for url, state in zip(hosts, reach, strict=True)),
        notes=tuple(notes),
        took_s=3.0,
    )
