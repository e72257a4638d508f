"""Keep a mapped model's tensors in memory: the system may not push their pages out.

Without it, pages of experts that nobody asked for in a while leave memory when another program needs it, and
the next token that wants them waits for the disk. Locking needs a permission (`ulimit -l` on Linux; a
working set that Windows grants) and memory that is really there; where either is missing, nothing is
kept and the reason is returned as a sentence, because an engine without locked memory still runs.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import mmap
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from engine.gguf.reader import Tensor

Progress = Callable[[int, int], None]  # (bytes done, bytes in all)

_PIECE_BYTES = 64 << 20  # locking reads what is not in memory yet: small enough to show progress
_SPARE_BYTES = 256 << 20  # of the working set, for everything that is not locked


class Locker(Protocol):
    """An operating system's way to lock memory."""

    def prepare(self, num_bytes: int) -> None:
        """Ask for the right to lock so much; without effect where it is not given."""

    def lock(self, address: int, num_bytes: int) -> None:
        """Lock whole pages, or raise OSError."""

    def unlock(self, address: int, num_bytes: int) -> None:
        """Undo `lock`; errors do not matter."""


@dataclass(frozen=True, slots=True)
class LockResult:
    """What came of it.

    Attributes:
        num_bytes: locked, whole pages; 0 when locking failed.
        problem: why nothing is locked, as a sentence; empty when all is.
    """

    num_bytes: int
    problem: str = ""


def lock_tensors(
    tensors: Iterable[Tensor], progress: Progress, locker: Locker | None = None
) -> LockResult:
    """Lock the pages of mapped tensors for as long as they stay mapped.

    Args:
        tensors: their data must be views of a mapping.
        progress: called after each piece.
        locker: the operating system's; chosen by itself.
    """
    ranges = [(start, end - start) for start, end in _page_ranges(tensors)]
    return lock_ranges(ranges, progress, locker)


def lock_ranges(
    ranges: Sequence[tuple[int, int]],
    progress: Progress,
    locker: Locker | None = None,
    way_back: str = "turn lock_memory off",
) -> LockResult:
    """Lock whole pages, given as address and bytes, for as long as they stay mapped.

    Args:
        ranges: ascending, none twice.
        progress: called after each piece.
        locker: the operating system's; chosen by itself.
        way_back: what to change where it is not allowed, for the sentence.
    """
    chosen = locker if locker is not None else system_locker()
    total = sum(size for _, size in ranges)
    chosen.prepare(total)
    done: list[tuple[int, int]] = []
    num_bytes = 0
    for start, size in _pieces(ranges):
        try:
            chosen.lock(start, size)
        except OSError as error:
            for piece in done:
                chosen.unlock(*piece)
            return LockResult(0, _problem(error, num_bytes, total, way_back))
        done.append((start, size))
        num_bytes += size
        progress(num_bytes, total)
    return LockResult(num_bytes)


def system_locker() -> Locker:
    """This operating system's."""
    if sys.platform == "win32":
        return _WindowsLocker(ctypes.WinDLL("kernel32", use_last_error=True), ctypes.get_last_error)
    return _PosixLocker(ctypes.CDLL(None, use_errno=True))


def _page_ranges(tensors: Iterable[Tensor]) -> Iterator[tuple[int, int]]:
    """Start and end of the pages that hold the tensors, ascending, none twice."""
    page = mmap.PAGESIZE
    spans = sorted(
        (
            tensor.data.ctypes.data // page * page,
            -(-(tensor.data.ctypes.data + size) // page) * page,
        )
        for tensor in tensors
        if (size := tensor.data.nbytes)
    )
    current: tuple[int, int] | None = None
    for start, end in spans:
        if current is not None and start <= current[1]:
            current = (current[0], max(current[1], end))
            continue
        if current is not None:
            yield current
        current = (start, end)
    if current is not None:
        yield current


def _pieces(ranges: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Address and size of pieces of ranges, given alike."""
    return itertools.chain.from_iterable(
        (
            (at, min(_PIECE_BYTES, start + size - at))
            for at in range(start, start + size, _PIECE_BYTES)
        )
        for start, size in ranges
    )


def _problem(error: OSError, num_bytes: int, total: int, way_back: str) -> str:
    way_out = (
        "close other programs"
        if os.name == "nt"
        else "raise the limit (`ulimit -l unlimited`, or LimitMEMLOCK= of a service)"
    )
    return (
        f"The model's {total / 1e9:.1f} GB are not locked into memory: after {num_bytes / 1e9:.1f} GB "
        f"the system refused ({error.strerror or error}); it runs without. To change that, {way_out}, "
        f"or {way_back}."
    )


class _PosixLocker:
    """`mlock` of the C library."""

    def __init__(self, libc: ctypes.CDLL) -> None:
        self._libc = libc
        for function in (libc.mlock, libc.munlock):
            function.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
            function.restype = ctypes.c_int

    def prepare(self, num_bytes: int) -> None:
        del num_bytes  # the limit is raised as far as it goes
        raise_lock_limit()

    def lock(self, address: int, num_bytes: int) -> None:
        if self._libc.mlock(address, num_bytes) != 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))

    def unlock(self, address: int, num_bytes: int) -> None:
        self._libc.munlock(address, num_bytes)


def raise_lock_limit() -> None:
    """Set the soft limit of locked memory to the hard one, where there are such limits."""
    if sys.platform != "win32":
        import resource  # noqa: PLC0415 - not on Windows

        _, hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)
        with contextlib.suppress(OSError, ValueError):  # the limit stays, and `lock` says so
            resource.setrlimit(resource.RLIMIT_MEMLOCK, (hard, hard))


class _WindowsLocker:
    """`VirtualLock`, after the working set has been made large enough for it.

    Args:
        kernel: kernel32.
        last_error: the number of the last error of a call.
    """

    def __init__(self, kernel: ctypes.CDLL, last_error: Callable[[], int]) -> None:
        self._kernel = kernel
        self._last_error = last_error
        kernel.GetCurrentProcess.restype = ctypes.c_void_p
        kernel.SetProcessWorkingSetSize.argtypes = [
            ctypes.c_void_p,
            ctypes.c_size_t,
            ctypes.c_size_t,
        ]
        for function in (kernel.VirtualLock, kernel.VirtualUnlock):
            function.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
            function.restype = ctypes.c_int

    def prepare(self, num_bytes: int) -> None:
        least = num_bytes + _SPARE_BYTES
        process = self._kernel.GetCurrentProcess()
        self._kernel.SetProcessWorkingSetSize(process, least, least + _SPARE_BYTES)

    def lock(self, address: int, num_bytes: int) -> None:
        if not self._kernel.VirtualLock(address, num_bytes):
            code = self._last_error()
            raise OSError(code, f"Windows error {code}")

    def unlock(self, address: int, num_bytes: int) -> None:
        self._kernel.VirtualUnlock(address, num_bytes)
