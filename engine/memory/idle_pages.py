"""Give the memory of array parts back to the system whose contents nobody needs any more.

The arrays stay as they are: a part that is written to again gets memory again, and holds anything until then.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
from collections.abc import Iterable
from typing import Any

import numpy.typing as npt

_MADV_DONTNEED = 4


def forget(array: npt.NDArray[Any], indices: Iterable[int]) -> int:
    """Give back what lies under `array[i]`; whole pages alone.

    Args:
        array: contiguous, in memory of this process.
        indices: of its first axis.

    Returns:
        How many bytes the system got.
    """
    if not array.flags.c_contiguous or array.nbytes == 0:
        return 0
    size, base, page = array.strides[0], array.ctypes.data, mmap.PAGESIZE
    num_bytes = 0
    for index in indices:
        first = -(-(base + index * size) // page) * page
        last = (base + (index + 1) * size) // page * page
        if last > first and _discard(first, last - first):
            num_bytes += last - first
    return num_bytes


def _discard(address: int, num_bytes: int) -> bool:
    if sys.platform == "win32":
        discard = ctypes.WinDLL("kernel32").DiscardVirtualMemory
        discard.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
        return bool(discard(address, num_bytes) == 0)
    advise = ctypes.CDLL(None).madvise
    advise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return bool(advise(address, num_bytes, _MADV_DONTNEED) == 0)
