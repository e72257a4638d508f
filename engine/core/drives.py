"""The drives of this machine: room, file system, and how fast they are.

`drive_speed.py` measures; this finds the drives, leaves out what is none (the system's own and
read-only ones), and compares with what the system says of a drive.
"""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

import psutil

from engine.core.drive_speed import DriveKind, DriveSpeed, measure_drive
from engine.core.note import Note

_NETWORK = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "sshfs", "fuse.sshfs", "9p", "webdav"}
)
_MEMORY = frozenset({"tmpfs", "ramfs", "devtmpfs"})
_NO_DRIVE = frozenset(
    {"squashfs", "iso9660", "udf", "cdfs", "efivarfs", "proc", "sysfs", "cgroup2"}
)
_LEAST_BYTES = 4 << 30  # smaller ones hold boot files


@dataclass(frozen=True, slots=True)
class Drive:
    r"""One drive (or part of one) with a file system.

    Attributes:
        mount: where it is, such as `D:\` or `/home`.
        file_system: such as `ntfs`, `ext4`; empty when unknown.
        total_bytes: its size.
        free_bytes: room for this person.
        is_network: whether it is another machine's.
        is_memory: whether it lies in RAM, gone at the next start.
        speed: measured; None when it was not.
        claims_to_turn: what the system says of it; None when it says nothing.
    """

    mount: Path
    file_system: str
    total_bytes: int
    free_bytes: int
    is_network: bool = False
    is_memory: bool = False
    speed: DriveSpeed | None = None
    claims_to_turn: bool | None = None

    @property
    def kind(self) -> DriveKind:
        """What it is: by its speed, else as the system says."""
        measured = self.speed.kind if self.speed is not None else DriveKind.UNKNOWN
        if measured is not DriveKind.UNKNOWN or self.claims_to_turn is None:
            return measured
        return DriveKind.HARD_DISK if self.claims_to_turn else DriveKind.SOLID_STATE

    def notes(self) -> list[Note]:
        """What is worth saying about it: sources that disagree."""
        measured = self.speed.kind if self.speed is not None else DriveKind.UNKNOWN
        says_disk, is_disk = self.claims_to_turn, measured is DriveKind.HARD_DISK
        if says_disk is None or measured is DriveKind.UNKNOWN or says_disk == is_disk:
            return []
        params = {
            "drive": str(self.mount),
            "measured": measured.value,
            "system": "hdd" if says_disk else "ssd",
        }
        return [Note("drive_sources_disagree", params)]


def list_drives() -> list[Drive]:
    """All drives that could hold a model, without their speed."""
    try:
        partitions = psutil.disk_partitions(all=sys.platform != "win32")
    except OSError:
        return []
    drives: dict[tuple[int, str], Drive] = {}
    for partition in partitions:
        kind = partition.fstype.lower()
        options = partition.opts.split(",")
        if kind in _NO_DRIVE or "cdrom" in options or "ro" in options:
            continue
        mount = Path(partition.mountpoint)
        if sys.platform != "win32" and not mount.is_dir():
            continue  # single files are mounted into containers
        drive = drive_at(mount, kind, is_remote="remote" in options)
        if drive is None or drive.total_bytes < _LEAST_BYTES or drive.is_memory:
            continue
        # One drive is often seen at several places: the shortest one counts.
        key = _device(mount), "" if sys.platform != "win32" else str(mount)
        known = drives.get(key)
        if known is None or len(str(mount)) < len(str(known.mount)):
            drives[key] = drive
    return sorted(drives.values(), key=lambda drive: str(drive.mount))


def drive_at(mount: Path, file_system: str = "", *, is_remote: bool = False) -> Drive | None:
    """The drive at a mount point; None when it does not answer."""
    try:
        usage = shutil.disk_usage(mount)
    except OSError:
        return None
    return Drive(
        mount=mount,
        file_system=file_system,
        total_bytes=usage.total,
        free_bytes=usage.free,
        is_network=is_remote or file_system in _NETWORK or str(mount).startswith("\\\\"),
        is_memory=file_system in _MEMORY,
        claims_to_turn=_claims_to_turn(mount),
    )


def drive_of(folder: Path) -> Drive | None:
    """The drive that a folder is, or will be, on."""
    place = existing_parent(folder)
    try:
        partitions = psutil.disk_partitions(all=True)
    except OSError:
        partitions = []
    best, kind, is_remote = None, "", False
    for partition in partitions:
        mount = Path(partition.mountpoint)
        if place.is_relative_to(mount) and (best is None or len(mount.parts) >= len(best.parts)):
            best, kind = mount, partition.fstype.lower()
            is_remote = "remote" in partition.opts.split(",")  # Windows' word for mapped drives
    return drive_at(best, kind, is_remote=is_remote) if best is not None else drive_at(place)


def existing_parent(folder: Path) -> Path:
    """The folder itself, or the nearest one above it that exists."""
    current = folder.absolute()
    while not current.exists() and current.parent != current:
        current = current.parent
    try:
        return current.resolve()
    except OSError:
        return current


def speed_of(folder: Path, time_limit_s: float) -> DriveSpeed | None:
    """Measured speed of the drive that a folder is, or will be, on."""
    place = existing_parent(folder)
    device = _device(place)
    program = Path(__file__).resolve().parents[2]
    nearby = [path for path in (program, Path(sys.prefix)) if _device(path) == device]
    return measure_drive(place, nearby, time_limit_s)


def _device(path: Path) -> int:
    try:
        return path.stat().st_dev
    except OSError:
        return -1


def _claims_to_turn(mount: Path) -> bool | None:
    """Linux's flag for disks that turn; wrong behind virtual machines and USB bridges."""
    if sys.platform == "win32":
        return None
    number = _device(mount)
    if number < 0 or os.major(number) == 0:
        return None
    device = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}")
    for folder in (device, device / ".."):
        try:
            text = (folder / "queue" / "rotational").read_text(encoding="ascii").strip()
        except (OSError, ValueError):
            continue
        return text == "1"
    return None
