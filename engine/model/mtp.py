"""The draft head (MTP, spec section 7): one more layer that predicts the token after the next.

Entry i of the head's cache is made from the trunk's streams of token i and from token i + 1:

    first = sequence.mtp_length
    result = model.mtp.forward([DraftEntry(sequence, streams, next_tokens)])   # entries first, ...
    draft = int(result.logits[0].argmax())
    again = model.mtp.forward([DraftEntry(sequence, result.streams.copy()[-1:], [draft])])
    sequence.truncate_mtp(first + len(next_tokens))    # forget what was made while drafting

The draft step feeds the head's own streams back in place of the trunk's.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from engine.core.errors import InputError
from engine.core.metadata import refuse
from engine.core.model_config import LayerKind, ModelConfig, check_architecture, parse_config
from engine.core.model_shapes import check_layer_shapes, require
from engine.device.base import DeviceMemoryError
from engine.model.layers import Layer
from engine.model.limits import ModelLimits
from engine.model.mtp_layouts import MtpNames, find_mtp_names
from engine.model.passes import RECORDED_ROWS, is_recording_on
from engine.model.pools import kv_pool
from engine.model.tensor_parts import column_range, row_selection
from engine.model.weights import LayerWeights, TrunkWeights, WeightLoader
from engine.model.workspace import RowBuffers, Workspace
from engine.ops.base import Ops
from engine.ops.best_logits import ROW_WORDS, BestRows
from engine.ops.plan import PassPlan
from engine.ops.pools import KvPool
from engine.ops.recording import CalledParts, Part, Recording
from engine.ops.weights import HyperConnectionWeights, Matrix, MoeWeights
from engine.sequence.batch import LogitsForm, LogitsWanted, PassResult, logit_rows
from engine.sequence.plan_builder import PlanBuilder, PlannedRows
from engine.sequence.rope import RopeAngles
from engine.sequence.state import SequenceState

if TYPE_CHECKING:
    from engine.gguf.reader import GgufFile, Tensor

FloatArray = npt.NDArray[np.float32]
IdArray = npt.NDArray[np.int64]
IntArray = npt.NDArray[np.int32]

logger = logging.getLogger(__name__)

_NUM_PARTS = 3  # of a pass: what the layer begins with, the layer, the logits
_MOST_RECORDINGS = 64


@dataclass(frozen=True, slots=True, eq=False)
class MtpWeights:
    """The head's weights; embedding and output are the trunk's unless the head has its own."""

    embedding: Matrix  # (V, H)
    output: Matrix  # (V, H), or (D, H) for a part of the vocabulary
    draft_ids: IdArray | None  # (D,) the tokens of that part; None = all
    fc_embedding: Matrix  # (H, H)
    fc_hidden: Matrix  # (H, H)
    embedding_norm: FloatArray  # (H,)
    hidden_norm: FloatArray  # (hc*H,), one norm over all streams
    layer: LayerWeights
    exit_mix: HyperConnectionWeights


@dataclass(frozen=True, slots=True, eq=False)
class DraftEntry:
    """New cache entries of one sequence, from `state.mtp_length` on.

    Attributes:
        state: the sequence.
        streams: `[n, hc, H]` of the tokens before: the trunk's, or the head's own while drafting.
        next_tokens: the token after each of them.
        logits: which entries get logits.
    """

    state: SequenceState
    streams: FloatArray
    next_tokens: Sequence[int]
    logits: LogitsWanted = LogitsWanted.LAST


@dataclass(frozen=True, slots=True, eq=False)
class _DraftPass:
    """A pass that can be run."""

    recording: Recording
    given: FloatArray  # (R, hc, H) the streams that it begins with
    logits: FloatArray  # (n, V), or (n, D) for a part of the vocabulary
    best: IntArray | None = None  # (n,) their largest ones, or (n, ROW_WORDS), instead


class MtpHead:
    """The loaded head.

    Attributes:
        config: its sizes (attention and experts may differ from the trunk's).
        kv: its pages, numbered like the trunk's.
    """

    def __init__(
        self, config: ModelConfig, limits: ModelLimits, ops: Ops, weights: MtpWeights
    ) -> None:
        self.config = config
        self.kv: KvPool = kv_pool(config, limits, ops)
        self._limits = limits
        self._ops = ops
        self._weights = weights
        self._layer = Layer(weights=weights.layer, pool=self.kv, ple=None)
        self._workspace = Workspace(config, ops, limits.max_rows)
        hc, H = config.num_streams, config.hidden_size
        self._normed = ops.zeros((limits.max_rows, hc * H))
        self._embedded = ops.zeros((limits.max_rows, H))
        self._logits = np.zeros((0, config.vocab_size), np.float32)  # the rest is minus infinity
        self._part_logits = np.zeros((0, 0), np.float32)
        self._records = is_recording_on() and ops.records_numbers
        self._kept: dict[tuple[int, int, int, int, LogitsForm], _DraftPass] = {}
        self._given = ops.zeros((min(limits.max_rows, RECORDED_ROWS), hc, H))
        self._plans = PlanBuilder(
            max_rows=limits.max_rows,
            max_sequences=limits.max_sequences,
            max_pages=-(-limits.context // limits.page_size(config.block_ratio)),
            block_ratio=config.block_ratio,
            angles=RopeAngles(config.rope_dim, config.rope_theta, config.rope_sections),
            new_arrays=ops.host_arrays,
        )

    @property
    def moe(self) -> MoeWeights:
        """Its experts."""
        return self._weights.layer.moe

    def forward(
        self, entries: Sequence[DraftEntry], form: LogitsForm = LogitsForm.ALL
    ) -> PassResult:
        """Append entries and predict; `streams` of the result feed the next draft step.

        The entries count at once (`state.mtp_length` grows); `state.truncate_mtp` takes them back.

        Args:
            entries: what to append.
            form: what will do instead of all logits, where it comes sooner.

        Raises:
            InputError: a token id is not in the vocabulary, or a context would be exceeded.
            ResourceError: the key/value cache is full.
        """
        num_rows = self._check(entries)
        try:
            for entry in entries:
                entry.state.begin_mtp(len(entry.next_tokens))
            result = self._compute(entries, num_rows, form)
        except BaseException:
            for entry in entries:  # pages that were provided go back
                entry.state.truncate_mtp(entry.state.mtp_length)
            raise
        for entry in entries:
            entry.state.mtp_length += len(entry.next_tokens)
        return result

    def _compute(
        self, entries: Sequence[DraftEntry], num_rows: int, form: LogitsForm
    ) -> PassResult:
        ops = self._ops
        ops.synchronize()  # a pass that was left may still read its plan
        plan = self._plans.build(
            [
                PlannedRows(e.state, e.state.mtp_length, e.next_tokens, e.state.mtp_base)
                for e in entries
            ]
        )
        rows = self._workspace.rows(num_rows)
        rows.ids[...] = plan.token_ids
        wanted = logit_rows([e.logits for e in entries], plan.seq_start)
        attempt = 0
        while True:
            try:
                draft = self._pass(plan, rows, wanted, form)
                for index, entry in enumerate(entries):
                    own = slice(plan.seq_start[index], plan.seq_start[index + 1])
                    draft.given[own] = entry.streams
                draft.recording.run(0, _NUM_PARTS)
                ops.synchronize()
                break
            except DeviceMemoryError as error:
                if not ops.make_room(error, attempt):
                    raise
                attempt += 1
                logger.warning("fewer experts are kept on the card: %s", error)
        starts = plan.seq_start.copy()
        ids = self._weights.draft_ids
        if draft.best is not None:
            result = PassResult(draft.logits, wanted, rows.streams, starts)
            if form is LogitsForm.CANDIDATES:
                return result._replace(candidates=BestRows(draft.best, token_ids=ids))
            best = draft.best.copy()
            if ids is not None:
                best[best >= 0] = ids[best[best >= 0]]
            return result._replace(best=best)
        return PassResult(self._all_logits(draft.logits), wanted, rows.streams, starts)

    def _pass(
        self, plan: PassPlan, rows: RowBuffers, wanted: IntArray, form: LogitsForm
    ) -> _DraftPass:
        """The operations of a pass; those of small passes are recorded, as the trunk's are."""
        num_rows, count = plan.num_rows, len(wanted)
        first = int(wanted[0]) if count else 0
        is_range = count == 0 or int(wanted[-1]) - first + 1 == count
        if not (self._records and is_range and num_rows <= RECORDED_ROWS):
            parts, logits = self._parts(plan, rows, rows.streams, wanted, is_range=False)
            return _DraftPass(CalledParts(parts), rows.streams, logits)
        if not (count and self._ops.chooses):
            form = LogitsForm.ALL
        key = (num_rows, plan.num_sequences, first, count, form)
        draft = self._kept.get(key)
        if draft is None:
            if len(self._kept) >= _MOST_RECORDINGS:
                self._kept.clear()
            given = self._given[:num_rows]
            best = None
            if form is not LogitsForm.ALL:
                shape = (count,) if form is LogitsForm.BEST else (count, ROW_WORDS)
                (best,) = self._ops.host_arrays((shape, np.int32))
            parts, logits = self._parts(plan, rows, given, wanted, is_range=True, best=best)
            keep = (self._weights, self._layer, plan, rows, given, logits, best)
            recording = self._ops.record(parts, keep)
            draft = self._kept[key] = _DraftPass(recording, given, logits, best)
        return draft

    def _parts(
        self,
        plan: PassPlan,
        rows: RowBuffers,
        given: FloatArray,
        wanted: IntArray,
        *,
        is_range: bool,
        best: IntArray | None = None,
    ) -> tuple[list[Part], FloatArray]:
        """What a pass calls, and where its logits `[n, V or D]` will be.

        Args:
            plan: of the pass.
            rows: its buffers.
            given: `[R, hc, H]`, the streams that it begins with; other arrays than `rows.streams` if
                the parts are to be run more than once.
            wanted: rows that get logits.
            is_range: these are neighbours.
            best: `[n]`, gets their best tokens instead, or `[n, ROW_WORDS]` their largest logits.
        """
        ops, weights, config = self._ops, self._weights, self.config
        num_rows, count = plan.num_rows, len(wanted)
        hc, H = config.num_streams, config.hidden_size
        normed, embedded = self._normed[:num_rows], self._embedded[:num_rows]
        flat = given.reshape(num_rows, hc * H)
        # The same matrix for every stream: (R * hc, H) rows, at most max_rows at a time.
        stream_rows, outputs = normed.reshape(-1, H), rows.streams.reshape(-1, H)
        most = self._limits.max_rows
        blocks = [
            (stream_rows[start : start + most], outputs[start : start + most])
            for start in range(0, len(stream_rows), most)
        ]
        chosen, mixed, logits = self._workspace.head(count)
        if is_range and count:
            chosen = rows.streams[wanted[0] : wanted[-1] + 1]
        if best is not None:
            logits = logits[:0]
        elif weights.draft_ids is not None:
            logits = self._logits_of_part(count, len(weights.draft_ids))

        def begin() -> None:
            ops.begin_pass(plan)
            ops.gather_rows(weights.embedding, rows.ids, rows.x)
            ops.rms_norm(rows.x, weights.embedding_norm, config.rms_eps, rows.y)
            ops.matmul([weights.fc_embedding], rows.y, [embedded])
            ops.rms_norm(flat, weights.hidden_norm, config.rms_eps, normed)
            for x, out in blocks:
                ops.matmul([weights.fc_hidden], x, [out])
            ops.add_to_streams(embedded, rows.streams)

        def head() -> None:
            if not count:
                return
            if not is_range:
                ops.take_rows(rows.streams, wanted, chosen)
            ops.hc_mix(weights.exit_mix, chosen, mixed, None)
            if best is None:
                ops.matmul([weights.output], mixed, [logits])
            elif best.ndim == 1:
                ops.choose(weights.output, mixed, best)
            else:
                ops.best_logits(weights.output, mixed, best)

        return [begin, lambda: self._layer.run(ops, plan, rows), head], logits

    def _logits_of_part(self, count: int, size: int) -> FloatArray:
        """Where logits of a part of the vocabulary are computed, `[count, size]`."""
        if count > len(self._part_logits):
            (self._part_logits,) = self._ops.host_arrays(((count, size), np.float32))
        return self._part_logits[:count]

    def _all_logits(self, logits: FloatArray) -> FloatArray:
        """Logits `[n, V]`; minus infinity for tokens that are never drafted."""
        ids, count = self._weights.draft_ids, len(logits)
        if ids is None:
            return logits
        if count > len(self._logits):
            self._logits = np.full((count, self.config.vocab_size), -np.inf, np.float32)
        self._logits[:count, ids] = logits
        return self._logits[:count]

    def _check(self, entries: Sequence[DraftEntry]) -> int:
        num_rows = sum(len(e.next_tokens) for e in entries)
        if not 1 <= num_rows <= self._limits.max_rows:
            raise ValueError(f"{num_rows} rows in a pass of at most {self._limits.max_rows}")
        if len({id(entry.state) for entry in entries}) != len(entries):
            raise ValueError("a sequence appears twice in one draft pass")
        shape = (self.config.num_streams, self.config.hidden_size)
        for entry in entries:
            if len(entry.next_tokens) == 0:
                raise ValueError("an entry needs tokens")
            if entry.streams.shape != (len(entry.next_tokens), *shape):
                raise ValueError(f"streams of shape {entry.streams.shape}")
            if not all(0 <= t < self.config.vocab_size for t in entry.next_tokens):
                raise InputError("A draft token is not in the model's vocabulary.")
        return num_rows


def load_mtp(
    trunk: ModelConfig,
    limits: ModelLimits,
    ops: Ops,
    trunk_weights: TrunkWeights,
    file: GgufFile,
    *,
    is_sidecar: bool,
    requant: bool = False,
    output: Tensor | None = None,
    draft_ids: IdArray | None = None,
) -> MtpHead:
    """The draft head of a file, for this trunk.

    Args:
        trunk: the trunk's sizes.
        limits: sizes of buffers.
        ops: what computes.
        trunk_weights: embedding and output, for a head that has none of its own.
        file: the model's file, or the head's own.
        is_sidecar: whether it is the head's own.
        requant: hold stream projections of 16 or 32 bits as Q8_0.
        output: the trunk's output tensor, needed for a part of the vocabulary.
        draft_ids: the only tokens that may be drafted; None = all.

    Raises:
        ModelFileError: the file holds no head that fits, or one of an unknown layout.
    """
    config = _sidecar_config(trunk, file) if is_sidecar else trunk
    prefix = f"blk.{trunk.num_layers}."
    names = find_mtp_names(file.tensors, trunk.num_layers, is_sidecar=is_sidecar)
    _check_shapes(config, names, prefix, file)
    loader = WeightLoader(config, file.tensors, ops, limits.context, requant=requant)
    if names.joined is not None:
        joined, H = file.tensors[names.joined], config.hidden_size
        fc_embedding = ops.matrix(column_range(joined, 0, H))
        fc_hidden = ops.matrix(column_range(joined, H, 2 * H))
    else:
        fc_embedding, fc_hidden = (loader.matrix(name) for name in names.separate)
    embedding, head = trunk_weights.embedding, trunk_weights.output
    if is_sidecar and "token_embd.weight" in file.tensors:
        embedding = loader.table("token_embd.weight")
    if is_sidecar and "output.weight" in file.tensors:
        output = file.tensors["output.weight"]
        head = loader.matrix("output.weight")
    if draft_ids is None or output is None:
        draft_ids = None
    else:
        head = ops.matrix(row_selection(output, draft_ids))
    weights = MtpWeights(
        embedding=embedding,
        output=head,
        draft_ids=draft_ids,
        fc_embedding=fc_embedding,
        fc_hidden=fc_hidden,
        embedding_norm=loader.vector(names.embedding_norm).reshape(-1),
        hidden_norm=loader.vector(names.hidden_norm).reshape(-1),
        layer=loader.layer(prefix, LayerKind.ATTENTION, ple=None),
        exit_mix=loader.mix_of(names.exit_norm, names.exit_down, names.exit_up, None),
    )
    return MtpHead(config, limits, ops, weights)


def _sidecar_config(trunk: ModelConfig, file: GgufFile) -> ModelConfig:
    check_architecture(file.metadata)
    config = parse_config(file.metadata, trunk.vocab_size)
    pairs = (
        ("hidden size", config.hidden_size, trunk.hidden_size),
        ("streams", config.num_streams, trunk.num_streams),
        ("trunk layers", config.num_layers, trunk.num_layers),
        ("block ratio", config.block_ratio, trunk.block_ratio),
        ("rotated dimensions", config.rope_dim, trunk.rope_dim),
    )
    for what, own, wanted in pairs:
        if own != wanted:
            refuse(f"its draft head (MTP) belongs to another model ({what}: {own} for {wanted})")
    return config


def _check_shapes(config: ModelConfig, names: MtpNames, prefix: str, file: GgufFile) -> None:
    hc, H, r = config.num_streams, config.hidden_size, config.low_rank
    tensors = file.tensors
    if names.joined is not None:
        require(tensors, names.joined, ((H, 2 * H),))
    for matrix in names.separate:
        require(tensors, matrix, ((H, H),))
    require(tensors, names.embedding_norm, ((H,),))
    require(tensors, names.hidden_norm, ((hc * H,), (hc, H)))
    require(tensors, names.exit_norm, ((hc * H,), (hc, H)))
    require(tensors, names.exit_down, ((r, hc * H),))
    require(tensors, names.exit_up, ((hc * H, r),))
    for shared in ("token_embd.weight", "output.weight"):
        if shared in tensors:
            require(tensors, shared, ((config.vocab_size, H),))
    check_layer_shapes(config, prefix, tensors, is_delta=False)
