"""Work of a card and of the host in order: done at once, or kept as graphs with host steps between.

Operations put launches into the stream and give functions that the host must run in between
(`Steps.host`): reading a table's rows, computing experts that the card does not hold. While a recording
is made the stream is captured, and each such function cuts the capture: a recording is a list of graphs
and functions. Replaying it enters Python once for each of them, which is once or twice a layer.
"""

from __future__ import annotations

import contextlib
import functools
import weakref
from collections.abc import Callable, Sequence

from engine.core.errors import EngineError
from engine.device.base import Device, Graph, Stream
from engine.ops.recording import Part, Recording

Step = Callable[[], None]

_IDLE_TURNS = (
    4000  # a recording that was not run for so many runs of others may go: some hundred windows
)


class Steps:
    """Where host functions between launches go."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._kept: list[Step] | None = None

    @property
    def are_kept(self) -> bool:
        """Whether a recording is being made: nothing is computed now."""
        return self._kept is not None

    def host(self, function: Step) -> None:
        """Run a function on the host behind what was put into the stream, in its place.

        It may put more into the stream; it waits for the stream itself where it must.
        """
        if self._kept is None:
            function()
            return
        self._cut()
        self._kept.append(function)
        self._stream.begin_capture()

    def synchronize(self) -> None:
        """Wait until all is done that was put into the stream."""
        self._stream.synchronize()

    def record(self, parts: Sequence[Part]) -> tuple[list[Step], list[int], list[Graph]]:
        """The steps of all parts, the first step of each part (and the end), and the graphs."""
        if self._kept is not None:
            raise RuntimeError("a recording is being made already")
        steps: list[Step] = []
        starts = [0]
        self._kept = steps
        self._graphs: list[Graph] = []
        try:
            for part in parts:
                self._stream.begin_capture()
                part()
                self._cut()
                starts.append(len(steps))
        except BaseException:
            # The capture may be over already: what ended it says more than that.
            with contextlib.suppress(EngineError):
                self._stream.end_capture().free()
            for graph in self._graphs:
                graph.free()
            raise
        finally:
            self._kept = None
        return steps, starts, self._graphs

    def _cut(self) -> None:
        if self._kept is None:
            raise RuntimeError("no recording is being made")
        graph = self._stream.end_capture()
        self._graphs.append(graph)
        self._kept.append(functools.partial(self._stream.run, graph))


class GraphMemory:
    """What the graphs of all recordings take of a card; those that are not run any more go when it is too much.

    Drivers do not say what a graph takes: it is what is free before less what is free behind. What was run
    lately stays in any case, for making it again takes longer than the pass: rather the reserve runs short,
    and experts give it back (`cuda_balance.py`).

    Attributes:
        turn: how many times recordings were run.
    """

    def __init__(self, device: Device, most_bytes: int) -> None:
        """Begin with none.

        Args:
            device: the card.
            most_bytes: that graphs may take.
        """
        self._device = device
        self._most = most_bytes
        self._made: weakref.WeakSet[CudaRecording] = weakref.WeakSet()
        self.turn = 0

    @property
    def num_bytes(self) -> int:
        """Of all graphs that there are."""
        return sum(recording.graph_bytes for recording in self._made)

    def measured(self, recording: CudaRecording, make: Callable[[], None]) -> None:
        """Make a recording's graphs; others go if all together take too much then.

        Args:
            recording: whose.
            make: returns when they are on the card, and nothing else is on its way.
        """
        before = self._device.free_bytes()
        make()
        recording.graph_bytes = max(0, before - self._device.free_bytes())
        self._made.add(recording)
        old = [one for one in self._made if self.turn - one.last_run > _IDLE_TURNS]
        others = sorted((one for one in old if one is not recording), key=lambda one: one.last_run)
        for other in others:
            if self.num_bytes <= self._most:
                break
            other.free()

    def drop(self) -> bool:
        """Free all graphs, which are made again when they are run; whether there were any."""
        made = [recording for recording in self._made if recording.is_made]
        for recording in made:
            recording.free()
        return bool(made)


class CudaRecording(Recording):
    """Parts as graphs and host functions; made again when what they point to has moved.

    Attributes:
        graph_bytes: card memory that its graphs take.
        last_run: the memory's turn in which it was run last.
    """

    def __init__(
        self,
        steps: Steps,
        parts: Sequence[Part],
        keep: Sequence[object],
        generation: Callable[[], int],
        memory: GraphMemory,
    ) -> None:
        """Record.

        Args:
            steps: of the operations that the parts call.
            parts: each calls operations and nothing else.
            keep: owns what they point to.
            generation: changes when addresses that operations use have changed.
            memory: of all recordings' graphs.
        """
        self._memory = memory
        self.graph_bytes = 0
        self.last_run = 0
        self._steps = steps
        self._parts = tuple(parts)
        self._keep = tuple(keep)
        self._generation = generation
        self._made_in = -1
        self._list: list[Step] = []
        self._starts: list[int] = []
        self._graphs: list[Graph] = []

    def run(self, first: int, stop: int) -> None:
        """Run parts."""
        if self._made_in != self._generation():
            if first:  # amid a pass, of which making would compute the beginning again
                for part in self._parts[first:stop]:
                    part()
                return
            self._make()
        self._memory.turn += 1
        self.last_run = self._memory.turn
        for step in self._list[self._starts[first] : self._starts[stop]]:
            step()

    def _make(self) -> None:
        for part in self._parts:  # once without a capture: scratch memory grows, errors show
            part()
        self._steps.synchronize()
        self.free()
        generation = self._generation()
        self._memory.measured(self, self._record)
        self._made_in = generation

    def _record(self) -> None:
        self._list, self._starts, self._graphs = self._steps.record(self._parts)
        self._steps.synchronize()  # until the graphs are on the card

    @property
    def is_made(self) -> bool:
        """Whether there are graphs."""
        return bool(self._graphs)

    def free(self) -> None:
        """Give the graphs back; nothing of them may be in flight."""
        for graph in self._graphs:
            graph.free()
        self._list, self._starts, self._graphs = [], [], []
        self._made_in = -1
        self.graph_bytes = 0

    def __del__(self) -> None:
        """A card keeps graphs until they are freed, also those that nobody has any more."""
        self.free()
