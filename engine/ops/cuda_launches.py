"""What puts the kernels of all operations into the stream: the four groups of launches, together.

Each group is a class of its own (`cuda_products.py`, `cuda_streams.py`, `cuda_mixers.py`,
`cuda_attention.py`); what they offer is said here, in the order and with the names of the contract.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from engine.device.array import DeviceArray
from engine.memory.expert_bank import Bank
from engine.ops.base import Limits
from engine.ops.cuda_attention import CudaAttention
from engine.ops.cuda_delta import CudaDelta
from engine.ops.cuda_launch import Launcher
from engine.ops.cuda_ple import CudaPle
from engine.ops.cuda_products import CudaProducts
from engine.ops.cuda_sampling import CudaSampling
from engine.ops.cuda_streams import CudaStreams, Pending
from engine.ops.plan import PassPlan
from engine.ops.pools import DeltaPool, KvPool, PlePool
from engine.ops.weights import (
    AttentionWeights,
    DeltaWeights,
    HyperConnectionWeights,
    Matrix,
    MoeWeights,
    PleWeights,
)

Commit = tuple[int, int, int]  # slot, half that was read, number of tokens


class ExpertLaunches(Protocol):
    """The launches that experts are made of. R rows, K experts of each, E in all."""

    def route(
        self,
        weights: MoeWeights,
        x: DeviceArray,
        expert_ids: DeviceArray,
        expert_weights: DeviceArray,
    ) -> None:
        """See `Ops.route`."""

    def shared_values(self, weights: MoeWeights, x: DeviceArray, values: DeviceArray) -> None:
        """What the shared expert gives, ungated: x, values `[R, H]`."""

    def add_shared(
        self, weights: MoeWeights, x: DeviceArray, values: DeviceArray, out: DeviceArray
    ) -> None:
        """`out[r] += gate(x[r]) * values[r]`: with `shared_values`, `Ops.shared_expert`."""

    def expert_slots(
        self, expert_ids: DeviceArray, slot_of: DeviceArray, slots: DeviceArray
    ) -> None:
        """`slots[r, k] = slot_of[expert_ids[r, k]]`; slot_of `[E]`, the others `[R, K]`, int32."""

    def expert_pairs(
        self,
        weights: MoeWeights,
        bank: Bank,
        x: DeviceArray,
        slots: DeviceArray,
        pairs: DeviceArray,
    ) -> None:
        """`pairs[r, k]` = the expert in slot `slots[r, k]` of x[r], `[R, K, H]`; left where -1."""

    def expert_sum(
        self,
        pairs: DeviceArray,
        slots: DeviceArray,
        more_slots: DeviceArray | None,
        expert_weights: DeviceArray,
        host: DeviceArray | None,
        out: DeviceArray,
    ) -> None:
        """`out[r]` = sum over k, in order, of `expert_weights[r, k] * pairs[r, k]`, plus host[r].

        Only those k count where one of the slots `[R, K]` is not -1.
        """


class ProductLaunches(ExpertLaunches, Protocol):
    """Products with matrices."""

    def matmul(
        self, matrices: Sequence[Matrix], x: DeviceArray, outs: Sequence[DeviceArray]
    ) -> None:
        """See `Ops.matmul`."""


class StreamLaunches(Protocol):
    """Residual streams and norms; see `Ops` for each."""

    def fill_streams(self, x: DeviceArray, streams: DeviceArray) -> None: ...  # noqa: D102

    def add_to_streams(self, x: DeviceArray, streams: DeviceArray) -> None: ...  # noqa: D102

    def rms_norm(  # noqa: D102
        self, x: DeviceArray, weight: DeviceArray, eps: float, out: DeviceArray
    ) -> None: ...

    def hc_mix(  # noqa: D102
        self,
        weights: HyperConnectionWeights,
        streams: DeviceArray,
        x: DeviceArray,
        inject: DeviceArray | None,
        pending: Pending | None = None,
    ) -> None: ...

    def hc_combine(  # noqa: D102
        self, streams: DeviceArray, inject: DeviceArray, y: DeviceArray
    ) -> None: ...


class DeltaLaunches(Protocol):
    """DeltaNet; see `Ops` for each. Plans are on the card."""

    def delta_mix(  # noqa: D102
        self,
        weights: DeltaWeights,
        pool: DeltaPool,
        plan: PassPlan,
        qkv: DeviceArray,
        z: DeviceArray,
        alpha: DeviceArray,
        beta: DeviceArray,
        out: DeviceArray,
    ) -> None: ...

    def delta_commits(
        self, weights: DeltaWeights, pools: Sequence[DeltaPool], commits: Sequence[Commit]
    ) -> None:
        """`Ops.delta_commit` of several slots in several layers of the same sizes."""


class PleLaunches(Protocol):
    """The n-gram layer; see `Ops` for each. Plans are on the card."""

    def ple_mix(  # noqa: D102
        self,
        weights: PleWeights,
        pool: PlePool,
        plan: PassPlan,
        key: DeviceArray,
        value: DeviceArray,
        streams: DeviceArray,
    ) -> None: ...

    def ple_commits(self, weights: PleWeights, pool: PlePool, commits: Sequence[Commit]) -> None:
        """`Ops.ple_commit` of several slots."""


class AttentionLaunches(Protocol):
    """Sparse attention; see `Ops` for each. Plans are on the card."""

    def attention_append(  # noqa: D102
        self,
        weights: AttentionWeights,
        pool: KvPool,
        plan: PassPlan,
        k: DeviceArray,
        v: DeviceArray,
        index_k: DeviceArray,
    ) -> None: ...

    def attention(  # noqa: D102
        self,
        weights: AttentionWeights,
        pool: KvPool,
        plan: PassPlan,
        q: DeviceArray,
        index_q: DeviceArray,
        out: DeviceArray,
        selected: DeviceArray | None,
    ) -> None: ...


class SamplingLaunches(Protocol):
    """What choosing a token needs of logits."""

    def argmax(self, logits: DeviceArray, ids: DeviceArray) -> None:
        """Ids `[R]` of the largest logits of `[R, V]`, the lower of equals; -1 where none is."""

    def candidates(self, logits: DeviceArray, bests: DeviceArray) -> None:
        """The largest logits of `[R, V]` as `[R, ROW_WORDS]` of engine/ops/best_logits.py."""


@dataclass(frozen=True, slots=True, eq=False)
class Launches:
    """All groups."""

    products: ProductLaunches
    streams: StreamLaunches
    delta: DeltaLaunches
    ple: PleLaunches
    attention: AttentionLaunches
    sampling: SamplingLaunches

    def reserve(self, limits: Limits) -> None:
        """Take the scratch memory of the largest passes now."""


def make_launches(launcher: Launcher, limits: Limits) -> Launches:
    """The launches of our kernels.

    Raises:
        DeviceMemoryError: there is no room for their tables.
    """
    products = CudaProducts(launcher)
    launches = Launches(
        products=products,
        streams=CudaStreams(launcher, products),
        delta=CudaDelta(launcher),
        ple=CudaPle(launcher),
        attention=CudaAttention(launcher),
        sampling=CudaSampling(launcher),
    )
    del limits
    return launches
