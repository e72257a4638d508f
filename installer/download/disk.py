"""The drive below a download: room, links, hashing, renaming; and a sentence when it refuses."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import psutil

from engine.core import files
from engine.core.errors import ResourceError
from engine.core.files import JsonObject, write_json
from engine.core.sizes import size_in_words
from installer.download.control import Control
from installer.errors import DiskError

# Never filled: a full drive breaks other programs, and on the system's drive the system.
RESERVE_BYTES = 1 << 30
# Copied where a link is impossible; more would cost the person's space and time.
LARGEST_COPY_BYTES = 64 << 20

_READ_BYTES = 4 << 20
_FAT_LIMIT_BYTES = (4 << 30) - 1
_FAT_NAMES = frozenset({"vfat", "msdos", "fat", "fat16", "fat32"})
# Windows (winerror.h): used by another process, or a part of it locked.
_WINDOWS_HELD = frozenset({32, 33})
# The device is not ready, gone, not connected; the network name is gone.
_WINDOWS_GONE = frozenset({21, 55, 64, 433, 1167})


def free_bytes(folder: Path) -> int:
    """Free space on the drive that `folder` is (or will be) on.

    Raises:
        DiskError: there is no such drive.
    """
    try:
        return shutil.disk_usage(existing_parent(folder)).free
    except OSError as error:
        raise disk_error(error, folder) from error


def existing_parent(folder: Path) -> Path:
    """The folder itself, or the nearest one above it that exists."""
    current = folder.absolute()
    while not current.exists() and current.parent != current:
        current = current.parent
    return current


def make_folder(folder: Path) -> None:
    """Make a folder and check that files can be written there.

    Raises:
        DiskError: they cannot.
    """
    probe = folder / ".stratum-write-test"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.write_bytes(b"x")
        probe.unlink()
    except OSError as error:
        raise disk_error(error, folder) from error


def check_largest_file(folder: Path, name: str, num_bytes: int) -> None:
    """Refuse a file that the drive's file system cannot hold.

    Raises:
        DiskError: the drive is formatted as FAT, whose files end at 4 GiB.
    """
    if num_bytes <= _FAT_LIMIT_BYTES or file_system_of(folder) not in _FAT_NAMES:
        return
    raise DiskError(
        f"The drive of {folder} is formatted as FAT32, which cannot hold files of 4 GiB and more; "
        f"{name} has {size_in_words(num_bytes)}. Choose a folder on another drive, or format this "
        "one as NTFS or exFAT.",
        code="file_too_large_for_drive",
        params={"path": str(folder), "file": name, "bytes": num_bytes},
    )


def file_system_of(folder: Path) -> str:
    """Name of the file system, such as `ext4` or `fat32`; empty when the system does not say."""
    place = existing_parent(folder).resolve()
    best, kind = -1, ""
    try:
        partitions = psutil.disk_partitions(all=True)
    except OSError:
        return ""
    for partition in partitions:
        mount = Path(partition.mountpoint)
        if place.is_relative_to(mount) and len(mount.parts) > best:
            best, kind = len(mount.parts), partition.fstype.lower()
    return kind


def disk_error(error: OSError, path: Path) -> DiskError:
    """The error for what the system said about a file or folder."""
    params: dict[str, str | int] = {"path": str(path), "reason": error.strerror or str(error)}
    windows_code = getattr(error, "winerror", None)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return DiskError(
            f"The drive of {path.parent} is full. Free some space and go on; what was fetched is "
            "kept.",
            code="disk_full",
            params=params,
        )
    if windows_code in _WINDOWS_HELD or error.errno in (errno.EBUSY, errno.ETXTBSY):
        return _held(path)
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        return DiskError(
            f"{path} cannot be written ({params['reason']}). Choose a folder that belongs to you.",
            code="folder_read_only",
            params=params,
        )
    if error.errno == errno.EFBIG:
        return DiskError(
            f"The drive of {path.parent} cannot hold a file this large (FAT32 ends at 4 GiB). "
            "Choose a folder on another drive.",
            code="file_too_large_for_drive",
            params=params,
        )
    gone = (errno.ENODEV, errno.ENXIO, errno.ENOENT, errno.ENOTCONN, errno.ESTALE)
    if windows_code in _WINDOWS_GONE or error.errno in gone:
        return DiskError(
            f"{path} cannot be reached any more. Connect its drive again, or choose another folder, "
            "then go on.",
            code="drive_gone",
            params=params,
        )
    return DiskError(
        f"{path} cannot be read or written ({params['reason']}). Check the drive, or choose another "
        "folder.",
        code="disk_failed",
        params=params,
    )


def write_record(path: Path, content: JsonObject) -> None:
    """Write one of the installer's own small files, whole or not at all.

    Raises:
        DiskError: that is impossible.
    """
    try:
        write_json(path, content)
    except ResourceError as error:
        cause = error.__cause__
        raise disk_error(
            cause if isinstance(cause, OSError) else OSError(str(error)), path
        ) from error


def rename(source: Path, target: Path) -> None:
    """Give a file its final name, with patience for a virus scanner.

    Raises:
        DiskError: it stays impossible.
    """
    try:
        files.rename_patiently(source, target)
    except PermissionError as error:
        # Its folder was written to a moment ago: on Windows, "access denied" is a scanner.
        raise (_held(target) if files.RENAME_PATIENCE_S else disk_error(error, target)) from error
    except OSError as error:
        raise disk_error(error, target) from error


def _held(path: Path) -> DiskError:
    return DiskError(
        f"Another program (often a virus scanner) holds {path}. Let it finish or make an exception "
        "for this folder there, then go on.",
        code="file_held",
        params={"path": str(path)},
    )


def link(source: Path, target: Path) -> bool:
    """Make `target` the same file as `source` without copying much; False when impossible.

    A hard link first; where the file system has none a symbolic link; a copy of a small file.

    Raises:
        DiskError: the target's folder cannot be written.
    """
    make_folder(target.parent)
    real = source.resolve()
    with contextlib.suppress(OSError):
        if target.exists() and target.samefile(real):
            return True
    temporary = target.with_name(target.name + ".link")
    for make in (os.link, os.symlink):
        with contextlib.suppress(OSError, NotImplementedError):
            temporary.unlink(missing_ok=True)
            make(real, temporary)
            rename(temporary, target)
            # When both names are of one file already, renaming does nothing.
            temporary.unlink(missing_ok=True)
            return True
    if real.stat().st_size > LARGEST_COPY_BYTES:
        return False
    try:
        shutil.copyfile(real, temporary)
    except OSError as error:
        raise disk_error(error, target) from error
    rename(temporary, target)
    return True


def hash_file(path: Path, control: Control, on_bytes: Callable[[int], None] | None = None) -> str:
    """SHA-256 of a file.

    Args:
        path: it.
        control: a stop or cancel ends the reading, a pause waits.
        on_bytes: told how many bytes were just read.

    Raises:
        DiskError: it cannot be read.
        StoppedError: that was asked for.
    """
    digest = hashlib.sha256()
    try:
        with path.open("rb", buffering=0) as file:
            buffer = bytearray(_READ_BYTES)
            view = memoryview(buffer)
            while count := file.readinto(buffer):
                control.wait_while_paused()
                digest.update(view[:count])
                if on_bytes is not None:
                    on_bytes(count)
    except OSError as error:
        raise disk_error(error, path) from error
    return digest.hexdigest()
