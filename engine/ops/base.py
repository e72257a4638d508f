"""The contract of the operations that a model is made of.

`model/` calls these and nothing else computes. Implementations: `reference.py` (numpy: slow, readable,
the executable spec, checked against the golden data) and `host.py` (C++ kernels, checked against the
reference). Formulas: spec/qwen4exp.md section 4; each method names its part.

Rules for every implementation:
- An operation writes its result into the arrays given as outputs (`out`, `x`, `streams`, pools) and
  may overwrite nothing else. Activations are float32, C-contiguous in their last axis; rows may be
  strided only where a method says so.
- Batch invariance: a row's result depends neither on how many rows there are nor on what they hold;
  bit for bit. (For operations on sequences: neither on the other sequences, nor on how a sequence's
  rows are cut into passes, except that DeltaNet's chunked form is used for whole blocks of 64
  positions aligned to multiples of 64.)
- Matrices in a quantised format multiply activations that are quantised to 8-bit blocks of 32 values
  (float32 scale), with int32 sums inside a block and float32 sums across blocks in a fixed order. The
  reference does not quantise activations: it is the exact result. F32, F16 and BF16 matrices take
  float32 activations.
- Norms, softmax, router, recurrences and residual streams are float32.
- Nothing is allocated per call on a hot path; scratch is sized by `Limits` when the object is made.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from engine.core.kv_type import KvType
from engine.ops.host_draw import DrawSettings, HostDraw
from engine.ops.memory_ops import ChoiceCounter, FloatArray, IntArray, Limits, MemoryOps
from engine.ops.plan import PassPlan
from engine.ops.pools import DeltaPool, KvPool, PlePool
from engine.ops.recording import CalledParts, Part, Recording
from engine.ops.weights import (
    AttentionWeights,
    DeltaWeights,
    HyperConnectionWeights,
    Matrix,
    MoeWeights,
    PleWeights,
)

__all__ = [
    "CHUNK_TOKENS",
    "ChoiceCounter",
    "FloatArray",
    "IntArray",
    "Limits",
    "MemoryOps",
    "Ops",
    "Stage",
    "no_kernel_message",
]

CHUNK_TOKENS = 64  # block of positions that DeltaNet may compute in chunked form


@dataclass(frozen=True, slots=True, eq=False)
class Stage:
    """Neighbouring layers that the same operations compute, on memory of their own.

    Attributes:
        ops: the operations.
        first: the first layer.
        stop: the layer behind the last.
    """

    ops: Ops
    first: int
    stop: int


class Ops(MemoryOps):
    """One implementation of all operations. R rows, H hidden size, hc streams, V vocabulary."""

    kv_types = frozenset({KvType.F16, KvType.F32})  # of keys and values that they can read
    adds_in_mix = False  # `hc_combine_mix` is quicker than its two halves
    chooses = False  # has `choose` and `best_logits`: where logits are far from the host
    keeps_results = False  # whether experts' results are kept apart until the end of a layer
    records_numbers = True  # `record` takes operations with a number among their arguments

    def stages(self, num_layers: int) -> tuple[Stage, ...]:
        """Who computes which layers: the first stage the embedding too, the last one the head.

        A stage's weights, states and activations are made by its operations; plan and row numbers
        (`host_arrays`) by these, for all of them.
        """
        return (Stage(self, 0, num_layers),)

    # -- passes ----------------------------------------------------------------------------------

    def begin_pass(self, plan: PassPlan) -> None:  # nothing to do on the host
        """The first operation of a pass: the plan is complete and does not change until its end."""

    def pace(self) -> None:  # nothing to do on the host
        """Wait until what was called before the last `pace` is done.

        Called after each layer of a long pass, so that it can be left, and its time be measured.
        """

    def synchronize(self) -> None:  # nothing to do on the host
        """Wait until everything that was called is done.

        Host arrays that operations write are there then, and those that they read may be changed.
        """

    # -- plain operations ------------------------------------------------------------------------

    @abstractmethod
    def gather_rows(self, table: Matrix, rows: npt.NDArray[np.int64], out: FloatArray) -> None:
        """Rows of a table: `out[i] = table[rows.flat[i]]` (embedding; n-gram table).

        Args:
            table: `[n, width]`.
            rows: `[R]` or `[R, k]` row numbers, already checked to be inside.
            out: `[R, width]`, or `[R, k * width]`.
        """

    @abstractmethod
    def fill_streams(self, x: FloatArray, streams: FloatArray) -> None:
        """`streams[:, s] = x` for every stream. x `[R, H]`, streams `[R, hc, H]` (spec 4.1)."""

    @abstractmethod
    def add_to_streams(self, x: FloatArray, streams: FloatArray) -> None:
        """`streams[:, s] += x` for every stream (MTP input, spec 7.2)."""

    def take_rows(self, source: FloatArray, rows: IntArray, out: FloatArray) -> None:
        """`out[i] = source[rows[i]]`.

        Args:
            source: `[R, ...]`.
            rows: `[n]` ascending row numbers, on the host.
            out: `[n, ...]`.
        """
        np.take(source, rows, axis=0, out=out)

    def take_over(self, source: FloatArray, out: FloatArray) -> None:
        """`out = source`, streams `[R, hc, H]` of the stage before this one."""
        out[...] = source

    @abstractmethod
    def rms_norm(self, x: FloatArray, weight: FloatArray, eps: float, out: FloatArray) -> None:
        """`out = rms(x; weight)` over the last axis; x, out `[R, n]`, weight `[n]`."""

    @abstractmethod
    def matmul(self, matrices: Sequence[Matrix], x: FloatArray, outs: Sequence[FloatArray]) -> None:
        """`outs[m] = x @ matrices[m].T` for several matrices that read the same rows.

        Args:
            matrices: each `[out_m, in]`.
            x: `[R, in]`.
            outs: each `[R, out_m]`, rows may be strided.
        """

    def choose(self, matrix: Matrix, x: FloatArray, out: IntArray) -> None:
        """`out[r] = argmax(matrix @ x[r])`: the token with the largest logit, without the logits.

        Args:
            matrix: `[V, H]`.
            x: `[R, H]`.
            out: `[R]`, on the host; the lower one of equals, -1 where no logit or one that is no
                number is the largest.

        Raises:
            NotImplementedError: `chooses` is false.
        """
        raise NotImplementedError(f"{self.name} operations choose no tokens")

    def best_logits(self, matrix: Matrix, x: FloatArray, out: IntArray) -> None:
        """The largest of the logits `matrix @ x[r]` of each row; the others stay where they are.

        Args:
            matrix: `[V, H]`.
            x: `[R, H]`.
            out: `[R, ROW_WORDS]`, on the host, as engine/ops/best_logits.py says.

        Raises:
            NotImplementedError: `chooses` is false.
        """
        raise NotImplementedError(f"{self.name} operations choose no tokens")

    def fetch_logits(self, row: int, out: FloatArray) -> None:
        """Wait for all logits of a row of the newest `best_logits`, before anything else is computed.

        Args:
            row: its number.
            out: `[V]`, on the host.

        Raises:
            NotImplementedError: `chooses` is false.
        """
        raise NotImplementedError(f"{self.name} operations choose no tokens")

    # -- residual streams ------------------------------------------------------------------------

    @abstractmethod
    def hc_mix(
        self,
        weights: HyperConnectionWeights,
        streams: FloatArray,
        x: FloatArray,
        inject: FloatArray | None,
    ) -> None:
        """Gated residual mix (spec 4.3): streams `[R, hc, H]` -> x `[R, H]`, inject `[R, hc]`.

        `inject` is None exactly when `weights.inject` is.
        """

    @abstractmethod
    def hc_combine(self, streams: FloatArray, inject: FloatArray, y: FloatArray) -> None:
        """`streams[r, s] += inject[r, s] * y[r]` in place."""

    def hc_combine_mix(
        self,
        weights: HyperConnectionWeights,
        streams: FloatArray,
        inject: FloatArray,
        y: FloatArray,
        x: FloatArray,
    ) -> None:
        """`hc_combine` of one part, then `hc_mix` for the next: `inject` is read, and then written.

        Args:
            weights: of the mix, with `inject`.
            streams: `[R, hc, H]`, updated.
            inject: `[R, hc]`, of the part before; receives that of the next.
            y: `[R, H]`, the part's result.
            x: `[R, H]`, receives the next part's input.
        """
        self.hc_combine(streams, inject, y)
        self.hc_mix(weights, streams, x, inject)

    # -- Gated DeltaNet --------------------------------------------------------------------------

    @abstractmethod
    def delta_mix(
        self,
        weights: DeltaWeights,
        pool: DeltaPool,
        plan: PassPlan,
        qkv: FloatArray,
        z: FloatArray,
        alpha: FloatArray,
        beta: FloatArray,
        out: FloatArray,
    ) -> None:
        """Convolution, gates, delta rule, gated norm (spec 4.4), without the projections.

        Reads half `plan.seq_half` of each sequence's slot and writes the state after all of its
        rows into the other half (state and conv). For sequences with at most W rows the window
        arrays of the pool are filled too. alpha and beta are raw projections.

        Args:
            weights: sizes, conv, a, dt, norm are used.
            pool: of this layer.
            plan: the pass.
            qkv: `[R, C]` projection before the convolution; may be overwritten.
            z: `[R, num_v_heads * head_dim]`.
            alpha: `[R, num_v_heads]`.
            beta: `[R, num_v_heads]`.
            out: `[R, num_v_heads * head_dim]`, the input of the output projection.
        """

    @abstractmethod
    def delta_commit(
        self, weights: DeltaWeights, pool: DeltaPool, slot: int, half: int, num_tokens: int
    ) -> None:
        """Write into half `1 - half` the state after only the first `num_tokens` of the last pass.

        `1 <= num_tokens <=` rows of that pass `<= W`. Bit for bit the state that a pass of just
        these rows had left (recurrence).
        """

    # -- sparse attention ------------------------------------------------------------------------

    @abstractmethod
    def attention_append(
        self,
        weights: AttentionWeights,
        pool: KvPool,
        plan: PassPlan,
        k: FloatArray,
        v: FloatArray,
        index_k: FloatArray,
    ) -> None:
        """Norm and rotate keys, store keys, values and raw index keys, pool completed blocks.

        Args:
            weights: sizes, k_norm, index_k_norm.
            pool: of this layer.
            plan: the pass; page tables cover all positions.
            k: `[R, num_kv_heads * head_dim]` raw projection.
            v: `[R, num_kv_heads * head_dim]`.
            index_k: `[R, index_dim]` raw projection.
        """

    @abstractmethod
    def attention(
        self,
        weights: AttentionWeights,
        pool: KvPool,
        plan: PassPlan,
        q: FloatArray,
        index_q: FloatArray,
        out: FloatArray,
        selected: IntArray | None = None,
    ) -> None:
        """Select blocks, attend to them and to the tail, gate (spec 4.5).

        Row r sees positions 0..positions[r] of its sequence (all are in the pool already).

        Args:
            weights: sizes, q_norm, index_q_norm.
            pool: of this layer.
            plan: the pass.
            q: `[R, num_heads * 2 * head_dim]` raw projection, per head q then gate.
            index_q: `[R, num_index_heads * index_dim]` raw projection.
            out: `[R, num_heads * head_dim]`, the input of the output projection.
            selected: `[R, top_blocks]` or None; receives the chosen block numbers in ascending
                order, padded with -1 (all complete blocks while they fit the budget).
        """

    # -- experts ---------------------------------------------------------------------------------

    @abstractmethod
    def route(
        self, weights: MoeWeights, x: FloatArray, expert_ids: IntArray, expert_weights: FloatArray
    ) -> None:
        """Softmax, top-k, renormalise (spec 4.6): x `[R, H]` -> ids, weights `[R, num_used]`.

        Experts come in descending probability; ties go to the lower number.
        """

    @abstractmethod
    def experts(
        self,
        weights: MoeWeights,
        x: FloatArray,
        expert_ids: IntArray,
        expert_weights: FloatArray,
        out: FloatArray,
    ) -> None:
        """Weighted sum of the chosen experts, summed in the order of `expert_ids` (spec 4.6).

        A choice whose id is negative contributes nothing, and no weights are read for it: what
        computes its expert elsewhere adds that part itself.

        Args:
            weights: gate, up, down.
            x: `[R, H]`.
            expert_ids: `[R, num_used]`, below the number of experts.
            expert_weights: `[R, num_used]`; that of a negative id is ignored.
            out: `[R, H]`, overwritten: zeros for a row without choices.
        """

    @abstractmethod
    def shared_expert(self, weights: MoeWeights, x: FloatArray, out: FloatArray) -> None:
        """Add the gated shared expert to out: `[R, H] += ...`."""

    def moe(
        self,
        weights: MoeWeights,
        x: FloatArray,
        expert_ids: IntArray,
        expert_weights: FloatArray,
        out: FloatArray,
    ) -> None:
        """`route`, `experts` and `shared_expert` in one, where parts of them can be done at once.

        Args:
            weights: of the layer.
            x: `[R, H]`.
            expert_ids: `[R, num_used]`, receives the choice.
            expert_weights: `[R, num_used]`, its weights.
            out: `[R, H]`.
        """
        self.route(weights, x, expert_ids, expert_weights)
        self.experts(weights, x, expert_ids, expert_weights, out)
        self.shared_expert(weights, x, out)

    # -- n-gram layer ----------------------------------------------------------------------------

    @abstractmethod
    def ple_mix(
        self,
        weights: PleWeights,
        pool: PlePool,
        plan: PassPlan,
        key: FloatArray,
        value: FloatArray,
        streams: FloatArray,
    ) -> None:
        """Gate the n-gram value into the streams and add its dilated convolution (spec 4.7).

        Reads and writes the pool's halves as `delta_mix` does; fills `pool.window` for sequences
        with at most W rows.

        Args:
            weights: norms, conv.
            pool: of this layer.
            plan: the pass.
            key: `[R, hc * H]` = ple_key @ e; may be overwritten.
            value: `[R, H]` = ple_value @ e.
            streams: `[R, hc, H]`, updated in place.
        """

    @abstractmethod
    def ple_commit(
        self, weights: PleWeights, pool: PlePool, slot: int, half: int, num_tokens: int
    ) -> None:
        """As `delta_commit`, for the convolution history."""

    def commit_states(
        self,
        delta: Sequence[tuple[DeltaWeights, DeltaPool]],
        ple: Sequence[tuple[PleWeights, PlePool]],
        slot: int,
        half: int,
        num_tokens: int,
    ) -> None:
        """`delta_commit` and `ple_commit` of all layers of a model."""
        for delta_weights, delta_pool in delta:
            self.delta_commit(delta_weights, delta_pool, slot, half, num_tokens)
        for ple_weights, ple_pool in ple:
            self.ple_commit(ple_weights, ple_pool, slot, half, num_tokens)

    # -- drawing tokens --------------------------------------------------------------------------

    def new_draw(self, settings: DrawSettings) -> HostDraw | None:
        """What draws an answer's tokens from logits of these operations; None = numpy does."""
        del settings
        return None

    # -- recorded passes -------------------------------------------------------------------------

    def record(self, parts: Sequence[Part], keep: Sequence[object]) -> Recording:
        """The operations that `parts` call, to be run any number of times on the same arrays.

        A recording computes what calling the parts would, bit for bit. Making it may call them
        without effect.

        Args:
            parts: each calls operations and does nothing else.
            keep: what owns the arrays and weights that the parts use.
        """
        del keep  # the parts themselves hold it
        return CalledParts(tuple(parts))

    @property
    def num_sides(self) -> int:
        """How many groups of a small pass's sequences may be computed at the same time; 1 = none."""
        return 1

    def record_sides(
        self,
        parts: Sequence[Part],
        keep: Sequence[object],
        new_sides: Callable[[Hashable], Sequence[Sequence[Part]]],
    ) -> Recording:
        """As `record`, where the same can be computed in sides too; `Recording.cut` says in which.

        Args:
            parts: of the pass.
            keep: what owns what they use.
            new_sides: makes at most `num_sides` lists of as many parts, each for some of the pass's
                sequences; none writes what another one reads. Told what `Recording.cut` was.
        """
        del new_sides
        return self.record(parts, keep)

    def close(self) -> None:  # optional: the reference has nothing to release
        """Release threads and memory of this implementation; idempotent."""


def no_kernel_message(name: str, type_name: str) -> str:
    """The sentence for a tensor whose format an implementation cannot compute."""
    return (
        f"The tensor {name} is stored as {type_name}, which this version cannot compute; "
        "choose a file in another quantisation."
    )
