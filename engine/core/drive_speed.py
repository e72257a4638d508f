"""How fast a drive is: 64 random reads of 4 KiB and some sequential ones, past the system's cache.

The n-gram table is read in such small pieces, so a drive is judged by what it does and not by what it
says of itself. Read are files that are there (those that a drive has just been given may still lie in
its own memory); where none is large enough, one is written for it and deleted again.
"""

from __future__ import annotations

import contextlib
import enum
import os
import random
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.core.unbuffered import LARGEST_READ_BYTES, Reader, open_reader

RANDOM_READS = 64
SAMPLE_BYTES = 64 << 20
_BLOCK = 4096
_LEAST_FILE_BYTES = 16 << 20
_MOST_ENTRIES = 3000  # looked at in the search for a large file
_SLOW_READ_S = 2.5e-3  # a disk that turns: half a turn alone is 4 ms
_FAST_READ_S = 0.8e-3


class DriveKind(enum.StrEnum):
    """What a drive is, by its speed."""

    SOLID_STATE = "ssd"
    SLOW_SOLID_STATE = "slow_ssd"  # USB sticks, network drives, worn-out or busy ones
    HARD_DISK = "hdd"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class DriveSpeed:
    """Measured speed.

    Attributes:
        random_read_s: median time of one read of 4 KiB.
        sequential_bytes_per_s: of reads of 4 MiB in a row.
        is_unbuffered: whether the system's cache was passed by; else the drive may be slower.
    """

    random_read_s: float
    sequential_bytes_per_s: float
    is_unbuffered: bool

    @property
    def kind(self) -> DriveKind:
        """What the speed says of the drive; nothing when it may be the cache's."""
        if not self.is_unbuffered:
            return DriveKind.UNKNOWN
        if self.random_read_s >= _SLOW_READ_S:
            return DriveKind.HARD_DISK
        if self.random_read_s > _FAST_READ_S:
            return DriveKind.SLOW_SOLID_STATE
        return DriveKind.SOLID_STATE


def measure_drive(
    folder: Path, search: Sequence[Path] = (), time_limit_s: float = 4.0
) -> DriveSpeed | None:
    """Speed of the drive that `folder` is on.

    Args:
        folder: where a file is written when none is found; made by nobody here.
        search: folders on the same drive that may hold large files.
        time_limit_s: reading ends after that, with what was read.

    Returns:
        None when there is no file to read and none may be written.
    """
    deadline = time.monotonic() + time_limit_s
    path = largest_file([folder, *search], deadline - time_limit_s * 0.75)
    with contextlib.ExitStack() as stack:
        if path is None:
            path = stack.enter_context(_written_file(folder))
            if path is None:
                return None
        try:
            size = path.stat().st_size
            reader = stack.enter_context(open_reader(path))
            return _measure(reader, size, deadline)
        except OSError:
            return None


def measure_random_reads(
    path: Path, first: int, num_bytes: int, time_limit_s: float = 1.5
) -> DriveSpeed | None:
    """Speed of random reads in a part of a file; its sequential speed is left out, as 0.

    Returns:
        None when it cannot be read.
    """
    deadline = time.monotonic() + time_limit_s
    try:
        with open_reader(path) as reader:
            times = _random_reads(reader, first // _BLOCK, max(1, num_bytes // _BLOCK), deadline)
            return (
                DriveSpeed(statistics.median(times), 0.0, reader.is_unbuffered) if times else None
            )
    except OSError:
        return None


def largest_file(folders: Sequence[Path], deadline: float) -> Path | None:
    """The largest readable file in folders of one drive, of the first few thousand entries."""
    best: tuple[int, Path] | None = None
    seen = 0
    for folder in folders:
        waiting = [folder]
        while waiting and seen < _MOST_ENTRIES and time.monotonic() < deadline:
            current = waiting.pop(0)
            for entry in _entries(current):
                seen += 1
                try:
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(Path(entry.path))
                    elif entry.is_file(follow_symlinks=False):
                        size = entry.stat(follow_symlinks=False).st_size
                        if size >= max(_LEAST_FILE_BYTES, best[0] + 1 if best else 0):
                            path = Path(entry.path)
                            if os.access(path, os.R_OK):
                                best = size, path
                except OSError:
                    continue
        if best is not None and best[0] >= SAMPLE_BYTES:
            break
    return best[1] if best else None


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []


@contextlib.contextmanager
def _written_file(folder: Path) -> Iterator[Path | None]:
    block = os.urandom(1 << 20)
    path: Path | None = None
    try:
        handle, name = tempfile.mkstemp(prefix=".stratum-speed-", dir=folder)
        path = Path(name)
        with os.fdopen(handle, "wb") as file:
            for _ in range(SAMPLE_BYTES >> 20):
                file.write(block)
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        _remove(path)
        yield None
        return
    try:
        yield path
    finally:
        _remove(path)


def _remove(path: Path | None) -> None:
    if path is not None:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


def _random_reads(reader: Reader, first: int, blocks: int, deadline: float) -> list[float]:
    """Seconds of reads of one block each, at random places from block `first` on."""
    draw = random.Random()  # noqa: S311  # places in a file, no secret
    times: list[float] = []
    for _ in range(RANDOM_READS):
        began = time.perf_counter()
        if reader.read((first + draw.randrange(blocks)) * _BLOCK, _BLOCK) <= 0:
            break
        times.append(time.perf_counter() - began)
        if time.monotonic() > deadline:
            break
    return times


def _measure(reader: Reader, size: int, deadline: float) -> DriveSpeed | None:
    draw = random.Random()  # noqa: S311  # places in a file, no secret
    times = _random_reads(reader, 0, max(1, size // _BLOCK), deadline)
    if not times:
        return None
    # From a place of its own: the first bytes of a file are those that a cache has most often.
    whole = max(0, size - SAMPLE_BYTES) // LARGEST_READ_BYTES
    offset = draw.randrange(whole + 1) * LARGEST_READ_BYTES
    num_bytes = 0
    began = time.perf_counter()
    while num_bytes < SAMPLE_BYTES and offset + num_bytes < size:
        wanted = min(LARGEST_READ_BYTES, size - offset - num_bytes)
        count = reader.read(offset + num_bytes, -(-wanted // _BLOCK) * _BLOCK)
        if count <= 0:
            break
        num_bytes += count
        if time.monotonic() > deadline:
            break
    took_s = max(time.perf_counter() - began, 1e-9)
    return DriveSpeed(statistics.median(times), num_bytes / took_s, reader.is_unbuffered)
