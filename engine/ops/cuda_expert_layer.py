"""A layer's experts as both processors see them, and the rows that pass between the two."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from engine.device.array import DeviceArray
from engine.memory.expert_bank import ExpertSource
from engine.ops.cuda_matrix import cuda_matrix
from engine.ops.weights import MoeWeights

FloatArray = npt.NDArray[np.float32]
IntArray = npt.NDArray[np.int32]


@dataclass(slots=True, eq=False)
class ExpertLayer:
    """One layer's experts."""

    index: int  # in the memory
    source: ExpertSource
    weights: MoeWeights
    host: MoeWeights  # for the host operations
    slot_of: DeviceArray  # (E,) on the card


@dataclass(slots=True, eq=False)
class HostRows:
    """Pinned arrays through which rows pass between the processors, one layer after the other."""

    x: FloatArray  # (R, H)
    ids: IntArray  # (R, K)
    weights: FloatArray  # (R, K)
    missing: IntArray  # (R, K) those that the CPU computes, else -1
    total: FloatArray  # (R, H) their sum
    ring_slots: IntArray  # (R, K) where those lie that were copied to the ring, else -1

    def first(self, num_rows: int) -> HostRows:
        """The arrays of the first rows."""
        return HostRows(*(getattr(self, name)[:num_rows] for name in self.__slots__))


def source_of(weights: MoeWeights) -> ExpertSource:
    """Its experts' bytes on the host."""
    matrices = (cuda_matrix(m) for m in (weights.gate, weights.up, weights.down))
    return ExpertSource.of(*(matrix.stacked_bytes for matrix in matrices))


def host_group(weights: MoeWeights) -> MoeWeights:
    """The same experts for the host operations, which read the mapped file."""
    return MoeWeights(
        router=cuda_matrix(weights.router).host,
        gate=cuda_matrix(weights.gate).host,
        up=cuda_matrix(weights.up).host,
        down=cuda_matrix(weights.down).host,
        num_used=weights.num_used,
        shared_router=np.zeros(weights.router.columns, np.float32),  # not read by `experts`
        shared_gate=cuda_matrix(weights.shared_gate).host,
        shared_up=cuda_matrix(weights.shared_up).host,
        shared_down=cuda_matrix(weights.shared_down).host,
    )
