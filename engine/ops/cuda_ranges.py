"""Copies and zeroing of many stretches of the card's memory at once (engine/kernels/cuda/ranges.cu)."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from engine.device.array import DeviceArray
from engine.ops.cuda_launch import Launcher, pointer

_THREADS = 256
_BLOCK_BYTES = 16 * _THREADS * 4  # a thread's turns are few, and so are the blocks
_MOST_BLOCKS = 256
_MOST_RANGES = 65535  # of a launch


@dataclass(frozen=True, slots=True)
class Range:
    """A stretch of memory.

    Attributes:
        target: address that is written.
        source: address that is read, on the card or pinned; None writes zeros.
        num_bytes: its size.
    """

    target: int
    source: int | None
    num_bytes: int


def page_ranges(arrays: Sequence[DeviceArray], copies: Sequence[tuple[int, int]]) -> list[Range]:
    """Copies of whole pages (or slots) in several arrays of the same first axis.

    Args:
        arrays: each `[pages, ...]`.
        copies: (from, to) page numbers.
    """
    ranges = []
    for array in arrays:
        page_bytes = array.nbytes // array.shape[0]
        ranges += [
            Range(array.address + to * page_bytes, array.address + source * page_bytes, page_bytes)
            for source, to in copies
        ]
    return ranges


def zero_ranges(arrays: Sequence[DeviceArray]) -> list[Range]:
    """Zeros for whole arrays (views of a slot's states, say)."""
    return [Range(array.address, None, array.nbytes) for array in arrays]


class CudaRanges:
    """Copying, zeroing, and taking rows."""

    def __init__(self, launcher: Launcher) -> None:
        self._launcher = launcher

    def copy_ranges(self, ranges: Sequence[Range]) -> None:
        """Do all of it, in any order; not to be captured.

        Args:
            ranges: targets overlap no other range.
        """
        for first in range(0, len(ranges), _MOST_RANGES):
            part = [r for r in ranges[first : first + _MOST_RANGES] if r.num_bytes]
            if not part:
                continue
            table = np.array([(r.target, r.source or 0, r.num_bytes) for r in part], np.int64)
            address = self._launcher.scratch("copy_ranges", table.nbytes)
            self._launcher.stream.upload(address, table)
            largest = max(r.num_bytes for r in part)
            self._launcher.launch(
                "copy_ranges",
                (min(_MOST_BLOCKS, -(-largest // _BLOCK_BYTES)), len(part), 1),
                (_THREADS, 1, 1),
                pointer(address),
            )

    def take_rows(self, source: DeviceArray, rows: DeviceArray, out: DeviceArray) -> None:
        """`out[i] = source[rows[i]]`, float32.

        Args:
            source: `[R, ...]`.
            rows: `[n]` int32 on the card.
            out: `[n, ...]`.
        """
        if not out.size:
            return
        width = out.size // len(out)
        self._launcher.launch(
            "take_rows",
            (min(_MOST_BLOCKS, -(-width // _THREADS)), len(out), 1),
            (_THREADS, 1, 1),
            *(pointer(source), pointer(rows), pointer(out), ctypes.c_int64(width)),
        )
