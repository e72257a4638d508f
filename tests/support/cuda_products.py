"""The CUDA kernels of products, router and experts behind the contract of numpy arrays.

For the checks of engine/ops/check_cases.py: every call uploads what it reads and downloads what it writes.
Outputs start as memory that nobody has set. Experts lie in slots in another order than their own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from engine.core.ggml_types import GgmlType
from engine.device.base import Device
from engine.gguf.reader import Tensor
from engine.memory.expert_bank import Bank, expert_layout
from engine.ops.base import FloatArray, IntArray
from engine.ops.cuda_launch import Launcher
from engine.ops.cuda_matrix import CudaMatrix, cuda_matrix
from engine.ops.cuda_products import CudaProducts
from engine.ops.host import HOST_FORMATS
from engine.ops.weights import Matrix, MoeWeights

SHARED_FILES = ("quantise", "experts", "route")


def product_files(types: Sequence[GgmlType] | None = None) -> list[str]:
    """The sources that products of these formats (None: all) need."""
    return [*SHARED_FILES, *(f"products_{t.name.lower()}" for t in types or sorted(HOST_FORMATS))]


def bank_of(launcher: Launcher, weights: MoeWeights, experts: Sequence[int]) -> Bank:
    """A bank whose slots hold these experts in this order."""
    parts = [cuda_matrix(m).stacked_bytes for m in (weights.gate, weights.up, weights.down)]
    layout = expert_layout(*(part.shape[1] for part in parts))
    slots = np.full((len(experts), layout.slot_bytes), 0xFF, np.uint8)
    for slot, expert in enumerate(experts):
        for part, offset in zip(parts, layout.offsets, strict=True):
            slots[slot, offset : offset + part.shape[1]] = part[expert]
    return Bank(launcher.space.upload(slots), len(experts), layout)


class ProductOps:
    """The operations of `Ops` that products are made of."""

    def __init__(self, device: Device) -> None:
        self.launcher = Launcher(device)
        self.products = CudaProducts(self.launcher)
        self.space = self.launcher.space

    def matrix(self, tensor: Tensor) -> Matrix:
        return CudaMatrix(tensor, self.space)

    def matmul(self, matrices: Sequence[Matrix], x: FloatArray, outs: Sequence[FloatArray]) -> None:
        targets = [self.space.empty(out.shape) for out in outs]
        self.products.matmul([cuda_matrix(m) for m in matrices], self.space.upload(x), targets)
        for target, out in zip(targets, outs, strict=True):
            out[...] = target.numpy()

    def gather_rows(self, table: Matrix, rows: npt.NDArray[np.int64], out: FloatArray) -> None:
        target = self.space.empty(out.shape)
        self.products.gather_rows(cuda_matrix(table), self.space.upload(rows), target)
        out[...] = target.numpy()

    def route(
        self, weights: MoeWeights, x: FloatArray, expert_ids: IntArray, expert_weights: FloatArray
    ) -> None:
        ids = self.space.empty(expert_ids.shape, np.int32)
        chosen = self.space.empty(expert_weights.shape)
        self.products.route(weights, self.space.upload(x), ids, chosen)
        expert_ids[...], expert_weights[...] = ids.numpy(), chosen.numpy()

    def experts(
        self,
        weights: MoeWeights,
        x: FloatArray,
        expert_ids: IntArray,
        expert_weights: FloatArray,
        out: FloatArray,
    ) -> None:
        num_experts = weights.gate.count
        order = list(reversed(range(num_experts)))
        self.some_experts(weights, x, expert_ids, expert_weights, out, [order])

    def some_experts(
        self,
        weights: MoeWeights,
        x: FloatArray,
        expert_ids: IntArray,
        expert_weights: FloatArray,
        out: FloatArray,
        held: Sequence[Sequence[int]],
        host: FloatArray | None = None,
    ) -> None:
        """Experts in one or two banks, which hold those of `held`."""
        space, products = self.space, self.products
        device_x, ids = space.upload(x), space.upload(expert_ids)
        pairs = space.empty((*expert_ids.shape, out.shape[1]))
        slots = []
        for experts in held:
            slot_of = np.full(weights.gate.count, -1, np.int32)
            slot_of[list(experts)] = np.arange(len(experts))
            slots.append(space.empty(expert_ids.shape, np.int32))
            products.expert_slots(ids, space.upload(slot_of), slots[-1])
            bank = bank_of(self.launcher, weights, experts)
            products.expert_pairs(weights, bank, device_x, slots[-1], pairs)
        target = space.empty(out.shape)
        products.expert_sum(
            pairs,
            slots[0],
            slots[1] if len(slots) > 1 else None,
            space.upload(expert_weights),
            None if host is None else space.upload(host),
            target,
        )
        out[...] = target.numpy()

    def shared_expert(self, weights: MoeWeights, x: FloatArray, out: FloatArray) -> None:
        space = self.space
        on_card = dataclasses.replace(weights, shared_router=space.upload(weights.shared_router))
        device_x, values, target = space.upload(x), space.empty(out.shape), space.upload(out)
        self.products.shared_values(on_card, device_x, values)
        self.products.add_shared(on_card, device_x, values, target)
        out[...] = target.numpy()
