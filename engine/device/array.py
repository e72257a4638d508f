"""Arrays in a card's memory, with as much of numpy's manner as model and sequences need.

A `DeviceArray` is an address with a shape: it can be sliced on its leading axes, copied, set from host
arrays and other device arrays, and read back. Nothing computes with it here; operations take its
address. All copies go through the space's stream, so they keep the order of the operations in it.

    space = ArraySpace(device, stream)
    states = space.zeros((4, 2, 8), np.float32)
    states[1] = np.ones((2, 8), np.float32)      # upload
    states[2] = states[1]                        # copy on the card
    states[2, 0].numpy()                         # download, (8,)
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from types import EllipsisType
from typing import TypeGuard, TypeVar, cast

import numpy as np
import numpy.typing as npt

from engine.device.base import Device, DeviceMemoryError, Memory, Stream

Index = int | slice | None | EllipsisType
AnyArray = npt.NDArray[np.generic]
_Value = TypeVar("_Value", bound=np.generic)

_MOST_KEPT_BYTES = 64 << 20  # an allocation costs the card a stop, and every pass makes one


class ArraySpace:
    """Where arrays lie: a card's memory, and the stream that orders what is done with them.

    Attributes:
        device: the card.
        stream: takes all copies of these arrays.
    """

    def __init__(self, device: Device, stream: Stream) -> None:
        self.device = device
        self.stream = stream
        self._kept: dict[int, list[Memory]] = {}  # by size
        self._kept_bytes = 0

    def empty(self, shape: tuple[int, ...], dtype: npt.DTypeLike = np.float32) -> DeviceArray:
        """An array of undefined content.

        Raises:
            DeviceMemoryError: there is no room for it.
        """
        if self._kept_bytes > _MOST_KEPT_BYTES:
            self.drop_kept()
        kind = np.dtype(dtype)
        rounding = self.device.array_rounding
        num_bytes = math.prod(shape) * kind.itemsize + self.device.array_margin
        num_bytes = max(-(-num_bytes // rounding), 1) * rounding
        kept = self._kept.get(num_bytes)
        if kept:
            memory = kept.pop()
            self._kept_bytes -= num_bytes
        else:
            memory = self._alloc(num_bytes)
        return DeviceArray(self, memory.address, shape, kind, _Allocation(self, memory, num_bytes))

    def zeros(self, shape: tuple[int, ...], dtype: npt.DTypeLike = np.float32) -> DeviceArray:
        """An array of zeros.

        Raises:
            DeviceMemoryError: there is no room for it.
        """
        array = self.empty(shape, dtype)
        array[...] = 0
        return array

    def upload(self, values: AnyArray) -> DeviceArray:
        """A copy of a host array.

        Raises:
            DeviceMemoryError: there is no room for it.
        """
        array = self.empty(values.shape, values.dtype)
        array[...] = values
        return array

    def _alloc(self, num_bytes: int) -> Memory:
        try:
            return self.device.alloc(num_bytes)
        except DeviceMemoryError as error:
            if not self._kept_bytes:
                error.params.setdefault("needed", num_bytes)  # drivers do not say it
                raise
        self.drop_kept()
        try:
            return self.device.alloc(num_bytes)
        except DeviceMemoryError as error:
            error.params.setdefault("needed", num_bytes)
            raise

    def drop_kept(self) -> None:
        """Give memory back that is kept for arrays to come."""
        self.stream.synchronize()
        # Taken out first: Python may collect arrays amid the loop, which come to those kept from now on.
        kept, self._kept, self._kept_bytes = self._kept, {}, 0
        for memories in kept.values():
            for memory in memories:
                memory.free()

    def _take_back(self, memory: Memory, num_bytes: int) -> None:
        """An array is gone; what uses its memory next comes behind it in the stream.

        Nothing is freed here: that may be amid a capture, whenever Python collects.
        """
        self._kept.setdefault(num_bytes, []).append(memory)
        self._kept_bytes += num_bytes


class _Allocation:
    """Memory that arrays share; goes back to its space with the last of them."""

    __slots__ = ("_memory", "_num_bytes", "_space")

    def __init__(self, space: ArraySpace, memory: Memory, num_bytes: int) -> None:
        self._space = space
        self._memory = memory
        self._num_bytes = num_bytes

    def __del__(self) -> None:
        self._space._take_back(self._memory, self._num_bytes)  # the other half of it


class DeviceArray:
    """A C-contiguous array on a card.

    Attributes:
        address: of its first value, in the card's address space.
        shape: its sizes.
        dtype: of its values.
    """

    __slots__ = ("_owner", "_space", "address", "dtype", "shape")

    def __init__(
        self,
        space: ArraySpace,
        address: int,
        shape: tuple[int, ...],
        dtype: np.dtype[np.generic],
        owner: object,
    ) -> None:
        """Describe memory that exists.

        Args:
            space: whose stream copies.
            address: where it begins.
            shape: sizes, row-major without gaps.
            dtype: of the values.
            owner: keeps the memory alive.
        """
        self._space = space
        self._owner = owner
        self.address = address
        self.shape = shape
        self.dtype = dtype

    @property
    def space(self) -> ArraySpace:
        """Where it lies."""
        return self._space

    @property
    def size(self) -> int:
        """How many values."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Its size in bytes."""
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def ndim(self) -> int:
        """How many axes."""
        return len(self.shape)

    def __len__(self) -> int:
        """Size of the first axis."""
        return self.shape[0]

    def __iter__(self) -> Iterator[DeviceArray]:
        """The parts along the first axis."""
        return (self[i] for i in range(len(self)))

    def __getitem__(self, index: Index | tuple[Index, ...]) -> DeviceArray:
        """A view: numbers, then at most one slice (of step 1), on the leading axes.

        Raises:
            IndexError: a number is outside.
            TypeError: the part is not contiguous, or the index of another kind.
        """
        keys = index if isinstance(index, tuple) else (index,)
        offset, stride = 0, self.size
        shape: list[int] = []
        axis, is_cut = 0, False
        for key in keys:
            if key is None:
                shape.append(1)
                continue
            if key is Ellipsis:
                break
            length = self.shape[axis]
            axis += 1
            stride = stride // length if length else 0
            if isinstance(key, slice):
                start, stop, step = key.indices(length)
                is_whole = (start, stop) == (0, length)
                if step != 1 or (is_cut and not is_whole):
                    raise TypeError("a part of a device array must be contiguous")
                offset += start * stride
                shape.append(max(0, stop - start))
                is_cut = True
                continue
            at = key + length if key < 0 else key
            if not 0 <= at < length:
                raise IndexError(f"index {key} of an axis of {length}")
            if is_cut:
                raise TypeError("a part of a device array must be contiguous")
            offset += at * stride
        address = self.address + offset * self.dtype.itemsize
        full = (*shape, *self.shape[axis:])
        return DeviceArray(self._space, address, full, self.dtype, self._owner)

    def __setitem__(self, index: Index | tuple[Index, ...], values: object) -> None:
        """Set a part from an array of the same shape, or to zero; the host array is free at once.

        Raises:
            ValueError: shapes differ, or a number other than zero.
        """
        part = self[index]
        stream = self._space.stream
        if isinstance(values, DeviceArray):
            part._check(values.shape, values.dtype)
            if part.nbytes:
                stream.copy(part.address, values.address, part.nbytes)
        elif isinstance(values, np.ndarray):
            part._check(values.shape, None)
            host = np.ascontiguousarray(values, self.dtype)
            if part.nbytes:
                stream.upload(part.address, host)
                stream.synchronize()  # `values` may be pinned, and may change from here on
        elif isinstance(values, int | float) and values == 0:
            if part.nbytes:
                stream.fill(part.address, 0, part.nbytes)
        else:
            raise ValueError(f"a device array cannot be set to {values!r}")

    def _check(self, shape: tuple[int, ...], dtype: np.dtype[np.generic] | None) -> None:
        if shape != self.shape or dtype not in {None, self.dtype}:
            raise ValueError(f"{shape} {dtype} do not fit {self.shape} {self.dtype}")

    def reshape(self, *sizes: int | tuple[int, ...]) -> DeviceArray:
        """The same values in another shape, given as numbers or a tuple; one size may be -1."""
        shape: list[int] = []
        for size in sizes:
            shape += size if isinstance(size, tuple) else (size,)
        known = math.prod(size for size in shape if size != -1)
        full = tuple(self.size // max(known, 1) if size == -1 else size for size in shape)
        if math.prod(full) != self.size:
            raise ValueError(f"{self.shape} cannot become {tuple(shape)}")
        return DeviceArray(self._space, self.address, full, self.dtype, self._owner)

    def copy(self) -> DeviceArray:
        """The same values in memory of their own.

        Raises:
            DeviceMemoryError: there is no room for it.
        """
        other = self._space.empty(self.shape, self.dtype)
        other[...] = self
        return other

    def numpy(self) -> AnyArray:
        """The values on the host, in memory of their own; waits for everything before."""
        values = np.empty(self.shape, self.dtype)
        if self.nbytes:
            self._space.stream.download(values, self.address)
            self._space.stream.synchronize()
        return values

    def __array__(
        self, dtype: npt.DTypeLike | None = None, copy: bool | None = None
    ) -> npt.NDArray[np.generic]:
        """What numpy takes it for: its values on the host."""
        if copy is False:
            raise ValueError("a device array cannot become a host array without a copy")
        values = self.numpy()
        return values if dtype is None else values.astype(dtype)

    def __repr__(self) -> str:
        """Where it is and what."""
        return f"DeviceArray(shape={self.shape}, dtype={self.dtype}, address={self.address:#x})"


def host_copy(array: npt.NDArray[_Value]) -> npt.NDArray[_Value]:
    """The values of a host or device array in host memory of their own."""
    thing: object = array  # types know no device arrays
    if isinstance(thing, DeviceArray):
        return cast("npt.NDArray[_Value]", thing.numpy())
    return array.copy()


def is_on_card(array: object) -> TypeGuard[DeviceArray]:
    """Whether an array that types call numpy's is one on a card."""
    return isinstance(array, DeviceArray)


def on_card(array: object) -> DeviceArray:
    """The same, known to be on a card.

    Raises:
        TypeError: it is not.
    """
    if not isinstance(array, DeviceArray):
        raise TypeError(f"an array on the card is needed, not {type(array).__name__}")
    return array
