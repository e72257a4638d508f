"""Host arrays that a card reads and writes by itself, each with a mirror on the card.

A block is one piece of pinned memory that holds several arrays; its mirror has the same layout. So one
copy takes a whole plan over, and a view of a host array has its place in the mirror.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from engine.device.array import AnyArray, ArraySpace, DeviceArray
from engine.device.base import PinnedMemory

_ALIGNMENT = 16  # of each array in a block; kernels read four values at once


@dataclass(slots=True, eq=False)
class _Block:
    pinned: PinnedMemory
    start: int  # address on the host
    mirror: DeviceArray | None = None
    is_own: bool = True  # else another card's operations unlock it

    @property
    def num_bytes(self) -> int:
        return self.pinned.array.nbytes


class HostArrays:
    """All pinned arrays of one engine."""

    def __init__(self, space: ArraySpace) -> None:
        self._space = space
        self._blocks: list[_Block] = []  # by address
        self._starts: list[int] = []

    def new_block(
        self, parts: Sequence[tuple[tuple[int, ...], npt.DTypeLike]]
    ) -> list[npt.NDArray[Any]]:
        """Zeroed arrays of these shapes and types, in one block.

        Raises:
            ResourceError: the system locks no more memory.
        """
        offsets, end = [], 0
        for shape, dtype in parts:
            offsets.append(end)
            size = math.prod(shape) * np.dtype(dtype).itemsize
            end += -(-size // _ALIGNMENT) * _ALIGNMENT
        pinned = self._space.device.pinned(max(end, _ALIGNMENT))
        pinned.array[...] = 0
        self._add(_Block(pinned, _address(pinned.array)))
        return [
            pinned.array[at : at + math.prod(shape) * np.dtype(dtype).itemsize]
            .view(dtype)
            .reshape(shape)
            for at, (shape, dtype) in zip(offsets, parts, strict=True)
        ]

    def share(self, owner: HostArrays, array: AnyArray) -> None:
        """Take in another card's block that holds the array: it has a mirror on this card too.

        Raises:
            ValueError: the array lies in none of the owner's blocks.
        """
        block = owner._find(array)
        if block is None:
            raise ValueError("the array is not one of these operations' host arrays")
        self._add(_Block(block.pinned, block.start, is_own=False))

    def _add(self, block: _Block) -> None:
        place = bisect.bisect(self._starts, block.start)
        self._starts.insert(place, block.start)
        self._blocks.insert(place, block)

    def holds(self, array: AnyArray) -> bool:
        """Whether the array lies in one of the blocks."""
        return self._find(array) is not None

    def mirror(self, array: AnyArray) -> DeviceArray:
        """The place on the card of a contiguous array of a block; the mirror is made at first use.

        Raises:
            ValueError: the array lies in no block, or has gaps.
            DeviceMemoryError: there is no room for the mirror.
        """
        block = self._find(array)
        if block is None or not array.flags.c_contiguous:
            raise ValueError("the array is not one of these operations' host arrays")
        mirror = self._mirror_of(block)
        address = mirror.address + _address(array) - block.start
        return DeviceArray(self._space, address, array.shape, array.dtype, mirror)

    def card_address(self, array: AnyArray) -> int:
        """Under which address kernels read an array of a block in place, over the bus.

        Raises:
            ValueError: the array lies in no block.
        """
        block = self._find(array)
        if block is None:
            raise ValueError("the array is not one of these operations' host arrays")
        return block.pinned.device_address + _address(array) - block.start

    def upload_block(self, array: AnyArray) -> None:
        """Put a copy of the whole block of this array to its mirror into the stream.

        Raises:
            ValueError: the array lies in no block.
        """
        block = self._find(array)
        if block is None:
            raise ValueError("the array is not one of these operations' host arrays")
        self._space.stream.upload(self._mirror_of(block).address, block.pinned.array)

    def close(self) -> None:
        """Unlock the memory; the arrays must not be used any more."""
        for block in self._blocks:
            if block.is_own:
                block.pinned.free()
        self._blocks.clear()
        self._starts.clear()

    def _mirror_of(self, block: _Block) -> DeviceArray:
        if block.mirror is None:
            block.mirror = self._space.empty((block.num_bytes,), np.uint8)
        return block.mirror

    def _find(self, array: AnyArray) -> _Block | None:
        address = _address(array)
        place = bisect.bisect(self._starts, address) - 1
        if place < 0:
            return None
        block = self._blocks[place]
        return block if address + array.nbytes <= block.start + block.num_bytes else None


def _address(array: AnyArray) -> int:
    return int(array.__array_interface__["data"][0])
