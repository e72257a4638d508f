"""A card whose memory is host memory and which does everything at once: for what is above kernels.

`PlainStream.call` takes a Python function in the place of a kernel, so operations can be those of the
reference on views of the card's memory (`host_view`). Captures work; order is not tested here, the
emulated device does that.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from engine.device.array import DeviceArray
from engine.device.base import (
    Arguments,
    Device,
    DeviceError,
    DeviceInfo,
    DeviceMemoryError,
    Event,
    Graph,
    Kernel,
    Memory,
    PinnedMemory,
    Size3,
    Stream,
)

_ALIGNMENT = 256


def host_view(array: DeviceArray) -> npt.NDArray[np.generic]:
    """The array's own memory as numpy sees it."""
    return _bytes_at(array.address, array.nbytes).view(array.dtype).reshape(array.shape)


def _bytes_at(address: int, num_bytes: int) -> npt.NDArray[np.uint8]:
    if num_bytes == 0:
        return np.empty(0, np.uint8)
    return np.frombuffer((ctypes.c_uint8 * num_bytes).from_address(address), np.uint8)


def _aligned(num_bytes: int) -> npt.NDArray[np.uint8]:
    raw = np.full(num_bytes + _ALIGNMENT, 0xA5, np.uint8)  # whatever lay there before
    start = -raw.ctypes.data % _ALIGNMENT
    return raw[start : start + num_bytes]


class PlainMemory(Memory):
    def __init__(self, device: PlainDevice, num_bytes: int) -> None:
        self._device = device
        self._array = _aligned(max(num_bytes, 1))
        self.address = self._array.ctypes.data
        self.num_bytes = num_bytes
        self._freed = False

    def free(self) -> None:
        if not self._freed:
            self._freed = True
            self._device.used_bytes -= self.num_bytes
            self._array[...] = 0xA5


class PlainPinned(PinnedMemory):
    def __init__(self, array: npt.NDArray[np.uint8]) -> None:
        self.array = array
        self.device_address = array.ctypes.data

    def free(self) -> None:
        pass


class PlainEvent(Event):
    def is_done(self) -> bool:
        return True

    def synchronize(self) -> None:
        pass

    def elapsed_ms(self, earlier: Event) -> float:
        del earlier
        return 0.0


class PlainGraph(Graph):
    def __init__(self, calls: Sequence[Callable[[], None]]) -> None:
        self.calls = calls

    def free(self) -> None:
        self.calls = ()


class PlainStream(Stream):
    def __init__(self) -> None:
        self._captured: list[Callable[[], None]] | None = None

    def call(self, function: Callable[[], None]) -> None:
        """In the place of a launch."""
        if self._captured is None:
            function()
        else:
            self._captured.append(function)

    def launch(
        self, kernel: Kernel, grid: Size3, block: Size3, arguments: Arguments, shared_bytes: int = 0
    ) -> None:
        raise AssertionError("there are no kernels here")

    def upload(self, address: int, source: npt.NDArray[np.generic]) -> None:
        assert source.flags.c_contiguous
        target = _bytes_at(address, source.nbytes)
        self.call(lambda: np.copyto(target, source.reshape(-1).view(np.uint8)))

    def download(self, target: npt.NDArray[np.generic], address: int) -> None:
        assert target.flags.c_contiguous
        source = _bytes_at(address, target.nbytes)
        self.call(lambda: np.copyto(target.reshape(-1).view(np.uint8), source))

    def copy(self, target: int, source: int, num_bytes: int) -> None:
        self.call(lambda: np.copyto(_bytes_at(target, num_bytes), _bytes_at(source, num_bytes)))

    def fill(self, address: int, byte: int, num_bytes: int) -> None:
        self.call(lambda: _bytes_at(address, num_bytes).fill(byte))

    def record(self, event: Event) -> None:
        assert self._captured is None

    def wait(self, event: Event) -> None:
        pass

    def synchronize(self) -> None:
        assert self._captured is None, "a wait amid a capture"

    def begin_capture(self) -> None:
        assert self._captured is None
        self._captured = []

    def end_capture(self) -> Graph:
        if self._captured is None:
            raise DeviceError("The stream does not capture.")
        calls, self._captured = self._captured, None
        return PlainGraph(calls)

    def run(self, graph: Graph) -> None:
        assert isinstance(graph, PlainGraph)
        for function in graph.calls:
            function()


class PlainDevice(Device):
    """Attributes:
    used_bytes: what is allocated.
    taken_bytes: what other programs have.
    is_closed: everything was given back.
    """

    def __init__(self, total_bytes: int = 1 << 30) -> None:
        self.info = DeviceInfo("plain", (8, 0), 1, total_bytes, 2)
        self.used_bytes = 0
        self.taken_bytes = 0
        self.is_closed = False

    def free_bytes(self) -> int:
        return self.info.total_bytes - self.used_bytes - self.taken_bytes

    def alloc(self, num_bytes: int) -> Memory:
        if num_bytes > self.free_bytes():
            raise DeviceMemoryError("The card has no room.")
        self.used_bytes += num_bytes
        return PlainMemory(self, num_bytes)

    def pinned(self, num_bytes: int) -> PinnedMemory:
        return PlainPinned(_aligned(num_bytes))

    def pin(self, array: npt.NDArray[np.uint8]) -> PinnedMemory | None:
        del array
        return None

    def load_kernels(self, names: Sequence[str] | None = None) -> None:
        pass

    def kernel(self, name: str) -> Kernel:
        raise KeyError(name)

    def new_stream(self) -> PlainStream:
        return PlainStream()

    def new_event(self, *, timed: bool = False) -> Event:
        del timed
        return PlainEvent()

    def synchronize(self) -> None:
        pass

    def close(self) -> None:
        self.is_closed = True
