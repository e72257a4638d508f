"""The operations of layers on an NVIDIA card: which launches each of them is.

What they compute is said in `engine/ops/base.py`; the rest of the operations is in `cuda.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from engine.device.array import ArraySpace, DeviceArray, is_on_card, on_card
from engine.ops.base import FloatArray, IntArray, Ops
from engine.ops.cuda_experts import CudaExperts
from engine.ops.cuda_host_arrays import HostArrays
from engine.ops.cuda_launches import Launches
from engine.ops.cuda_streams import Pending
from engine.ops.plan import PassPlan
from engine.ops.pools import DeltaPool, KvPool, PlePool
from engine.ops.weights import (
    AttentionWeights,
    DeltaWeights,
    HyperConnectionWeights,
    MoeWeights,
    PleWeights,
)

_MOST_PLANS = 128  # views of plans on the card that are kept


class CudaLayerOps(Ops):
    """Mixers, experts, residual streams and n-gram layer, in the stream of one card.

    Attributes:
        moe_work: where the experts are and who computes them.
    """

    moe_work: CudaExperts

    def __init__(self, space: ArraySpace, host_arrays: HostArrays, launches: Launches) -> None:
        """Operations on what lies there.

        Args:
            space: where the card's arrays lie.
            host_arrays: pinned arrays, plans among them.
            launches: put kernels into the stream.
        """
        self._space = space
        self._host_arrays = host_arrays
        self._launches = launches
        self._plans: dict[int, tuple[PassPlan, PassPlan]] = {}

    def _plan(self, plan: PassPlan) -> PassPlan:
        """The plan's arrays on the card."""
        known = self._plans.get(id(plan))
        if known is not None and known[0] is plan:
            return known[1]
        if len(self._plans) >= _MOST_PLANS:
            self._plans.clear()
        arrays = [self._host_arrays.mirror(getattr(plan, field.name)) for field in fields(plan)]
        mirrored = PassPlan(*(as_numpy(array) for array in arrays))
        self._plans[id(plan)] = (plan, mirrored)
        return mirrored

    # -- residual streams ------------------------------------------------------------------------

    def hc_mix(
        self,
        weights: HyperConnectionWeights,
        streams: FloatArray,
        x: FloatArray,
        inject: FloatArray | None,
    ) -> None:
        """Gated residual mix."""
        injected = None if inject is None else on_card(inject)
        self._launches.streams.hc_mix(weights, on_card(streams), on_card(x), injected)

    def hc_combine(self, streams: FloatArray, inject: FloatArray, y: FloatArray) -> None:
        """`streams[r, s] += inject[r, s] * y[r]`."""
        self._launches.streams.hc_combine(on_card(streams), on_card(inject), on_card(y))

    def hc_combine_mix(
        self,
        weights: HyperConnectionWeights,
        streams: FloatArray,
        inject: FloatArray,
        y: FloatArray,
        x: FloatArray,
    ) -> None:
        """Both in one: the streams are added to where they are read."""
        injected = on_card(inject)
        pending = Pending(injected, on_card(y))
        self._launches.streams.hc_mix(weights, on_card(streams), on_card(x), injected, pending)

    # -- Gated DeltaNet --------------------------------------------------------------------------

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
        """Convolution, gates, delta rule, gated norm."""
        arrays = (on_card(array) for array in (qkv, z, alpha, beta, out))
        self._launches.delta.delta_mix(weights, pool, self._plan(plan), *arrays)

    def delta_commit(
        self, weights: DeltaWeights, pool: DeltaPool, slot: int, half: int, num_tokens: int
    ) -> None:
        """The state after only the first tokens of the last pass, into the other half."""
        self._launches.delta.delta_commits(weights, [pool], [(slot, half, num_tokens)])

    # -- sparse attention ------------------------------------------------------------------------

    def attention_append(
        self,
        weights: AttentionWeights,
        pool: KvPool,
        plan: PassPlan,
        k: FloatArray,
        v: FloatArray,
        index_k: FloatArray,
    ) -> None:
        """Keys, values and index keys into the pages; completed blocks pooled."""
        arrays = (on_card(array) for array in (k, v, index_k))
        self._launches.attention.attention_append(weights, pool, self._plan(plan), *arrays)

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
        """Choose blocks, attend to them and to the tail, gate."""
        chosen = None
        if selected is not None:
            on_it = is_on_card(selected)
            chosen = on_card(selected) if on_it else self._space.empty(selected.shape, np.int32)
        self._launches.attention.attention(
            weights, pool, self._plan(plan), on_card(q), on_card(index_q), on_card(out), chosen
        )
        if selected is not None and chosen is not None and not is_on_card(selected):
            selected[...] = chosen.numpy()  # for looking at it; passes do not ask

    # -- experts ---------------------------------------------------------------------------------

    def route(
        self, weights: MoeWeights, x: FloatArray, expert_ids: IntArray, expert_weights: FloatArray
    ) -> None:
        """Softmax, top-k, renormalise."""
        self._launches.products.route(
            weights, on_card(x), on_card(expert_ids), on_card(expert_weights)
        )

    def experts(
        self,
        weights: MoeWeights,
        x: FloatArray,
        expert_ids: IntArray,
        expert_weights: FloatArray,
        out: FloatArray,
    ) -> None:
        """Weighted sum of the chosen experts."""
        arrays = (on_card(array) for array in (x, expert_ids, expert_weights, out))
        self.moe_work.experts(weights, *arrays)

    def shared_expert(self, weights: MoeWeights, x: FloatArray, out: FloatArray) -> None:
        """Add the gated shared expert."""
        self.moe_work.shared_expert(weights, on_card(x), on_card(out))

    def moe(
        self,
        weights: MoeWeights,
        x: FloatArray,
        expert_ids: IntArray,
        expert_weights: FloatArray,
        out: FloatArray,
    ) -> None:
        """Route, experts and shared expert, on both processors at once."""
        arrays = (on_card(array) for array in (x, expert_ids, expert_weights, out))
        self.moe_work.moe(weights, *arrays)

    # -- n-gram layer ----------------------------------------------------------------------------

    def ple_mix(
        self,
        weights: PleWeights,
        pool: PlePool,
        plan: PassPlan,
        key: FloatArray,
        value: FloatArray,
        streams: FloatArray,
    ) -> None:
        """Gate the n-gram value into the streams and add its dilated convolution."""
        arrays = (on_card(array) for array in (key, value, streams))
        self._launches.ple.ple_mix(weights, pool, self._plan(plan), *arrays)

    def ple_commit(
        self, weights: PleWeights, pool: PlePool, slot: int, half: int, num_tokens: int
    ) -> None:
        """The convolution history after only the first tokens of the last pass."""
        self._launches.ple.ple_commits(weights, pool, [(slot, half, num_tokens)])

    # -- after a pass ----------------------------------------------------------------------------

    def commit_states(
        self,
        delta: Sequence[tuple[DeltaWeights, DeltaPool]],
        ple: Sequence[tuple[PleWeights, PlePool]],
        slot: int,
        half: int,
        num_tokens: int,
    ) -> None:
        """All layers in a few launches."""
        commit = (slot, half, num_tokens)
        if delta:  # the layers of a model have the same sizes
            weights = delta[0][0]
            self._launches.delta.delta_commits(weights, [pool for _, pool in delta], [commit])
        for weights_of_layer, pool in ple:
            self._launches.ple.ple_commits(weights_of_layer, pool, [commit])


def as_numpy(array: DeviceArray) -> npt.NDArray[Any]:
    """The array as the contract's types call it: models use only what both kinds of arrays have."""
    return cast("npt.NDArray[Any]", array)
