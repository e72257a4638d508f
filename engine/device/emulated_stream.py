"""Streams, events and captured graphs of an emulated card."""

from __future__ import annotations

import ctypes
import time
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from engine.device.base import Arguments, DeviceError, Event, Graph, Kernel, Size3, Stream
from engine.device.emulated_work import DONE, Action, Queue, Timing, Work, ancestors

if TYPE_CHECKING:
    from engine.device.emulated import EmulatedDevice


class Capture:
    """What is being captured: works that are never done themselves, a pattern for those of each run."""

    def __init__(self, origin: EmulatedStream) -> None:
        self.origin = origin
        self.works: list[Work] = []
        self.last: dict[EmulatedStream, Work] = {}

    def add(self, stream: EmulatedStream, action: Action | None, *before: Work) -> Work:
        """Put a work behind the last one of a stream, and behind others."""
        last = self.last.get(stream)
        work = Work(action, (*([last] if last is not None else []), *before))
        self.works.append(work)
        self.last[stream] = work
        return work


class EmulatedEvent(Event):
    """A point in a stream."""

    def __init__(self, device: EmulatedDevice, *, timed: bool) -> None:
        self.device = device
        self.work = DONE
        self.capture: Capture | None = None
        self._is_timed = timed
        self._time_s: float | None = None

    def stamp(self) -> None:
        """Keep the time at which it was passed."""
        self._time_s = time.perf_counter()

    def is_done(self) -> bool:
        """Whether everything before it is done; a question lets the card get on, sometimes."""
        self._check_not_captured()
        return self.work.is_done or self.device.gets_done(self.work)

    def synchronize(self) -> None:
        """Wait until everything before it is done."""
        self._check_not_captured()
        self.device.finish([self.work])

    def elapsed_ms(self, earlier: Event) -> float:
        """Milliseconds from an earlier event to this one."""
        if not isinstance(earlier, EmulatedEvent) or not (self._is_timed and earlier._is_timed):
            raise DeviceError("Time is measured between two events that were made for it.")
        if self._time_s is None or earlier._time_s is None:
            raise DeviceError("Time is measured between two events that are done.")
        return max(0.0, (self._time_s - earlier._time_s) * 1000)

    def _check_not_captured(self) -> None:
        self.device.check()
        if self.capture is not None:
            raise DeviceError("An event that was recorded in a capture cannot be waited for.")


class EmulatedGraph(Graph):
    """A captured sequence.

    Attributes:
        works: the pattern, each behind what it needs.
    """

    def __init__(self, device: EmulatedDevice, works: list[Work]) -> None:
        self.works: list[Work] | None = works
        self._device = device
        self._num_bytes = device.graph_bytes
        device.take(self._num_bytes)

    def free(self) -> None:
        """Forget it."""
        if self.works is not None:
            self._device.take(-self._num_bytes)
        self.works = None


class EmulatedStream(Stream):
    """A queue of work of an emulated card."""

    def __init__(self, device: EmulatedDevice) -> None:
        self.device = device
        self.queue = Queue()
        self.capture: Capture | None = None

    def launch(
        self, kernel: Kernel, grid: Size3, block: Size3, arguments: Arguments, shared_bytes: int = 0
    ) -> None:
        """Put a kernel into the queue; its arguments are checked and copied now."""
        self._put(self.device.prepare_launch(kernel, grid, block, arguments, shared_bytes))

    def upload(self, address: int, source: npt.NDArray[np.generic]) -> None:
        """Copy to the card; pinned memory is read when the copy is done, other memory now."""
        self._check_array(source)
        num_bytes = source.nbytes
        self.device.check_range(address, num_bytes, "An upload")
        if not self.device.is_pinned(source):
            if self.capture is not None:
                raise DeviceError("What a graph uploads must lie in pinned memory.")
            source = source.copy()

        def action() -> None:
            self.device.check_range(address, num_bytes, "An upload")
            ctypes.memmove(address, source.ctypes.data, num_bytes)

        self._put(action)

    def download(self, target: npt.NDArray[np.generic], address: int) -> None:
        """Copy from the card; into pinned memory later, into other memory now."""
        self._check_array(target)
        num_bytes = target.nbytes
        self.device.check_range(address, num_bytes, "A download")
        is_pinned = self.device.is_pinned(target)
        if not is_pinned and self.capture is not None:
            raise DeviceError("What a graph downloads must go into pinned memory.")

        def action() -> None:
            self.device.check_range(address, num_bytes, "A download")
            ctypes.memmove(target.ctypes.data, address, num_bytes)

        self._put(action)
        if not is_pinned:
            self.synchronize()

    def copy(self, target: int, source: int, num_bytes: int) -> None:
        """Copy within the card."""

        def action() -> None:
            self.device.check_range(source, num_bytes, "A copy")
            self.device.check_range(target, num_bytes, "A copy")
            ctypes.memmove(target, source, num_bytes)

        self.device.check_range(source, num_bytes, "A copy")
        self.device.check_range(target, num_bytes, "A copy")
        self._put(action)

    def fill(self, address: int, byte: int, num_bytes: int) -> None:
        """Set bytes."""

        def action() -> None:
            self.device.check_range(address, num_bytes, "A fill")
            ctypes.memset(address, byte, num_bytes)

        self.device.check_range(address, num_bytes, "A fill")
        self._put(action)

    def record(self, event: Event) -> None:
        """Put an event into the queue (again)."""
        mine = self._own(event)
        mine.work = self._put(mine.stamp)
        mine.capture = self.capture

    def wait(self, event: Event) -> None:
        """What follows starts only after the event; a stream that waits for a capture joins it."""
        mine = self._own(event)
        self.device.check()
        if mine.capture is not None and mine.capture.origin.capture is mine.capture:
            if self.capture not in {None, mine.capture}:
                raise DeviceError("A stream cannot be part of two captures.")
            self.capture = mine.capture
            self.capture.add(self, None, mine.work)
        elif self.capture is not None:
            raise DeviceError("A capture cannot wait for an event from outside.")
        elif mine.capture is not None:
            raise DeviceError("An event that was recorded in a capture cannot be waited for.")
        elif not mine.work.is_done:
            self.queue.put(Work(None, (self.queue.last, mine.work)))

    def synchronize(self) -> None:
        """Wait until the queue is empty."""
        if self.capture is not None:
            raise DeviceError("A stream cannot be waited for during a capture.")
        self.device.finish([self.queue.last])

    def begin_capture(self) -> None:
        """Keep what follows."""
        self.device.check()
        if self.capture is not None:
            raise DeviceError("The stream is being captured already.")
        self.capture = Capture(self)
        self.device.captures += 1

    def end_capture(self) -> Graph:
        """What was kept."""
        capture = self.capture
        if capture is None or capture.origin is not self:
            raise DeviceError("The stream does not capture.")
        self.device.captures -= 1
        for stream in capture.last:
            stream.capture = None
        self.capture = None
        own_end = capture.last.get(self)
        reached = set(ancestors([own_end])) if own_end is not None else set()
        if any(work not in reached for work in capture.last.values()):
            raise DeviceError(
                "A stream that joined the capture was not waited for by the one that began it."
            )
        return EmulatedGraph(self.device, capture.works)

    def run(self, graph: Graph) -> None:
        """Put everything of a graph into the queue; its parts keep only the order of the capture."""
        if not isinstance(graph, EmulatedGraph) or graph.works is None:
            raise DeviceError("The graph was freed, or is another device's.")
        if self.capture is not None:
            raise DeviceError("A graph cannot be run during a capture.")
        self.device.check()
        begin = self.queue.last
        made: dict[Work, Work] = {}
        for work in graph.works:
            before = tuple(made[earlier] for earlier in work.before) or (begin,)
            made[work] = Work(work.action, before)
            if self.device.timing is Timing.EAGER:
                self.device.finish([made[work]])
        self.queue.put(Work(None, (begin, *made.values())))

    def _put(self, action: Action) -> Work:
        self.device.check()
        if self.capture is not None:
            return self.capture.add(self, action)
        work = Work(action, (self.queue.last,))
        self.queue.put(work)
        if self.device.timing is Timing.EAGER:
            self.device.finish([work])
        return work

    def _own(self, event: Event) -> EmulatedEvent:
        if not isinstance(event, EmulatedEvent):
            raise DeviceError("The event is another device's.")
        return event

    def _check_array(self, array: npt.NDArray[np.generic]) -> None:
        if not array.flags.c_contiguous:
            raise DeviceError("Only contiguous arrays are copied to and from a card.")
