"""Keep ranges of a mapped model in memory: locked where they lie, or copied where they lie.

Locking costs nothing, but Linux allows a usual user a few megabytes of it. A copy needs no permission: a
file that is mapped privately gets pages of its own where it is written to, at the same addresses, and the
system can push those out to swap alone, not drop them. So nothing that computes knows the difference.

    with GgufFile(header, private=not can_lock(num_bytes)) as file:
        keep_ranges(file, ranges, progress)

Knows no experts. Copies drop the file's cached pages behind them, so that loading takes no more memory
than running.
"""

from __future__ import annotations

import mmap
import os
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from engine.gguf.file_pages import FilePages, Range, joined
from engine.gguf.memory_lock import lock_ranges, raise_lock_limit
from engine.gguf.reader import GgufFile

Progress = Callable[[int, int], None]  # (bytes done, bytes in all)

_PIECE_BYTES = 8 << 20
_PIECES_AHEAD = 4  # that the disk works on, for each thread
_THREADS = 4  # a new page is cleared and copied, which takes one processor longer than an SSD reads
_CAP_IPC_LOCK = 14  # bit of the effective capabilities: locks without a limit
_STATUS = Path("/proc/self/status")


@dataclass(frozen=True, slots=True)
class KeepResult:
    """What came of it.

    Attributes:
        num_bytes: that are held in memory now.
        is_copy: in pages of their own, not locked.
        problem: why it is less than asked for, as a sentence; empty when it is not.
    """

    num_bytes: int
    is_copy: bool
    problem: str = ""


def can_lock(num_bytes: int, status: Path = _STATUS) -> bool:
    """Whether this process may lock so much; its limit is raised as far as it goes.

    True on Windows, where the working set that is asked for decides.
    """
    if sys.platform == "win32":
        return True
    import resource  # noqa: PLC0415  # exists on POSIX only

    raise_lock_limit()
    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    if soft == resource.RLIM_INFINITY or soft >= num_bytes:
        return True
    return _has_capability(status)


def keep_ranges(
    file: GgufFile, ranges: Sequence[Range], progress: Progress, pages: FilePages
) -> KeepResult:
    """Hold ranges of a file's tensors in memory for as long as it is mapped.

    Args:
        file: mapped privately: copies; else: locks.
        ranges: addresses and bytes.
        progress: called after each piece.
        pages: to ask for the next pieces while one is copied.

    Raises:
        OSError: the file cannot be read.
    """
    wanted = joined(ranges)
    pieces = _pieces(wanted)
    total = sum(size for _, size in pieces)
    done = 0

    def keep(index: int) -> int:
        address, size = pieces[index]
        pages.request(pieces[index : index + _PIECES_AHEAD])
        pages.wait([(address, size)])
        if file.is_private:
            view = file.writable(address, size)
            # One byte of each page is enough for the system to make the page ours.
            view[:: mmap.PAGESIZE] = np.array(view[:: mmap.PAGESIZE])
            file.drop_cached(address, size)
        return size

    with ThreadPoolExecutor(_THREADS) as pool:
        for size in pool.map(keep, range(len(pieces))):
            done += size
            progress(done, total)
    if file.is_private:
        return KeepResult(done, is_copy=True)
    result = lock_ranges(wanted, progress, way_back="set expert_mode to mapped")
    return KeepResult(result.num_bytes, is_copy=False, problem=result.problem)


def _pieces(ranges: Sequence[Range]) -> list[Range]:
    return [
        (at, min(_PIECE_BYTES, start + size - at))
        for start, size in ranges
        for at in range(start, start + size, _PIECE_BYTES)
    ]


def _has_capability(status: Path) -> bool:
    try:
        lines = status.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return False
    for line in lines:
        if line.startswith("CapEff:"):
            return bool(int(line.split()[1], 16) >> _CAP_IPC_LOCK & 1)
    return False


def supports_private() -> bool:
    """Whether files can be mapped so that copies are made where they lie."""
    return os.name == "posix"
