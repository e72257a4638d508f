"""Copies a large file so that it can be interrupted anywhere, and reads the copy again to be sure.

The copy has the suffix `.moving` until it was compared; then it gets its name, and the time of the
original. A second call goes on where the first one was interrupted.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
from pathlib import Path

from installer.download.control import Control
from installer.download.disk import hash_file, rename
from installer.download.progress import Phase
from installer.download.reporter import Reporter
from installer.errors import DiskError

PART_SUFFIX = ".moving"
_READ_BYTES = 4 << 20


def copied_bytes(target: Path) -> int:
    """Bytes of a copy that are there already."""
    for path in (target, target.with_name(target.name + PART_SUFFIX)):
        with contextlib.suppress(OSError):
            return path.stat().st_size
    return 0


def copy_verified(source: Path, target: Path, control: Control, reporter: Reporter) -> None:
    """Copy a file, unless the copy is there.

    Raises:
        OSError: it cannot be read or written.
        DiskError: the copy is not what was written.
        StoppedError: that was asked for; what was copied is kept.
    """
    stat = source.stat()
    if _is_copied(target, stat):
        reporter.moved(stat.st_size)
        return
    part = target.with_name(target.name + PART_SUFFIX)
    for _attempt in range(2):
        wanted = _copy(source, part, stat.st_size, control, reporter)
        reporter.begin(Phase.VERIFYING, target.name, stat.st_size)
        if hash_file(part, control, reporter.read) == wanted:
            shutil.copystat(source, part)
            rename(part, target)
            return
        reporter.take_back(stat.st_size)
        part.unlink()  # the part of an earlier try, or the drive
    raise DiskError(
        f"The copy of {source} on the drive of {target.parent} is not what was written there. The "
        "original is kept. Check that drive, or choose another folder.",
        code="copy_differs",
        params={"path": str(target)},
    )


def _is_copied(target: Path, stat: os.stat_result) -> bool:
    try:
        found = target.stat()
    except OSError:
        return False
    # Drives keep times more or less exactly; FAT knows every second second.
    return found.st_size == stat.st_size and abs(found.st_mtime - stat.st_mtime) <= 2


def _copy(source: Path, part: Path, size: int, control: Control, reporter: Reporter) -> str:
    """Bring the part up to the whole; SHA-256 of the original."""
    digest = hashlib.sha256()
    done = 0
    with source.open("rb", buffering=0) as original, part.open("ab", buffering=0) as copy:
        have = copy.tell()
        if have > size:
            copy.truncate(0)
            have = 0
        buffer = memoryview(bytearray(_READ_BYTES))
        while count := original.readinto(buffer):
            control.wait_while_paused()
            digest.update(buffer[:count])
            rest = buffer[max(0, have - done) : count]
            while len(rest):
                rest = rest[copy.write(rest) or 0 :]
            done += count
            reporter.moved(count)
        os.fsync(copy.fileno())
        if hasattr(os, "posix_fadvise"):  # or memory would be compared, and not the drive
            os.posix_fadvise(copy.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return digest.hexdigest()
