"""One layer of the model: which operations, in which order (spec 4.2). No arithmetic here."""

from __future__ import annotations

from dataclasses import dataclass

from engine.model.weights import LayerWeights
from engine.model.workspace import RowBuffers
from engine.ops.base import Ops
from engine.ops.plan import PassPlan
from engine.ops.pools import DeltaPool, KvPool, PlePool
from engine.ops.weights import AttentionWeights, DeltaWeights, MoeWeights, PleWeights


@dataclass(frozen=True, slots=True, eq=False)
class Layer:
    """A layer's weights and its state pools; the mixer's pool is of the kind of its weights.

    A layer's result may be left in `rows.y` until the next layer reads the streams, which then adds it
    on the way: one walk over the streams less. The layer's parts are told with `is_owed` that the layer
    before did so, and with `owes` to do so.
    """

    weights: LayerWeights
    pool: DeltaPool | KvPool
    ple: PlePool | None

    @property
    def can_be_owed(self) -> bool:
        """Whether the first that this layer does with the streams is a mix."""
        return self.ple is None

    def run(
        self,
        ops: Ops,
        plan: PassPlan,
        rows: RowBuffers,
        *,
        is_owed: bool = False,
        owes: bool = False,
    ) -> None:
        """Take `rows.streams` through the layer."""
        self._run_mixer(ops, plan, rows, is_owed=is_owed)
        run_moe(ops, self.weights.moe, rows)
        if not owes:
            ops.hc_combine(rows.streams, rows.inject, rows.y)

    def run_to_choice(
        self, ops: Ops, plan: PassPlan, rows: RowBuffers, *, is_owed: bool = False
    ) -> None:
        """The first half of `run`: until `rows.expert_ids` says which experts are wanted."""
        self._run_mixer(ops, plan, rows, is_owed=is_owed)
        ops.route(self.weights.moe, rows.x, rows.expert_ids, rows.expert_weights)

    def run_from_choice(self, ops: Ops, rows: RowBuffers, *, owes: bool = False) -> None:
        """The second half."""
        moe = self.weights.moe
        ops.experts(moe, rows.x, rows.expert_ids, rows.expert_weights, rows.y)
        ops.shared_expert(moe, rows.x, rows.y)
        if not owes:
            ops.hc_combine(rows.streams, rows.inject, rows.y)

    def _run_mixer(self, ops: Ops, plan: PassPlan, rows: RowBuffers, *, is_owed: bool) -> None:
        """Until `rows.x` is the input of the experts."""
        weights = self.weights
        if weights.ple is not None and self.ple is not None:
            run_ple(ops, weights.ple, self.ple, plan, rows)
        if is_owed:
            ops.hc_combine_mix(weights.attn_mix, rows.streams, rows.inject, rows.y, rows.x)
        else:
            ops.hc_mix(weights.attn_mix, rows.streams, rows.x, rows.inject)
        if isinstance(weights.mixer, DeltaWeights) and isinstance(self.pool, DeltaPool):
            run_delta(ops, weights.mixer, self.pool, plan, rows)
        elif isinstance(weights.mixer, AttentionWeights) and isinstance(self.pool, KvPool):
            run_attention(ops, weights.mixer, self.pool, plan, rows)
        else:
            raise TypeError("a mixer was given another kind's state")
        ops.hc_combine_mix(weights.ffn_mix, rows.streams, rows.inject, rows.y, rows.x)


def run_delta(
    ops: Ops, weights: DeltaWeights, pool: DeltaPool, plan: PassPlan, rows: RowBuffers
) -> None:
    """Gated DeltaNet (spec 4.4): `rows.x` -> `rows.y`."""
    ops.matmul(
        [weights.qkv, weights.gate, weights.alpha, weights.beta],
        rows.x,
        [rows.delta_qkv, rows.delta_z, rows.delta_alpha, rows.delta_beta],
    )
    ops.delta_mix(
        weights,
        pool,
        plan,
        rows.delta_qkv,
        rows.delta_z,
        rows.delta_alpha,
        rows.delta_beta,
        rows.delta_mixed,
    )
    ops.matmul([weights.out], rows.delta_mixed, [rows.y])


def run_attention(
    ops: Ops, weights: AttentionWeights, pool: KvPool, plan: PassPlan, rows: RowBuffers
) -> None:
    """Sparse attention (spec 4.5): `rows.x` -> `rows.y`."""
    ops.matmul(
        [weights.q, weights.k, weights.v, weights.index_q, weights.index_k],
        rows.x,
        [rows.attn_q, rows.attn_k, rows.attn_v, rows.attn_index_q, rows.attn_index_k],
    )
    ops.attention_append(weights, pool, plan, rows.attn_k, rows.attn_v, rows.attn_index_k)
    ops.attention(weights, pool, plan, rows.attn_q, rows.attn_index_q, rows.attn_mixed)
    ops.matmul([weights.out], rows.attn_mixed, [rows.y])


def run_moe(ops: Ops, weights: MoeWeights, rows: RowBuffers) -> None:
    """Experts (spec 4.6): `rows.x` -> `rows.y`."""
    ops.moe(weights, rows.x, rows.expert_ids, rows.expert_weights, rows.y)


def run_ple(ops: Ops, weights: PleWeights, pool: PlePool, plan: PassPlan, rows: RowBuffers) -> None:
    """The n-gram layer's part (spec 4.7): `rows.ple_rows` into `rows.streams`."""
    ops.gather_rows(weights.table, rows.ple_rows, rows.ple_input)
    ops.matmul([weights.key, weights.value], rows.ple_input, [rows.ple_key, rows.y])
    ops.ple_mix(weights, pool, plan, rows.ple_key, rows.y, rows.streams)
