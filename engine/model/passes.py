"""The operations of a pass as parts: embedding, each layer, head; small passes are recorded.

A decode step or a window of drafts is the same list of operations each time: only what the plan's
arrays hold differs. So it is recorded once per shape and run as one list from then on
(docs/how-it-works/operations.md). Passes of many rows are rare beside their cost, and are called.
"""

from __future__ import annotations

import functools
import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from engine.model.layers import Layer
from engine.model.sides import Cuts, cut_pass, side_cuts
from engine.model.weights import TrunkWeights
from engine.model.workspace import RowBuffers, Workspace
from engine.ops.base import Ops, Stage
from engine.ops.best_logits import BestRows
from engine.ops.plan import PassPlan
from engine.ops.recording import CalledParts, Part, Recording
from engine.sequence.batch import LogitsForm

FloatArray = npt.NDArray[np.float32]
IntArray = npt.NDArray[np.int32]

RECORDED_ROWS = 16  # passes with at most so many rows are recorded
RECORDING_VARIABLE = "STRATUM_RECORDING"  # `off`: every operation is called from Python
STEP_S = 0.02  # layers of a recorded pass that are computed between two looks at what else there is
_MOST_RECORDINGS = 256


def is_recording_on() -> bool:
    """Whether small passes are recorded: unless the environment says otherwise."""
    return os.environ.get(RECORDING_VARIABLE, "").lower() != "off"


@dataclass(slots=True, eq=False)
class PassParts:
    """A pass that can be run.

    Attributes:
        recording: its parts: the embedding, the layers, the head.
        num_layers: how many of them are layers.
        logits: what the head writes, `[n, V]`, or nothing where that is candidates.
        is_recorded: it is a small pass, whose calls are run as a list.
        layer_s: what a layer took the last time; infinite before.
        candidates: what the head writes instead of logits.
    """

    recording: Recording
    num_layers: int
    logits: FloatArray
    is_recorded: bool
    layer_s: float = math.inf
    candidates: BestRows | None = None

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


class StagedParts(Recording):
    """Recordings of stages, one behind the other, as one.

    Args:
        recordings: of each stage, with the number of its parts.
    """

    def __init__(self, recordings: Sequence[tuple[Recording, int]]) -> None:
        self._recordings = recordings

    def run(self, first: int, stop: int) -> None:
        """Compute the parts `first` to `stop - 1`, counted over all stages."""
        for recording, count in self._recordings:
            if first < count and stop > 0:
                recording.run(max(first, 0), min(stop, count))
            first, stop = first - count, stop - count


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
        stages: Sequence[Stage],
        layers: Sequence[Layer],
        weights: TrunkWeights,
        workspace: Workspace,
        watch: ExpertWatch | None = None,
        side_rows: Callable[[int, int], RowBuffers] | None = None,
    ) -> None:
        """Keep what passes are made of.

        Args:
            stages: who computes which layers.
            layers: of the model.
            weights: of the model.
            workspace: the last stage's.
            watch: is told which experts each layer chooses.
            side_rows: buffers for side i of a pass, of so many rows; None = passes have no sides.
        """
        self._watch = watch
        self._side_rows = side_rows if watch is None and len(stages) == 1 else None
        self._stages = tuple(stages)
        self._layers = layers
        self._weights = weights
        self._workspace = workspace
        self._records = is_recording_on()
        self._kept: dict[tuple[int, int, int, int, bool], PassParts] = {}

    def parts(
        self,
        plan: PassPlan,
        rows: Sequence[RowBuffers],
        wanted: IntArray,
        form: LogitsForm = LogitsForm.ALL,
    ) -> PassParts:
        """The parts of a pass over this plan, with logits of the rows `wanted` (ascending).

        The plan must be in the arrays of the builder that belongs to these buffers, of which each
        stage has some. `workspace` is the last stage's.
        """
        count = len(wanted)
        first = int(wanted[0]) if count else 0
        is_range = count == 0 or int(wanted[-1]) - first + 1 == count
        head_ops = self._stages[-1].ops
        takes_few = form is LogitsForm.CANDIDATES and count > 0 and head_ops.chooses
        if not (self._records and is_range and plan.num_rows <= RECORDED_ROWS):
            return self._make(plan, rows, wanted, takes_few=takes_few, is_recorded=False)
        cuts = self._cuts(plan) if count == plan.num_rows and not takes_few else ()
        key = (plan.num_rows, plan.num_sequences, first, count, takes_few)
        parts = self._kept.get(key)
        if parts is None:
            if len(self._kept) >= _MOST_RECORDINGS:
                self._kept.clear()
            parts = self._kept[key] = self._make(
                plan, rows, wanted, takes_few=takes_few, is_recorded=True, has_sides=bool(cuts)
            )
        if cuts:
            parts.recording.cut(cuts)
        return parts

    def _cuts(self, plan: PassPlan) -> Cuts:
        """Where a pass of which all rows get logits may be cut; nothing where it may not."""
        num_sequences = plan.num_sequences
        if num_sequences == 1 or self._side_rows is None:
            return ()
        num_sides = self._stages[0].ops.num_sides
        if num_sides == 1:
            return ()
        starts = (
            plan.seq_start.tolist() if plan.num_rows > num_sequences else range(num_sequences + 1)
        )
        return side_cuts(tuple(starts), num_sides)

    def _make(
        self,
        plan: PassPlan,
        rows: Sequence[RowBuffers],
        wanted: IntArray,
        *,
        takes_few: bool,
        is_recorded: bool,
        has_sides: bool = False,
    ) -> PassParts:
        weights, layers, watch = self._weights, self._layers, self._watch
        count = len(wanted)
        chosen, mixed, logits = self._workspace.head(count)
        begin, end = rows[0], rows[-1]
        packed, candidates = None, None
        if takes_few:
            packed, candidates = self._candidates(logits)
            logits = logits[:0]
        if is_recorded and count:
            chosen = end.streams[wanted[0] : wanted[-1] + 1]

        recordings: list[tuple[Recording, int]] = []
        keep = (weights, layers, plan, rows, chosen, mixed, logits, packed)
        for index, stage in enumerate(self._stages):
            own = rows[index]
            parts = _stage_parts(stage, layers[stage.first : stage.stop], plan, own, watch)
            if index:
                parts[0] = _entered(stage.ops, plan, rows[index - 1], own, parts[0])
            else:
                parts.insert(0, functools.partial(self._embed, plan, begin))
            if index == len(self._stages) - 1:
                head = _head(stage.ops, weights, chosen, mixed, logits, packed)
                parts.append(head if is_recorded else _taken(stage.ops, end, wanted, chosen, head))
            if has_sides:
                sides = functools.partial(self._sides, plan, begin, mixed, logits)
                recording = stage.ops.record_sides(parts, keep, sides)
            else:
                recording = stage.ops.record(parts, keep) if is_recorded else CalledParts(parts)
            recordings.append((recording, len(parts)))
        whole = recordings[0][0] if len(recordings) == 1 else StagedParts(recordings)
        if watch is not None:
            whole = WatchedParts(whole, len(layers), self._look(watch, rows))
        return PassParts(whole, len(layers), logits, is_recorded, candidates=candidates)

    def _embed(self, plan: PassPlan, rows: RowBuffers) -> None:
        ops = self._stages[0].ops
        ops.begin_pass(plan)
        ops.gather_rows(self._weights.embedding, rows.ids, rows.x)
        ops.fill_streams(rows.x, rows.streams)

    def _sides(
        self,
        plan: PassPlan,
        rows: RowBuffers,
        mixed: FloatArray,
        logits: FloatArray,
        cuts: Cuts,
    ) -> list[list[Part]]:
        """The parts of each side of a pass with logits of all rows."""
        weights, stage = self._weights, self._stages[0]
        lists: list[list[Part]] = []
        if self._side_rows is None:  # then nothing is cut
            return lists
        for side in cut_pass(plan, rows, cuts, self._side_rows):
            own = (mixed[side.first : side.stop], logits[side.first : side.stop])
            parts = _stage_parts(stage, self._layers, side.plan, side.rows, None)
            parts.insert(0, functools.partial(self._embed, side.plan, side.rows))
            parts.append(_head(stage.ops, weights, side.rows.streams, *own, None))
            lists.append(parts)
        return lists

    def _candidates(self, logits: FloatArray) -> tuple[IntArray, BestRows]:
        """Where the largest logits of rows go; all `[n, V]` of a row go to their place when asked for."""
        packed = self._workspace.candidates(len(logits))
        ops = self._stages[-1].ops

        def fetch(row: int) -> FloatArray:
            own: FloatArray = logits[row]
            ops.fetch_logits(row, own)
            return own

        return packed, BestRows(packed, fetch)

    def _look(self, watch: ExpertWatch, rows: Sequence[RowBuffers]) -> Callable[[int], None]:
        """What shows a layer's choice."""
        of_layer = [
            own
            for stage, own in zip(self._stages, rows, strict=True)
            for _ in range(stage.first, stage.stop)
        ]
        return lambda i: watch.chosen(i, of_layer[i].x, of_layer[i].expert_ids)


def _head(
    ops: Ops,
    weights: TrunkWeights,
    streams: FloatArray,
    mixed: FloatArray,
    logits: FloatArray,
    packed: IntArray | None,
) -> Part:
    """Streams to logits, or to candidates where there is place for them."""

    def head() -> None:
        if not len(mixed):
            return
        ops.hc_mix(weights.final_mix, streams, mixed, None)
        if packed is None:
            ops.matmul([weights.output], mixed, [logits])
        else:
            ops.best_logits(weights.output, mixed, packed)

    return head


def _taken(ops: Ops, rows: RowBuffers, wanted: IntArray, chosen: FloatArray, head: Part) -> Part:
    """The head, behind what brings the rows that it reads together."""

    def taken() -> None:
        if len(wanted):
            ops.take_rows(rows.streams, wanted, chosen)
        head()

    return taken


def _entered(ops: Ops, plan: PassPlan, before: RowBuffers, rows: RowBuffers, part: Part) -> Part:
    """A stage's first part, behind the streams of the stage before."""

    def entered() -> None:
        ops.begin_pass(plan)
        ops.take_over(before.streams, rows.streams)
        part()

    return entered


def _stage_parts(
    stage: Stage,
    layers: Sequence[Layer],
    plan: PassPlan,
    rows: RowBuffers,
    watch: ExpertWatch | None,
) -> list[Part]:
    """A stage's layers; each leaves its result to the next where the operations add it quicker there."""
    parts: list[Part] = []
    is_owed = False
    for layer, following in zip(layers, (*layers[1:], None), strict=True):
        owes = stage.ops.adds_in_mix and following is not None and following.can_be_owed
        parts += _layer_parts(stage.ops, layer, plan, rows, watch, is_owed=is_owed, owes=owes)
        is_owed = owes
    return parts


def _layer_parts(
    ops: Ops,
    layer: Layer,
    plan: PassPlan,
    rows: RowBuffers,
    watch: ExpertWatch | None,
    *,
    is_owed: bool,
    owes: bool,
) -> list[Part]:
    if watch is None:
        return [lambda: layer.run(ops, plan, rows, is_owed=is_owed, owes=owes)]
    return [
        lambda: layer.run_to_choice(ops, plan, rows, is_owed=is_owed),
        lambda: layer.run_from_choice(ops, rows, owes=owes),
    ]
