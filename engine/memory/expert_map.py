"""Where in the mapped file each expert's matrices are.

    experts = ExpertMap.of(file, header, num_layers=48)
    experts.ranges(3, [17, 200])        # addresses and bytes of the matrices of two experts of layer 3

Matrices that loading copies (files that store gate and up as one tensor) are memory of the process already
and are not listed. The draft head's experts are not either: it is read for every draft.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from engine.core.gguf_header import ModelHeader
from engine.gguf.file_pages import Range
from engine.gguf.reader import GgufFile

IN_PLACE = ("gate", "up", "down")


@dataclass(frozen=True, slots=True)
class StackedMatrix:
    """One tensor of stacked experts.

    Attributes:
        address: of its first expert.
        expert_bytes: from one expert to the next.
        file_name: that it lies in.
    """

    address: int
    expert_bytes: int
    file_name: str


@dataclass(frozen=True, slots=True)
class ExpertMap:
    """All experts of a model's layers.

    Attributes:
        layers: the matrices of each layer.
        num_experts: in a layer.
    """

    layers: tuple[tuple[StackedMatrix, ...], ...]
    num_experts: int

    @classmethod
    def of(cls, file: GgufFile, header: ModelHeader, num_layers: int) -> ExpertMap:
        """The experts of an open model."""
        layers = []
        num_experts = 0
        for layer_idx in range(num_layers):
            found = []
            for kind in IN_PLACE:
                name = f"blk.{layer_idx}.ffn_{kind}_exps.weight"
                tensor = file.tensors.get(name)
                if tensor is None or len(tensor.shape) != 3:
                    continue
                num_experts = tensor.shape[0]
                shard_idx, _ = header.tensors[name]
                found.append(
                    StackedMatrix(
                        tensor.data.ctypes.data,
                        tensor.data.nbytes // num_experts,
                        header.paths[shard_idx].name,
                    )
                )
            layers.append(tuple(found))
        return cls(tuple(layers), num_experts)

    @property
    def expert_bytes(self) -> npt.NDArray[np.int64]:
        """Bytes of one expert of each layer, `[num_layers]`."""
        return np.array([sum(m.expert_bytes for m in layer) for layer in self.layers], np.int64)

    def ranges(self, layer_idx: int, experts: Iterable[int]) -> list[Range]:
        """The matrices of some experts of a layer."""
        layer = self.layers[layer_idx]
        return [
            (matrix.address + expert * matrix.expert_bytes, matrix.expert_bytes)
            for expert in experts
            for matrix in layer
        ]

    def all_ranges(self) -> Iterator[Range]:
        """Every tensor of experts, whole."""
        for layer in self.layers:
            for matrix in layer:
                yield matrix.address, matrix.expert_bytes * self.num_experts

    def hottest(self, counts: npt.NDArray[np.int64], budget_bytes: int) -> npt.NDArray[np.bool_]:
        """Which experts are used most, as far as the budget goes: `[num_layers, num_experts]`.

        Args:
            counts: how often each was used, of that shape.
            budget_bytes: for their matrices.
        """
        chosen = np.zeros(counts.shape, np.bool_)
        # Among equals every layer gets its share: the expert's number decides before the layer's.
        order = np.lexsort((*np.indices(counts.shape).reshape(2, -1), -counts.reshape(-1)))
        sizes = np.repeat(self.expert_bytes, self.num_experts)[order]
        fitting = np.cumsum(sizes) <= budget_bytes
        chosen.reshape(-1)[order[fitting]] = True
        return chosen
