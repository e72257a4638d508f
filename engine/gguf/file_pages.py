"""Pages of mapped files: which are not in memory, and asking the disk for them before they are needed.

Left to itself the system reads a mapped file when a page is touched, one fault after the other, and as
much around it as its read-ahead says (8 MB on some systems, for matrices of half a megabyte). Asked for
many ranges at once, the disk works on all of them together.

    pages = system_pages()
    missing = pages.missing_bytes(ranges)      # of each range; None: the system does not tell
    pages.request(ranges)                      # returns at once
    pages.wait(ranges)                         # until they are there; OSError: the file cannot be read

A range is an address and a number of bytes within one mapping; ends are rounded to pages. What a system
cannot do has no effect: pages then come when they are touched. Knows no tensors.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import sys
from collections.abc import Sequence
from typing import Protocol

import numpy as np

Range = tuple[int, int]  # (address, bytes)

_MADV_RANDOM = 1
_MADV_WILLNEED = 3
_MADV_POPULATE_READ = 22  # Linux 5.14
_IS_THERE = 1  # bit of a page in the answer of `mincore`


class FilePages(Protocol):
    """What an operating system can do with mapped pages."""

    def missing_bytes(self, ranges: Sequence[Range]) -> list[int] | None:
        """Bytes of each range that are not in memory; None where the system does not tell."""

    def expect_random(self, ranges: Sequence[Range]) -> None:
        """A fault in these ranges shall read no more than its page."""

    def request(self, ranges: Sequence[Range]) -> None:
        """Have the disk read what is missing, without waiting for it."""

    def wait(self, ranges: Sequence[Range]) -> bool:
        """Wait until all of it is in memory; False where the system cannot.

        Raises:
            OSError: the file cannot be read there.
        """


def system_pages(*, can_look: bool = True) -> FilePages:
    """This operating system's; `can_look` as for `LinuxPages`."""
    if sys.platform == "win32":
        return WindowsPages(ctypes.WinDLL("kernel32", use_last_error=True))
    return LinuxPages(ctypes.CDLL(None, use_errno=True), can_look=can_look)


def whole_pages(address: int, num_bytes: int) -> Range:
    """The pages that hold a range."""
    page = mmap.PAGESIZE
    first = address // page * page
    return first, -(-(address + num_bytes) // page) * page - first


def joined(ranges: Sequence[Range]) -> list[Range]:
    """Ranges of whole pages in ascending order; those that touch are one."""
    result: list[Range] = []
    for address, num_bytes in sorted(whole_pages(*one) for one in ranges):
        if result and address <= sum(result[-1]):
            start = result[-1][0]
            result[-1] = (start, max(sum(result[-1]), address + num_bytes) - start)
        else:
            result.append((address, num_bytes))
    return result


class LinuxPages:
    """`mincore` and `madvise` of the C library.

    Args:
        libc: the C library.
        can_look: whether this process may know what of the file is in memory: since Linux 5.2 that is
            for those alone who may write it, everybody else is told that all is there.
    """

    def __init__(self, libc: ctypes.CDLL, *, can_look: bool = True) -> None:
        self._libc = libc
        self._can_look = can_look
        self._can_wait = True
        self._vector = np.zeros(0, np.uint8)
        libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        libc.mincore.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p]
        for function in (libc.madvise, libc.mincore):
            function.restype = ctypes.c_int

    def missing_bytes(self, ranges: Sequence[Range]) -> list[int] | None:
        """By `mincore`."""
        if not self._can_look:
            return None
        result = []
        for address, num_bytes in (whole_pages(*one) for one in ranges):
            count = num_bytes // mmap.PAGESIZE
            if count > len(self._vector):
                self._vector = np.zeros(count, np.uint8)
            if self._libc.mincore(address, num_bytes, self._vector.ctypes.data) != 0:
                return None
            there = int(np.count_nonzero(self._vector[:count] & _IS_THERE))
            result.append((count - there) * mmap.PAGESIZE)
        return result

    def expect_random(self, ranges: Sequence[Range]) -> None:
        """`MADV_RANDOM`; errors do not matter."""
        for address, num_bytes in joined(ranges):
            self._libc.madvise(address, num_bytes, _MADV_RANDOM)

    def request(self, ranges: Sequence[Range]) -> None:
        """`MADV_WILLNEED`; errors do not matter, `wait` meets them."""
        for address, num_bytes in joined(ranges):
            self._libc.madvise(address, num_bytes, _MADV_WILLNEED)

    def wait(self, ranges: Sequence[Range]) -> bool:
        """`MADV_POPULATE_READ`: where touching would end the process, this says so instead."""
        for address, num_bytes in joined(ranges) if self._can_wait else ():
            while self._libc.madvise(address, num_bytes, _MADV_POPULATE_READ) != 0:
                code = ctypes.get_errno()
                if code in {errno.EAGAIN, errno.EINTR}:
                    continue
                if code == errno.EINVAL:  # the kernel is older
                    self._can_wait = False
                    return False
                raise OSError(code, os.strerror(code))
        return self._can_wait


class _MemoryRange(ctypes.Structure):
    """`WIN32_MEMORY_RANGE_ENTRY`."""

    _fields_ = (("address", ctypes.c_void_p), ("num_bytes", ctypes.c_size_t))


class WindowsPages:
    """`PrefetchVirtualMemory`, all ranges in one call; nothing tells what is in the file cache.

    Args:
        kernel: kernel32.
    """

    def __init__(self, kernel: ctypes.CDLL) -> None:
        self._kernel = kernel
        kernel.GetCurrentProcess.restype = ctypes.c_void_p
        kernel.PrefetchVirtualMemory.restype = ctypes.c_int
        kernel.PrefetchVirtualMemory.argtypes = [
            ctypes.c_void_p,
            ctypes.c_size_t,
            ctypes.c_void_p,
            ctypes.c_ulong,
        ]

    def missing_bytes(self, ranges: Sequence[Range]) -> None:
        """Unknown."""

    def expect_random(self, ranges: Sequence[Range]) -> None:
        """Without effect: Windows reads little around a fault by itself."""

    def request(self, ranges: Sequence[Range]) -> None:
        """Errors do not matter: pages then come when they are touched."""
        wanted = joined(ranges)
        if wanted:
            entries = (_MemoryRange * len(wanted))(*(_MemoryRange(*one) for one in wanted))
            self._kernel.PrefetchVirtualMemory(
                self._kernel.GetCurrentProcess(), len(wanted), ctypes.addressof(entries), 0
            )

    def wait(self, ranges: Sequence[Range]) -> bool:
        """Not possible: touching a page that cannot be read ends the process."""
        del ranges
        return False


def may_look_into_cache(paths: Sequence[str | os.PathLike[str]]) -> bool:
    """Whether `mincore` tells this process the truth about these files (Linux)."""
    user = os.geteuid() if hasattr(os, "geteuid") else 0
    try:
        return all(user in {0, os.stat(one).st_uid} or os.access(one, os.W_OK) for one in paths)  # noqa: PTH116  # any path-like
    except OSError:
        return False
