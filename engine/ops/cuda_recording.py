"""Work of a card and of the host in order: done at once, or kept as graphs with host steps between.

Operations put launches into the stream and give functions that the host must run in between
(`Steps.host`): reading a table's rows, computing experts that the card does not hold. While a recording
is made the stream is captured, and each such function cuts the capture: a recording is a list of graphs
and functions. Replaying it enters Python once for each of them, which is once or twice a layer.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence

from engine.core.errors import EngineError
from engine.device.base import Graph, Stream
from engine.ops.recording import Part, Recording

Step = Callable[[], None]


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


class CudaRecording(Recording):
    """Parts as graphs and host functions; made again when what they point to has moved."""

    def __init__(
        self,
        steps: Steps,
        parts: Sequence[Part],
        keep: Sequence[object],
        generation: Callable[[], int],
    ) -> None:
        """Record.

        Args:
            steps: of the operations that the parts call.
            parts: each calls operations and nothing else.
            keep: owns what they point to.
            generation: changes when addresses that operations use have changed.
        """
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
        for step in self._list[self._starts[first] : self._starts[stop]]:
            step()

    def _make(self) -> None:
        for part in self._parts:  # once without a capture: scratch memory grows, errors show
            part()
        self.free()
        generation = self._generation()
        self._list, self._starts, self._graphs = self._steps.record(self._parts)
        self._made_in = generation

    def free(self) -> None:
        """Give the graphs back; nothing of them may be in flight."""
        for graph in self._graphs:
            graph.free()
        self._list, self._starts, self._graphs = [], [], []
        self._made_in = -1

    def __del__(self) -> None:
        """A card keeps graphs until they are freed, also those that nobody has any more."""
        self.free()
