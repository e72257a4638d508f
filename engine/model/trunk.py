"""The model: loads, and takes batches of tokens through its layers (spec section 4).

    model = Model.load(file, ops, ModelLimits(context=4096))
    sequence = model.new_sequence()
    result = model.forward(Batch([BatchEntry(sequence, prompt)]))
    sequence.commit(len(prompt))             # the state is now that of the whole prompt
    next_token = int(result.logits[0].argmax())

A pass may be left between layers: `for _ in model.layers(batch)` and break; nothing remains of it.
No arithmetic here: operations compute, sequences remember.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from engine.core.errors import InputError, ResourceError
from engine.core.model_config import ModelConfig
from engine.core.ngram_numbers import TABLE_NAME
from engine.device.base import DeviceMemoryError
from engine.memory.kv_pages import PagePool
from engine.memory.ngram_table import NgramTable
from engine.model.layers import Layer
from engine.model.limits import ModelLimits
from engine.model.mtp import IdArray, MtpHead, load_mtp
from engine.model.ngram_rows import NgramRows
from engine.model.passes import RECORDED_ROWS, ExpertWatch, PassMaker, PassParts
from engine.model.ple_hash import PleHash
from engine.model.pools import delta_pool, kv_pool, ple_pool
from engine.model.weights import Progress, TrunkWeights, WeightLoader
from engine.model.workspace import RowBuffers, Workspace
from engine.ops.base import Ops
from engine.ops.plan import PassPlan
from engine.ops.pools import DeltaPool, KvPool, PlePool
from engine.ops.weights import DeltaWeights, PleWeights
from engine.sequence.batch import Batch, BatchEntry, PassResult, logit_rows
from engine.sequence.plan_builder import PlanBuilder, PlannedRows
from engine.sequence.rope import RopeAngles
from engine.sequence.state import OpenPass, SequenceState, StateStore

if TYPE_CHECKING:
    from engine.gguf.reader import GgufFile, Tensor

logger = logging.getLogger(__name__)

FloatArray = npt.NDArray[np.float32]


class PassBuffers:
    """What one pass in flight needs for itself: activations, plan and lists of operations."""

    def __init__(self, model: Model, max_rows: int | None = None) -> None:
        config, limits = model.config, model.limits
        page_size = limits.page_size(config.block_ratio)
        self.max_rows = limits.max_rows if max_rows is None else min(max_rows, limits.max_rows)
        first = Workspace(config, model.stages[0].ops, self.max_rows)
        self._workspaces = [
            first,
            *(Workspace(config, s.ops, self.max_rows, first) for s in model.stages[1:]),
        ]
        if max_rows is None:  # the largest ones of the model
            for stage, workspace in zip(model.stages, self._workspaces, strict=True):
                stage.ops.lend(workspace.shared)
        self.passes = PassMaker(
            model.stages,
            model.trunk_layers,
            model.weights,
            self._workspaces[-1],
            model.expert_watch,
            self._side_rows,
        )
        self._model = model
        self._side_workspaces: list[Workspace] = []
        self.plans = PlanBuilder(
            max_rows=self.max_rows,
            max_sequences=limits.max_sequences,
            max_pages=-(-limits.context // page_size),
            block_ratio=config.block_ratio,
            angles=RopeAngles(config.rope_dim, config.rope_theta, config.rope_sections),
            new_arrays=model.ops.host_arrays,
        )
        self.user: object | None = None  # the newest pass that computes in them

    def rows(self, num_rows: int) -> list[RowBuffers]:
        """Activations of a pass with so many rows, of each stage."""
        return [workspace.rows(num_rows) for workspace in self._workspaces]

    def _side_rows(self, side: int, num_rows: int) -> RowBuffers:
        """Activations of one side of a small pass; made when sides are tried."""
        model, made = self._model, self._side_workspaces
        while len(made) <= side:
            made.append(Workspace(model.config, model.ops, min(RECORDED_ROWS, self.max_rows)))
        return made[side].rows(num_rows)


class Lane:
    """Passes in buffers of their own, while one in the model's own buffers is left open."""

    def __init__(self, model: Model, buffers: PassBuffers) -> None:
        self._model = model
        self._buffers = buffers

    def layers(self, batch: Batch) -> Generator[int, None, PassResult]:
        """Compute a batch layer by layer, as the model's `layers` does."""
        return self._model.layers(batch, self._buffers)


class Model:
    """A loaded model with memory for its sequences.

    Attributes:
        config: its sizes.
        limits: what its buffers are sized for.
        ops: the operations that compute.
        stages: who of them computes which layers.
        mtp: the draft head, None when there is none.
        store: the state of all sequences.
        expert_watch: is told which experts each layer chooses, None = nobody.
        trunk_layers: weights and states, layer by layer; lists of operations point to them.
        ngram_rows: reads rows of the n-gram table early; None when it is mapped or in memory.
    """

    def __init__(
        self,
        config: ModelConfig,
        limits: ModelLimits,
        ops: Ops,
        weights: TrunkWeights,
        table: NgramTable | None = None,
    ) -> None:
        self.config = config
        self.limits = limits
        self.ops = ops
        self.stages = ops.stages(config.num_layers)
        self.mtp: MtpHead | None = None
        self.expert_watch: ExpertWatch | None = None
        self.weights = weights
        self.store = StateStore(
            ops=ops,
            delta=[],
            ple=[],
            kv=[],
            pages=PagePool(
                limits.num_pages(config.block_ratio), limits.page_size(config.block_ratio)
            ),
            free_slots=list(range(limits.max_sequences - 1, -1, -1)),
            context=limits.context,
            max_window=limits.max_window,
            num_tail_tokens=0 if config.ple is None else config.ple.ngram_size - 1,
            streams_shape=(config.num_streams, config.hidden_size),
        )
        self.trunk_layers = tuple(
            self._make_layer(stage.ops, layer_idx)
            for stage in self.stages
            for layer_idx in range(stage.first, stage.stop)
        )
        self._hash = None if config.ple is None else PleHash(config.ple)
        self.ngram_rows: NgramRows | None = None
        if self._hash is not None and table is not None:
            self.ngram_rows = NgramRows(self._hash, table)
        self._buffers = PassBuffers(self)

    @classmethod
    def load(
        cls,
        file: GgufFile,
        ops: Ops,
        limits: ModelLimits,
        progress: Progress | None = None,
        mtp_file: GgufFile | None = None,
        *,
        requant: bool = False,
        draft_ids: IdArray | None = None,
        table: NgramTable | Tensor | None = None,
    ) -> Model:
        """Load a model, with the draft head that lies in the file or in a file of its own.

        Args:
            file: the model; must stay open while the model lives.
            ops: what computes; made with limits that cover `limits`.
            limits: sizes of buffers.
            progress: called with (layers done, layers in all).
            mtp_file: a draft head's file; wins over one in the model's file.
            requant: hold stream projections of 16 or 32 bits as Q8_0.
            draft_ids: the only tokens that the draft head may propose; None = all.
            table: the n-gram table on the disk or in memory; None = as the file is mapped. Must stay
                open while the operations live.

        Raises:
            ModelFileError: the file is no model that we know, or damaged.
            ResourceError: there is not enough memory for its states and buffers.
        """
        try:
            model = cls._load(file, ops, limits, progress, table, requant=requant)
            model._add_head(file, mtp_file, requant=requant, draft_ids=draft_ids)
            model._finish_loading()
        except MemoryError as error:
            raise ResourceError(
                f"There is not enough memory for {limits.max_sequences} conversations of "
                f"{limits.context} tokens with this model; choose a smaller context.",
                code="out_of_memory",
            ) from error
        return model

    @classmethod
    def _load(
        cls,
        file: GgufFile,
        ops: Ops,
        limits: ModelLimits,
        progress: Progress | None,
        table: NgramTable | Tensor | None,
        *,
        requant: bool,
    ) -> Model:
        tensors, on_disk = file.tensors, None
        config = ModelConfig.from_metadata(file.metadata, tensors)
        if isinstance(table, NgramTable):
            on_disk = table
        elif table is not None:
            tensors = {**tensors, TABLE_NAME: table}
        loader = WeightLoader(config, tensors, ops, limits.context, requant=requant, table=on_disk)
        return cls(config, limits, ops, loader.trunk(progress), on_disk)

    def _add_head(
        self,
        file: GgufFile,
        mtp_file: GgufFile | None,
        *,
        requant: bool,
        draft_ids: IdArray | None,
    ) -> None:
        """The draft head of a file of its own, or else that of the model's file."""
        if not self.limits.with_head or (mtp_file is None and not self.config.num_mtp_layers):
            return
        self.mtp = load_mtp(
            self.config,
            self.limits.of_head(),
            self.stages[-1].ops,  # where the trunk's streams end
            self.weights,
            file if mtp_file is None else mtp_file,
            is_sidecar=mtp_file is not None,
            requant=requant,
            output=file.tensors.get("output.weight", file.tensors["token_embd.weight"]),
            draft_ids=draft_ids,
        )
        self.store.kv.append(self.mtp.kv)

    def _finish_loading(self) -> None:
        layers = [layer.moe for layer in self.weights.layers]
        self.ops.finish_loading(layers, [] if self.mtp is None else [self.mtp.moe])

    def _make_layer(self, ops: Ops, layer_idx: int) -> Layer:
        config, limits, store = self.config, self.limits, self.store
        weights = self.weights.layers[layer_idx]
        pool: DeltaPool | KvPool
        if isinstance(weights.mixer, DeltaWeights):
            pool = delta_pool(config, limits, ops)
            store.delta.append((weights.mixer, pool))
        else:
            pool = kv_pool(config, limits, ops)
            store.kv.append(pool)
        ple = self._make_ple_pool(ops, weights.ple)
        if ple is not None and weights.ple is not None:
            store.ple.append((weights.ple, ple))
        return Layer(weights=weights, pool=pool, ple=ple)

    def _make_ple_pool(self, ops: Ops, weights: PleWeights | None) -> PlePool | None:
        if weights is None or self.config.ple is None:
            return None
        return ple_pool(self.config, self.config.ple, self.limits, ops)

    # -- sequences -------------------------------------------------------------------------------

    def new_sequence(self) -> SequenceState:
        """An empty sequence.

        Raises:
            ResourceError: `limits.max_sequences` are alive.
        """
        return SequenceState(self.store)

    def new_buffers(self, max_rows: int | None = None) -> PassBuffers:
        """Buffers for one more pass in flight, while another is left between two layers."""
        return PassBuffers(self, max_rows)

    def new_lane(self, max_rows: int) -> Lane:
        """For passes of at most so many rows while one of the model's own is left open."""
        return Lane(self, self.new_buffers(max_rows))

    def watch_experts(self, watch: ExpertWatch) -> None:
        """Have somebody told of each layer's choice; before the first pass."""
        self.expert_watch = watch
        self._buffers = PassBuffers(self)

    # -- passes ----------------------------------------------------------------------------------

    def forward(self, batch: Batch) -> PassResult:
        """Compute a batch; each of its sequences waits for `commit` afterwards.

        Raises:
            InputError: a token id is not in the vocabulary, or a context would be exceeded.
            ResourceError: the key/value cache is full.
        """
        return _result_of(self._pass(batch, self._buffers, at_once=True))

    def layers(
        self, batch: Batch, buffers: PassBuffers | None = None
    ) -> Generator[int, None, PassResult]:
        """Compute a batch layer by layer; yields each layer's index when it is done.

        Layers of small passes that take milliseconds together may be one step.

        Leaving the generator (or an error in it) abandons the pass without a trace. Its return
        value is the result.

        Args:
            batch: what to compute.
            buffers: of `new_buffers`, for a pass that runs while another one is left open.
        """
        return self._pass(batch, self._buffers if buffers is None else buffers, at_once=False)

    def _pass(
        self, batch: Batch, buffers: PassBuffers, *, at_once: bool
    ) -> Generator[int, None, PassResult]:
        """A pass; yields after each layer unless all is computed at once."""
        self._check(batch, buffers)
        opened: list[tuple[SequenceState, OpenPass]] = []
        finished = False
        try:
            for entry in batch.entries:
                state = entry.state
                opened.append((state, state.begin_pass(entry.token_ids, entry.rope_positions)))
            buffers.user = opened
            self.ops.synchronize()  # a pass that was left may still read its plan
            plan = buffers.plans.build(
                [PlannedRows(e.state, e.state.length, e.token_ids) for e in batch.entries]
            )
            rows = buffers.rows(batch.num_rows)
            self._write_rows(batch, plan, rows[0])
            wanted = logit_rows([e.logits for e in batch.entries], batch.starts)
            parts = yield from self._compute(
                lambda: buffers.passes.parts(plan, rows, wanted, batch.form),
                lambda: _check_undisturbed(opened, buffers),
                at_once=at_once,
            )
            streams = rows[-1].streams
            result = PassResult(
                parts.logits, wanted, streams, batch.starts, candidates=parts.candidates
            )
            self._finish(batch, streams)
            finished = True
            return result
        finally:
            if not finished:
                for state, open_pass in opened:
                    if state.is_open(open_pass):
                        state.abandon_pass()

    def _compute(
        self, new_parts: Callable[[], PassParts], check: Callable[[], None], *, at_once: bool
    ) -> Generator[int, None, PassParts]:
        """Compute everything; once more from the start when memory ran out and some was given up."""
        attempt = 0
        while True:
            try:
                parts = new_parts()
                if at_once:
                    parts.all()
                else:
                    for layer_idx in parts.steps():
                        self.ops.pace()
                        if self.ngram_rows is not None:
                            self.ngram_rows.table.advance()
                        yield layer_idx
                        check()
                self.ops.synchronize()
            except DeviceMemoryError as error:
                self._make_room(error, attempt)
                attempt += 1
            else:
                return parts

    def _make_room(self, error: DeviceMemoryError, attempt: int) -> None:
        if not self.ops.make_room(error, attempt):
            raise error
        logger.warning("fewer experts are kept on the card: %s", error)

    def _copy(self, streams: FloatArray) -> FloatArray:
        attempt = 0
        while True:
            try:
                return streams.copy()
            except DeviceMemoryError as error:
                self._make_room(error, attempt)
                attempt += 1

    def _finish(self, batch: Batch, streams: FloatArray) -> None:
        """Give every sequence the streams of its rows, or of the last one of many.

        Copies: the next pass, of any sequence, reuses the buffer.
        """
        most = self.limits.max_window
        is_small = batch.num_rows <= most
        if is_small:
            streams = self._copy(streams)  # one for all of them
        for index, entry in enumerate(batch.entries):
            first, stop = batch.starts[index : index + 2]
            if stop - first > most:
                first = stop - 1
            part = streams[first:stop]
            entry.state.finish_pass(part if is_small else self._copy(part))

    def workspace_rows(self, num_rows: int) -> RowBuffers:
        """Activations of the pass under way, of its last stage, for looking at it between layers."""
        return self._buffers.rows(num_rows)[-1]

    def _check(self, batch: Batch, buffers: PassBuffers) -> None:
        if batch.num_rows > buffers.max_rows:
            raise ValueError(f"{batch.num_rows} rows in a pass of at most {buffers.max_rows}")
        if len(batch.entries) > self.limits.max_sequences:
            raise ValueError(f"{len(batch.entries)} sequences in a pass")
        for entry in batch.entries:
            check_token_ids(entry, self.config.vocab_size)

    def _write_rows(self, batch: Batch, plan: PassPlan, rows: RowBuffers) -> None:
        """Which rows of the embedding and of the n-gram table the tokens read."""
        rows.ids[...] = plan.token_ids
        if self._hash is not None:
            self._hash.write(
                [(e.token_ids, e.state.token_tail) for e in batch.entries], rows.ple_rows
            )
        if self.ngram_rows is not None:
            self.ngram_rows.table.request(rows.ple_rows)


def _result_of(steps: Generator[int, None, PassResult]) -> PassResult:
    """Run a pass to its end."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: PassResult = end.value
            return result


def _check_undisturbed(opened: list[tuple[SequenceState, OpenPass]], buffers: PassBuffers) -> None:
    """Refuse to go on with a pass that would write into what belongs to others by now."""
    if not all(state.is_open(open_pass) for state, open_pass in opened):
        raise RuntimeError("a sequence of the pass was released or began another pass")
    if buffers.user is not opened:
        raise RuntimeError("another pass has taken the buffers; give it some of `new_buffers`")


def check_token_ids(entry: BatchEntry, vocab_size: int) -> None:
    """Refuse ids outside of the vocabulary.

    Raises:
        InputError: there is one.
    """
    low, high = min(entry.token_ids), max(entry.token_ids)
    if low < 0 or high >= vocab_size:
        wrong = low if low < 0 else high
        raise InputError(
            f"The token id {wrong} is not in the model's vocabulary of {vocab_size} tokens.",
            code="token_out_of_range",
            params={"token": int(wrong), "vocabulary": vocab_size},
        )
