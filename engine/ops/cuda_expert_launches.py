"""Experts as launches of products: from weight groups and banks to what `cuda_products.py` takes."""

from __future__ import annotations

from collections.abc import Sequence

from engine.device.array import DeviceArray, on_card
from engine.memory.expert_bank import Bank
from engine.ops.cuda_matrix import cuda_matrix
from engine.ops.cuda_products import CudaProducts, Experts
from engine.ops.weights import Matrix, MoeWeights


class CudaExpertLaunches:
    """`ProductLaunches` of `cuda_launches.py`."""

    def __init__(self, products: CudaProducts) -> None:
        self._products = products

    def matmul(
        self, matrices: Sequence[Matrix], x: DeviceArray, outs: Sequence[DeviceArray]
    ) -> None:
        """See `Ops.matmul`."""
        self._products.matmul([cuda_matrix(m) for m in matrices], x, outs)

    def route(
        self,
        weights: MoeWeights,
        x: DeviceArray,
        expert_ids: DeviceArray,
        expert_weights: DeviceArray,
    ) -> None:
        """See `Ops.route`."""
        self._products.route(cuda_matrix(weights.router), x, expert_ids, expert_weights)

    def shared_values(self, weights: MoeWeights, x: DeviceArray, values: DeviceArray) -> None:
        """See `ExpertLaunches`."""

    def add_shared(
        self, weights: MoeWeights, x: DeviceArray, values: DeviceArray, out: DeviceArray
    ) -> None:
        """See `ExpertLaunches`."""
        del values
        self._products.shared_expert(
            cuda_matrix(weights.shared_gate),
            cuda_matrix(weights.shared_up),
            cuda_matrix(weights.shared_down),
            on_card(weights.shared_router),
            x,
            out,
        )

    def expert_slots(
        self, expert_ids: DeviceArray, slot_of: DeviceArray, slots: DeviceArray
    ) -> None:
        """See `ExpertLaunches`."""
        self._products.expert_slots(expert_ids, slot_of, slots)

    def expert_pairs(
        self,
        weights: MoeWeights,
        bank: Bank,
        x: DeviceArray,
        slots: DeviceArray,
        pairs: DeviceArray,
    ) -> None:
        """See `ExpertLaunches`."""
        gate, up, down = (cuda_matrix(m) for m in (weights.gate, weights.up, weights.down))
        experts = Experts(
            address=bank.address_of(0),
            slot_bytes=bank.layout.slot_bytes,
            num_slots=bank.num_slots,
            offsets=bank.layout.offsets,
            gate=gate.type,
            up=up.type,
            down=down.type,
            hidden_size=gate.columns,
            width=gate.rows,
            num_used=weights.num_used,
        )
        self._products.expert_pairs(experts, x, slots, pairs)

    def expert_sum(
        self,
        pairs: DeviceArray,
        slots: DeviceArray,
        more_slots: DeviceArray | None,
        expert_weights: DeviceArray,
        host: DeviceArray | None,
        out: DeviceArray,
    ) -> None:
        """See `ExpertLaunches`."""
        self._products.experts_sum(pairs, slots, more_slots, expert_weights, host, out)
