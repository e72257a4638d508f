"""A card that is emulated: the CUDA kernels compiled for the host, and memory that catches mistakes.

It is for tests: what would be wrong only sometimes on a card is wrong here as often as can be. Work is
done late and in odd orders (`emulated_work.py`); threads of a block run in odd orders; memory ends at a
page that cannot be touched, holds NaN at first, and is never reused; misaligned or wild addresses, shifts
too far and endless waits stop the kernel with a sentence. Speed is that of one processor thread.

For faults that a card has and this one has not, tests set `others_bytes`, `pinned_limit`, `is_stalled`,
or call `fail`.
"""

from __future__ import annotations

import bisect
import ctypes
import itertools
import random
import threading
import weakref
from collections.abc import Iterable, Sequence
from enum import Enum
from pathlib import Path
from typing import NoReturn

import numpy as np
import numpy.typing as npt

from engine.core.errors import ResourceError
from engine.device import emulated_build, emulated_library
from engine.device.base import (
    Arguments,
    ByteArray,
    Device,
    DeviceError,
    DeviceInfo,
    DeviceMemoryError,
    Kernel,
    Memory,
    PinnedMemory,
    Size3,
)
from engine.device.emulated_library import CompiledKernel, Launch, Report
from engine.device.emulated_stream import EmulatedEvent, EmulatedStream
from engine.device.emulated_work import Action, Timing, Work, finish

MOST_SHARED_BYTES = 48 << 10
_MOST_GRID = (2**31 - 1, 65535, 65535)
_POISON = 0xFF  # NaN in every float format, -1 in every integer
_FAULTS = {
    1: "reads",
    2: "writes",
    3: "fails a check: a misaligned address, an index outside an array, a shift by too many bits, "
    "or a number too large for an integer",
    4: "divides by zero",
}

_numbers = itertools.count()
# Pinned memory of all cards by its address, and the addresses in order: each card reaches all of it.
_pinned: dict[int, int] = {}
_pinned_starts: list[int] = []
_run_lock = threading.Lock()  # the runtime runs one kernel at a time


class ThreadOrder(Enum):
    """In which order blocks and the threads of a block go on. A result that depends on it is a race."""

    FORWARD = 0
    BACKWARD = 1
    RANDOM = 2
    MIXED = -1  # drawn for each launch


class EmulatedKernel(Kernel):
    """A kernel of an emulated card."""

    def __init__(self, device: EmulatedDevice, compiled: CompiledKernel) -> None:
        self.device = device
        self.compiled = compiled
        self.name = compiled.name


class EmulatedMemory(Memory):
    """An allocation of an emulated card."""

    def __init__(self, device: EmulatedDevice, address: int, num_bytes: int) -> None:
        self.address = address
        self.num_bytes = num_bytes
        self._device: EmulatedDevice | None = device

    def free(self) -> None:
        """Give it back; whoever uses it from now on fails."""
        device, self._device = self._device, None
        if device is not None:
            device.free(self.address, self.num_bytes)


class EmulatedPinnedMemory(PinnedMemory):
    """Host memory that an emulated card may reach."""

    def __init__(self, device: EmulatedDevice, array: ByteArray) -> None:
        self.array = array
        self.device_address = array.ctypes.data
        self._device: EmulatedDevice | None = device

    def free(self) -> None:
        """Unlock it. The memory itself lives as long as views of it do."""
        device, self._device = self._device, None
        if device is not None:
            device.unpin(self.device_address)


class EmulatedDevice(Device):
    """One emulated card.

    Attributes:
        timing: when work is done.
        thread_order: in which order threads go on.
        others_bytes: memory that other programs have taken; may be changed at any time.
        pinned_limit: most bytes of pinned memory; None for no limit.
        graph_bytes: memory that each graph takes from now on, as a driver takes some.
        is_stalled: while true nothing gets done: events stay undone, and waiting raises.
        num_launches: kernels that ran.
    """

    # Arrays end where they end, so that what is written behind one shows.
    array_rounding = 1
    array_margin = 0

    def __init__(
        self,
        total_bytes: int = 16 << 30,
        *,
        name: str = "Emulated card",
        capability: tuple[int, int] = (8, 9),
        num_multiprocessors: int = 4,
        seed: int = 0,
        timing: Timing = Timing.RANDOM,
        thread_order: ThreadOrder = ThreadOrder.MIXED,
        poison: int = _POISON,
        kernel_folder: Path = emulated_build.CUDA_FOLDER,
    ) -> None:
        """Make a card.

        Args:
            total_bytes: its memory.
            name: for messages and tests.
            capability: compute capability that it claims.
            num_multiprocessors: that it claims.
            seed: of everything that is drawn.
            timing: when work is done.
            thread_order: in which order threads go on.
            poison: the byte of which new memory and shared memory are made. A result that differs
                with it was computed from memory that nobody had set.
            kernel_folder: where the sources are.

        Raises:
            DeviceError: the emulator cannot be compiled or loaded.
        """
        self.info = DeviceInfo(name, capability, num_multiprocessors, total_bytes, copy_engines=2)
        self.timing = timing
        self.thread_order = thread_order
        self.others_bytes = 0
        self.pinned_limit: int | None = None
        self.graph_bytes = 0
        self.is_stalled = False
        self.num_launches = 0
        self.captures = 0
        self._poison = poison
        self._kernel_folder = kernel_folder
        self._number = next(_numbers)
        self._runtime = emulated_library.runtime()
        self._chance = random.Random(seed)  # noqa: S311  # not for secrets
        self._used_bytes = 0
        self._pinned_bytes = 0
        self._live: dict[int, int] = {}  # address -> bytes, on the card
        self._own_pinned: set[int] = set()
        self._freed: dict[int, int] = {}
        self._kernels: dict[str, EmulatedKernel] = {}
        self._streams: list[EmulatedStream] = []
        self._failure: DeviceError | None = None
        self._is_closed = False

    def free_bytes(self) -> int:
        """Memory that nobody has."""
        self.check()
        return max(0, self.info.total_bytes - self._used_bytes - self.others_bytes)

    def alloc(self, num_bytes: int) -> Memory:
        """Memory full of the poison."""
        self.check()
        self._check_no_capture("Memory cannot be allocated")
        needed = -(-num_bytes // 256) * 256
        if needed > self.free_bytes():
            raise _no_room(num_bytes, self.free_bytes(), self.info.name)
        address = self._runtime.alloc(self._number, num_bytes, 1, self._poison)
        if not address:
            raise _no_room(num_bytes, 0, self.info.name)
        self._used_bytes += needed
        self._live[address] = num_bytes
        return EmulatedMemory(self, address, num_bytes)

    def free(self, address: int, num_bytes: int) -> None:
        """Take an allocation back."""
        if self._live.pop(address, None) is None:  # the card was closed before
            return
        self._used_bytes -= -(-num_bytes // 256) * 256
        self._freed[address] = num_bytes
        self._runtime.free(address, num_bytes)

    def take(self, num_bytes: int) -> None:
        """Memory that belongs to no array is taken, or given back (negative).

        Raises:
            DeviceMemoryError: there is no room for it.
        """
        if num_bytes > 0 and num_bytes > self.free_bytes():
            raise _no_room(num_bytes, self.free_bytes(), self.info.name)
        self._used_bytes += num_bytes

    def pinned(self, num_bytes: int) -> PinnedMemory:
        """Pinned memory full of the poison."""
        self.check()
        self._check_no_capture("Pinned memory cannot be allocated")
        if not self._may_pin(num_bytes):
            raise ResourceError(
                f"The system refuses to lock {num_bytes} bytes of memory for the card; "
                "close other programs."
            )
        address = self._runtime.alloc(self._number, num_bytes, 0, self._poison)
        if not address:
            raise ResourceError(f"There are no {num_bytes} bytes of memory for the card.")
        buffer = (ctypes.c_uint8 * num_bytes).from_address(address)
        weakref.finalize(buffer, self._runtime.free, address, num_bytes).atexit = False
        array = np.frombuffer(memoryview(buffer), np.uint8)
        return self._keep_pinned(array)

    def pin(self, array: ByteArray) -> PinnedMemory | None:
        """Register host memory; None beyond `pinned_limit`."""
        self.check()
        if not self._may_pin(array.nbytes):
            return None
        self._runtime.register(self._number, array.ctypes.data, array.nbytes)
        return self._keep_pinned(array)

    def unpin(self, address: int) -> None:
        """Forget pinned memory."""
        if address not in self._own_pinned:  # the card was closed before
            return
        self._own_pinned.remove(address)
        self._pinned_bytes -= _pinned.pop(address)
        _pinned_starts.remove(address)
        self._runtime.unregister(address)

    def load_kernels(self, names: Sequence[str] | None = None) -> None:
        """Compile what changed, and load."""
        self.check()
        folder = self._kernel_folder
        wanted = names or emulated_build.kernel_names(folder)
        for compiled in emulated_library.load_kernels(wanted, folder):
            self._kernels[compiled.name] = EmulatedKernel(self, compiled)

    def kernel(self, name: str) -> Kernel:
        """A loaded kernel."""
        return self._kernels[name]

    def new_stream(self) -> EmulatedStream:
        """A stream."""
        self.check()
        stream = EmulatedStream(self)
        self._streams.append(stream)
        return stream

    def new_event(self, *, timed: bool = False) -> EmulatedEvent:
        """An event."""
        self.check()
        return EmulatedEvent(self, timed=timed)

    def synchronize(self) -> None:
        """Wait until all streams are empty; memory is looked over."""
        self._check_no_capture("A card cannot be waited for")
        self.finish([stream.queue.last for stream in self._streams])
        self._check_overruns("something")

    def close(self) -> None:
        """Give everything back; what was not done never will be."""
        self._is_closed = True
        self._streams.clear()
        self._kernels.clear()
        for address, num_bytes in list(self._live.items()):
            self.free(address, num_bytes)
        for address in list(self._own_pinned):
            self.unpin(address)

    def __del__(self) -> None:
        """A card that nobody closed gives its memory back."""
        if hasattr(self, "_is_closed"):
            self.close()

    def fail(self, message: str) -> None:
        """From now on everything fails, as when a card falls off the bus."""
        self._failure = DeviceError(message)

    def check(self) -> None:
        """Raise what has failed.

        Raises:
            DeviceError: the card has failed, or is closed.
        """
        if self._failure is not None:
            raise DeviceError(self._failure.message)
        if self._is_closed:
            raise DeviceError(f"{self.info.name} is closed.")

    def finish(self, wanted: Iterable[Work]) -> None:
        """Do what is wanted and everything before it.

        Raises:
            DeviceError: something failed, now or earlier.
        """
        self.check()
        if self.is_stalled:
            raise DeviceError(f"{self.info.name} is stalled: waiting for it would never end.")
        queues = [stream.queue for stream in self._streams]
        finish(wanted, queues, self.timing, self._chance)

    def gets_done(self, work: Work) -> bool:
        """Whether a question for this work finds it done: it gets on at every second one or so."""
        if self.is_stalled or self._chance.random() < 0.5:
            return False
        self.finish([work])
        return True

    def is_pinned(self, array: npt.NDArray[np.generic]) -> bool:
        """Whether a host array lies in pinned memory."""
        address = array.ctypes.data
        at = bisect.bisect_right(_pinned_starts, address) - 1
        if at < 0:
            return False
        start = _pinned_starts[at]
        return address + array.nbytes <= start + _pinned[start]

    def check_range(self, address: int, num_bytes: int, what: str) -> None:
        """Check that bytes lie within one allocation.

        Raises:
            DeviceError: they do not.
        """
        if num_bytes and not self._runtime.holds(self._number, address, num_bytes):
            self._fail(f"{what} of {num_bytes} bytes at {address:#x} is {self._describe(address)}.")

    def prepare_launch(
        self, kernel: Kernel, grid: Size3, block: Size3, arguments: Arguments, shared_bytes: int
    ) -> Action:
        """A launch that can be done any number of times, with the arguments of now.

        Raises:
            DeviceError: a card would refuse it.
        """
        self.check()
        if not isinstance(kernel, EmulatedKernel) or kernel.device is not self:
            raise DeviceError(f"The kernel {kernel.name} is another device's.")
        compiled = kernel.compiled
        num_threads = block[0] * block[1] * block[2]
        if num_threads % 32 or not 0 < num_threads <= compiled.most_threads or block[2] > 64:
            raise DeviceError(f"{kernel.name} cannot be launched with blocks of {block} threads.")
        if not all(0 < size <= most for size, most in zip(grid, _MOST_GRID, strict=True)):
            raise DeviceError(f"{kernel.name} cannot be launched with a grid of {grid} blocks.")
        if shared_bytes > MOST_SHARED_BYTES:
            raise DeviceError(
                f"{kernel.name} cannot be launched with {shared_bytes} bytes of shared memory."
            )
        if arguments.sizes != compiled.sizes:
            raise DeviceError(
                f"{kernel.name} takes arguments of {compiled.sizes} bytes, not {arguments.sizes}."
            )
        packed = (ctypes.c_uint64 * compiled.num_words)()
        wrong = self._runtime.pack(compiled.entry, self._number, arguments.address, packed)
        if wrong >= 0:
            where = ctypes.c_uint64.from_address(packed[wrong]).value
            self._fail(
                f"Argument {wrong} of {kernel.name} is {where:#x}, {self._describe(where)}; "
                "a card cannot reach it."
            )
        launch = Launch(
            compiled.module,
            compiled.entry,
            ctypes.addressof(packed),
            grid,
            block,
            shared_bytes,
            poison=self._poison,
        )

        def action() -> None:
            self._run(kernel, launch, packed)

        return action

    def _run(self, kernel: EmulatedKernel, launch: Launch, packed: Sequence[int]) -> None:
        """Run a launch; `packed` holds the arguments that it points to."""
        order = self.thread_order
        if order is ThreadOrder.MIXED:
            drawn = self._chance.random()
            order = ThreadOrder(int(drawn * 3))
        launch.order = order.value
        launch.seed = self._chance.getrandbits(63)
        report = Report()
        with _run_lock:
            failed = self._runtime.run(ctypes.addressof(launch), ctypes.addressof(report))
        self.num_launches += 1
        if failed:
            self._fail(f"{kernel.name} {self._words(report, kernel, packed)}")
        self._check_overruns(kernel.name)

    def _words(self, report: Report, kernel: EmulatedKernel, packed: Sequence[int]) -> str:
        where = f"in block {tuple(report.block)}, thread {tuple(report.thread)}"
        reason = report.reason.decode()
        if report.fault in {1, 2} and not reason:
            address = report.address
            pointers = [
                ctypes.c_uint64.from_address(value).value
                for value, is_pointer in zip(packed, kernel.compiled.are_pointers, strict=False)
                if is_pointer
            ]
            near = self._describe(address, pointers)
            return f"{_FAULTS[report.fault]} {address:#x}, {near}, {where}."
        return f"{reason or _FAULTS[report.fault]}, {where}."

    def _check_overruns(self, name: str) -> None:
        start = self._runtime.first_overrun(self._number)
        if start:
            self._fail(f"{name} writes behind the {self._live.get(start)} bytes at {start:#x}.")

    def _describe(self, address: int, pointers: Iterable[int] = ()) -> str:
        """Where an address lies; of several places the one that a kernel was given."""
        places = [
            *((start, size, "") for start, size in self._live.items()),
            *((start, size, " of pinned memory") for start, size in _pinned.items()),
            *((start, size, " that were freed") for start, size in self._freed.items()),
        ]
        if not places:
            return "in no memory of the card"
        given = [place for place in places if any(0 <= p - place[0] <= place[1] for p in pointers)]
        _, start, size, kind = min(
            (max(start - address, address - (start + size - 1), 0), start, size, kind)
            for start, size, kind in given or places
        )
        if start <= address < start + size:
            return f"{address - start} bytes into {size} bytes{kind}"
        if abs(address - start) > 1 << 30:
            return "in no memory of the card"
        if address < start:
            return f"{start - address} bytes before {size} bytes{kind} at {start:#x}"
        return f"{address - start - size} bytes behind the end of {size} bytes{kind} at {start:#x}"

    def _fail(self, message: str) -> NoReturn:
        self._failure = DeviceError(message)
        raise self._failure

    def _may_pin(self, num_bytes: int) -> bool:
        return self.pinned_limit is None or self._pinned_bytes + num_bytes <= self.pinned_limit

    def _keep_pinned(self, array: ByteArray) -> PinnedMemory:
        _pinned[array.ctypes.data] = array.nbytes
        self._own_pinned.add(array.ctypes.data)
        bisect.insort(_pinned_starts, array.ctypes.data)
        self._pinned_bytes += array.nbytes
        return EmulatedPinnedMemory(self, array)

    def _check_no_capture(self, what: str) -> None:
        if self.captures:
            raise DeviceError(f"{what} during a capture.")


def _no_room(num_bytes: int, free_bytes: int, name: str) -> DeviceMemoryError:
    return DeviceMemoryError(
        f"{name} has {free_bytes >> 20} MiB free and {num_bytes >> 20} MiB are needed; "
        "close other programs that use it.",
        params={"needed": num_bytes, "free": free_bytes, "name": name},
    )
