"""The operations of a pass as parts: embedding, each layer, head; small passes are recorded.

A decode step or a window of drafts is the same list of operations each time: only what the plan's
arrays hold differs. So it is recorded once per shape and run as one list from then on
(docs/how-it-works/operations.md). Passes of many rows are rare beside their cost, and are called.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from engine.model.layers import Layer
from engine.model.weights import TrunkWeights
from engine.model.workspace import RowBuffers, Workspace
from engine.ops.base import Ops
from engine.ops.plan import PassPlan
from engine.ops.recording import CalledParts, Part, Recording

FloatArray = npt.NDArray[np.float32]
IntArray = npt.NDArray[np.int32]

RECORDED_ROWS = 16  # passes with at most so many rows are recorded
RECORDING_VARIABLE = "STRATUM_RECORDING"  # `off`: every operation is called from Python
STEP_S = 0.02  # layers of a recorded pass that are computed between two looks at what else there is
_MOST_RECORDINGS = 64


@dataclass(slots=True, eq=False)
class PassParts:
    """A pass that can be run.

    Attributes:
        recording: its parts: the embedding, the layers, the head.
        num_layers: how many of them are layers.
        logits: what the head writes, `[n, V]`.
        is_recorded: it is a small pass, whose calls are run as a list.
        layer_s: what a layer took the last time; infinite before.
    """

    recording: Recording
    num_layers: int
    logits: FloatArray
    is_recorded: bool
    layer_s: float = math.inf

    def embed(self) -> None:
        """Tokens to streams."""
        self.recording.run(0, 1)

    def layers(self, first: int, stop: int) -> None:
        """The layers `first` to `stop - 1`."""
        self.recording.run(first + 1, stop + 1)

    def head(self) -> None:
        """Streams to logits."""
        self.recording.run(self.num_layers + 1, self.num_layers + 2)

    def all(self) -> None:
        """Everything at once."""
        self.recording.run(0, self.num_layers + 2)

    def steps(self) -> Iterator[int]:
        """Compute everything, with a stop after each layer; yields the layer's index.

        A recorded pass stops after as many layers as take about `STEP_S` by what they took the last
        time, and not at all when that is the whole pass.
        """
        began_at = time.perf_counter()
        if self.is_recorded and self.layer_s * self.num_layers < STEP_S:
            self.all()
            self.layer_s = (time.perf_counter() - began_at) / self.num_layers
            return
        self.embed()
        done, count = 0, 1
        while done < self.num_layers:
            stop = min(done + count, self.num_layers)
            began_at = time.perf_counter()
            self.layers(done, stop)
            if self.is_recorded:
                self.layer_s = (time.perf_counter() - began_at) / (stop - done)
                count = max(1, int(STEP_S / max(self.layer_s, 1e-6)))
            done = stop
            yield done - 1
        self.head()


class ExpertWatch(Protocol):
    """Is told which experts a layer has chosen, before they are computed with."""

    def chosen(self, layer_idx: int, x: FloatArray, expert_ids: IntArray) -> None:
        """The choice `[R, num_used]`, made of the input `x` `[R, H]`; an EngineError ends the pass."""


class WatchedParts(Recording):
    """Parts of which each layer is two halves, with a look at its choice in between.

    Args:
        halves: the embedding, two halves for each layer, the head.
        num_layers: how many layers.
        look: called with a layer's index between its halves.
    """

    def __init__(self, halves: Recording, num_layers: int, look: Callable[[int], None]) -> None:
        self._halves = halves
        self._num_layers = num_layers
        self._look = look

    def run(self, first: int, stop: int) -> None:
        """Compute the parts `first` to `stop - 1`, a layer being one part."""
        for part in range(first, stop):
            if part == 0:
                self._halves.run(0, 1)
            elif part <= self._num_layers:
                self._halves.run(2 * part - 1, 2 * part)
                self._look(part - 1)
                self._halves.run(2 * part, 2 * part + 1)
            else:
                self._halves.run(2 * self._num_layers + 1, 2 * self._num_layers + 2)


class PassMaker:
    """Makes the parts of passes that compute in one set of buffers, and keeps those of small ones."""

    def __init__(
        self,
        ops: Ops,
        layers: Sequence[Layer],
        weights: TrunkWeights,
        workspace: Workspace,
        watch: ExpertWatch | None = None,
    ) -> None:
        self._watch = watch
        self._ops = ops
        self._layers = layers
        self._weights = weights
        self._workspace = workspace
        self._records = os.environ.get(RECORDING_VARIABLE, "").lower() != "off"
        self._kept: dict[tuple[int, int, int, int], PassParts] = {}

    def parts(self, plan: PassPlan, rows: RowBuffers, wanted: IntArray) -> PassParts:
        """The parts of a pass over this plan, with logits of the rows `wanted` (ascending).

        The plan must be in the arrays of the builder that belongs to these buffers.
        """
        count = len(wanted)
        first = int(wanted[0]) if count else 0
        is_range = count == 0 or int(wanted[-1]) - first + 1 == count
        if not (self._records and is_range and plan.num_rows <= RECORDED_ROWS):
            return self._make(plan, rows, wanted, is_recorded=False)
        key = (plan.num_rows, plan.num_sequences, first, count)
        parts = self._kept.get(key)
        if parts is None:
            if len(self._kept) >= _MOST_RECORDINGS:
                self._kept.clear()
            parts = self._kept[key] = self._make(plan, rows, wanted, is_recorded=True)
        return parts

    def _make(
        self, plan: PassPlan, rows: RowBuffers, wanted: IntArray, *, is_recorded: bool
    ) -> PassParts:
        ops, weights, layers = self._ops, self._weights, self._layers
        count = len(wanted)
        chosen, mixed, logits = self._workspace.head(count)
        if is_recorded and count:
            chosen = rows.streams[wanted[0] : wanted[-1] + 1]

        def embed() -> None:
            ops.begin_pass(plan)
            ops.gather_rows(weights.embedding, rows.ids, rows.x)
            ops.fill_streams(rows.x, rows.streams)

        def head() -> None:
            if not count:
                return
            if not is_recorded:
                ops.take_rows(rows.streams, wanted, chosen)
            ops.hc_mix(weights.final_mix, chosen, mixed, None)
            ops.matmul([weights.output], mixed, [logits])

        watch = self._watch
        parts = [embed, head]
        parts[1:1] = [
            part for layer in layers for part in _layer_parts(ops, layer, plan, rows, watch)
        ]
        if is_recorded:
            keep = (weights, layers, plan, rows, chosen, mixed, logits)
            recording = ops.record(parts, keep)
        else:
            recording = CalledParts(parts)
        if watch is not None:
            recording = WatchedParts(
                recording, len(layers), lambda i: watch.chosen(i, rows.x, rows.expert_ids)
            )
        return PassParts(recording, len(layers), logits, is_recorded)


def _layer_parts(
    ops: Ops, layer: Layer, plan: PassPlan, rows: RowBuffers, watch: ExpertWatch | None
) -> list[Part]:
    if watch is None:
        return [lambda: layer.run(ops, plan, rows)]
    return [
        lambda: layer.run_to_choice(ops, plan, rows),
        lambda: layer.run_from_choice(ops, rows),
    ]
