"""One download per data folder: a lock of the operating system, which a crash gives back."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from installer.download.disk import disk_error, make_folder
from installer.errors import BusyError

LOCK_NAME = ".download.lock"
# Windows locks bytes, and other processes cannot read them: the number stands before them.
_LOCKED_BYTE = 4096


@contextlib.contextmanager
def download_lock(models_dir: Path) -> Iterator[None]:
    """Hold the lock inside the block.

    Raises:
        BusyError: another process (or this one) holds it.
        DiskError: the folder cannot be written.
    """
    make_folder(models_dir)
    path = models_dir / LOCK_NAME
    try:
        file = path.open("a+b", buffering=0)
    except OSError as error:
        raise disk_error(error, path) from error
    with file:
        if not _try_lock(file):
            file.seek(0)
            pid = file.read(32).decode("ascii", "replace").strip()
            raise BusyError(
                f"Another installer (process {pid}) is already downloading to {models_dir}. Wait "
                "for it, or close it.",
                params={"pid": pid, "path": str(models_dir)},
            )
        file.truncate(0)
        file.write(f"{os.getpid()}\n".encode())
        try:
            yield
        finally:
            _unlock(file)


def _try_lock(file: BinaryIO) -> bool:
    if sys.platform == "win32":
        import msvcrt  # noqa: PLC0415  # Windows only

        file.seek(_LOCKED_BYTE)
        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True
    else:  # noqa: RET505  # one branch for each system, as the type checker reads it
        import fcntl  # noqa: PLC0415  # not on Windows

        try:
            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:  # a network drive without locks: better unguarded than unusable
            return True
        return True


def _unlock(file: BinaryIO) -> None:
    if sys.platform == "win32":
        import msvcrt  # noqa: PLC0415  # Windows only

        file.seek(_LOCKED_BYTE)
        msvcrt.locking(file.fileno(), msvcrt.LK_UNLCK, 1)
    else:
        import fcntl  # noqa: PLC0415  # not on Windows

        with contextlib.suppress(OSError):
            fcntl.flock(file.fileno(), fcntl.LOCK_UN)
