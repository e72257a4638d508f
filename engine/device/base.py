"""What the GPU operations need of a card, and nothing more: memory, streams, events, launches, graphs.

Two implementations: `cupy_device.py` (NVIDIA cards) and `emulated.py` (the same kernels compiled for the
host, for tests). Nothing above this interface knows which one it talks to.

Order: what is put into one stream happens in that order; between streams, and between a stream and the
host, only events order things. Copies to and from pinned host memory are asynchronous: the host may
touch that memory again only after an event behind the copy is done. Addresses are plain integers.
"""

from __future__ import annotations

import ctypes
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from engine.core.errors import EngineError, ResourceError

ByteArray = npt.NDArray[np.uint8]
Argument = ctypes.c_void_p | ctypes.c_int32 | ctypes.c_int64 | ctypes.c_float | ctypes.Structure
Size3 = tuple[int, int, int]


class DeviceError(EngineError):
    """The card or its driver failed: what was computed on it is lost, the engine is not."""

    code = "gpu_failed"


class DeviceMemoryError(ResourceError):
    """The card has no room for an allocation."""

    code = "gpu_out_of_memory"

    @property
    def needed_bytes(self) -> int:
        """What was asked for; 0 where nobody said it."""
        return self._number("needed")

    @property
    def free_bytes(self) -> int:
        """What the card had free then; 0 where nobody said it."""
        return self._number("free")

    def _number(self, name: str) -> int:
        number = self.params.get(name, 0)
        return number if isinstance(number, int) else 0


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """What a card is.

    Attributes:
        name: as the driver says it.
        capability: compute capability (major, minor).
        num_multiprocessors: of the card.
        total_bytes: its memory.
        copy_engines: copies that can run beside kernels.
        pci: its place on the PCI bus, as `Gpu.pci`; empty when unknown.
    """

    name: str
    capability: tuple[int, int]
    num_multiprocessors: int
    total_bytes: int
    copy_engines: int
    pci: str = ""


class Arguments:
    """The parameters of a kernel, packed once: a launch passes one address.

    Attributes:
        address: of the list of the values' addresses.
        sizes: of the values, in bytes.
    """

    __slots__ = ("_pointers", "_values", "address", "sizes")

    def __init__(self, *values: Argument) -> None:
        """Keep the values.

        Args:
            values: in the order of the kernel's parameters, each of exactly its parameter's type;
                addresses are `c_void_p`. They may be changed in place (`.value`) between launches,
                but a captured launch keeps what they held.
        """
        self._values = values
        addresses = (ctypes.addressof(value) for value in values)
        self._pointers = (ctypes.c_void_p * max(1, len(values)))(*addresses)
        self.address = ctypes.addressof(self._pointers)
        self.sizes = tuple(map(ctypes.sizeof, values))

    def __len__(self) -> int:
        """How many parameters."""
        return len(self._values)


class Kernel(ABC):
    """A compiled kernel of `engine/kernels/cuda`."""

    name: str


class Memory(ABC):
    """An allocation on the card, aligned to 256 bytes.

    Attributes:
        address: of its first byte, in the card's address space.
        num_bytes: its size as it was asked for.
    """

    address: int
    num_bytes: int

    @abstractmethod
    def free(self) -> None:
        """Give it back; idempotent. Nothing in flight may use it."""


class PinnedMemory(ABC):
    """Host memory that the card copies from and to by itself, while both go on working.

    Attributes:
        array: its bytes, `[num_bytes]` uint8, 256-byte aligned; views of it live as long as this object.
        device_address: the address under which kernels may read it directly, over the bus.
    """

    array: ByteArray
    device_address: int

    @abstractmethod
    def free(self) -> None:
        """Give it back, or unlock what was registered; idempotent."""


class Event(ABC):
    """A point in a stream."""

    @abstractmethod
    def is_done(self) -> bool:
        """Whether everything before it is done (also before it was ever recorded)."""

    @abstractmethod
    def synchronize(self) -> None:
        """Wait on the host until everything before it is done.

        Raises:
            DeviceError: something before it failed.
        """

    @abstractmethod
    def elapsed_ms(self, earlier: Event) -> float:
        """Milliseconds on the card between an earlier event and this one; both done, both timed."""


class Graph(ABC):
    """A captured sequence of launches and copies."""

    @abstractmethod
    def free(self) -> None:
        """Give its memory back; idempotent."""


class Stream(ABC):
    """A queue of work on the card."""

    @abstractmethod
    def launch(
        self, kernel: Kernel, grid: Size3, block: Size3, arguments: Arguments, shared_bytes: int = 0
    ) -> None:
        """Put a kernel into the queue.

        Args:
            kernel: of the same device.
            grid: blocks in x, y, z.
            block: threads in x, y, z; a multiple of 32 in all, at most 1024.
            arguments: copied at the call.
            shared_bytes: dynamic shared memory; with the kernel's own at most 48 KiB.
        """

    @abstractmethod
    def upload(self, address: int, source: npt.NDArray[np.generic]) -> None:
        """Copy a contiguous host array to the card; asynchronous if it lies in pinned memory."""

    @abstractmethod
    def download(self, target: npt.NDArray[np.generic], address: int) -> None:
        """Copy from the card into a contiguous host array; asynchronous if that is pinned."""

    @abstractmethod
    def copy(self, target: int, source: int, num_bytes: int) -> None:
        """Copy within the card."""

    @abstractmethod
    def fill(self, address: int, byte: int, num_bytes: int) -> None:
        """Set bytes."""

    @abstractmethod
    def record(self, event: Event) -> None:
        """Put an event into the queue (again)."""

    @abstractmethod
    def wait(self, event: Event) -> None:
        """What follows here starts only after the event, of any stream, as it was last recorded."""

    @abstractmethod
    def synchronize(self) -> None:
        """Wait on the host until the queue is empty.

        Raises:
            DeviceError: something in it failed.
        """

    @abstractmethod
    def begin_capture(self) -> None:
        """Keep what follows in this stream (and in streams that wait for it) instead of doing it."""

    @abstractmethod
    def end_capture(self) -> Graph:
        """What was kept. Addresses and argument values are those of the capture."""

    @abstractmethod
    def run(self, graph: Graph) -> None:
        """Put everything of a graph into the queue."""


class Device(ABC):
    """One card. For one calling thread at a time.

    Attributes:
        info: what it is.
        array_rounding: bytes to whose multiples arrays' memory is rounded up, so that one can stand in for another.
        array_margin: bytes behind an array that kernels may read (never use): they load whole words.
    """

    info: DeviceInfo
    array_rounding: int = 512
    array_margin: int = 64

    @abstractmethod
    def free_bytes(self) -> int:
        """Memory that nobody has, other programs counted."""

    @abstractmethod
    def alloc(self, num_bytes: int) -> Memory:
        """Memory on the card, of undefined content.

        Raises:
            DeviceMemoryError: there is no room.
        """

    @abstractmethod
    def pinned(self, num_bytes: int) -> PinnedMemory:
        """Pinned host memory, of undefined content.

        Raises:
            ResourceError: the system refuses to lock so much.
        """

    @abstractmethod
    def pin(self, array: ByteArray) -> PinnedMemory | None:
        """Lock host memory that exists (a mapped file may not); None when the system refuses."""

    @abstractmethod
    def load_kernels(self, names: Sequence[str] | None = None) -> None:
        """Compile or read from the cache, and load, all `.cu` files (or those named), before use.

        Raises:
            DeviceError: a file does not compile or load; the sentence names it.
        """

    @abstractmethod
    def kernel(self, name: str) -> Kernel:
        """A loaded kernel by its exported name.

        Raises:
            KeyError: no loaded file exports it.
        """

    @abstractmethod
    def new_stream(self) -> Stream:
        """A stream of its own, not ordered with any other."""

    @abstractmethod
    def new_event(self, *, timed: bool = False) -> Event:
        """An event that was not recorded yet, and so counts as done."""

    @abstractmethod
    def synchronize(self) -> None:
        """Wait until all streams are empty.

        Raises:
            DeviceError: something failed.
        """

    @abstractmethod
    def close(self) -> None:
        """Give everything back; idempotent."""
