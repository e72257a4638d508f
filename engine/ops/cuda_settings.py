"""What can be chosen about the GPU operations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from engine.memory.expert_cache import MOST_SWAPS, ROUNDS_BETWEEN_SWAPS


@dataclass(frozen=True, slots=True, eq=False)
class CudaSettings:
    """Choices of one engine.

    Attributes:
        cache_bytes: card memory for experts; None = all that is left beside the reserve.
        reserve_bytes: card memory that is left to others.
        pcie_frac: share of the missing experts of a decode window that is copied to the card and
            computed there, instead of on the CPU.
        ring_experts: slots of each half of the ring through which experts pass.
        host_rows: layers of at most so many rows leave missing experts to the CPU; at least what is
            recorded, for the ring needs the host between its launches.
        most_swaps: experts that the cache exchanges at a time.
        rounds_between_swaps: decode windows between two such times.
        pins_experts: lock the host's memory of experts, so that copies need no buffers; they must
            stay in memory.
        pinned_copy_bytes: most bytes of locked copies, where memory cannot be locked in place.
        counts: for each layer `[E]`, how often each expert was used before; None = not known.
    """

    cache_bytes: int | None = None
    reserve_bytes: int = 0
    pcie_frac: float = 0.0
    ring_experts: int = 16
    host_rows: int = 16
    most_swaps: int = MOST_SWAPS
    rounds_between_swaps: int = ROUNDS_BETWEEN_SWAPS
    pins_experts: bool = False
    pinned_copy_bytes: int = 0
    counts: Sequence[npt.NDArray[np.float32]] | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.pcie_frac <= 1:
            raise ValueError("pcie_frac is a share")
        if self.ring_experts < 1 or self.reserve_bytes < 0 or (self.cache_bytes or 0) < 0:
            raise ValueError("sizes must not be negative, and the ring needs slots")


@dataclass(frozen=True, slots=True, eq=False)
class CardUse:
    """A card that is to compute, alone or with others.

    Attributes:
        index: CUDA's number of it.
        num_layers: neighbouring layers that it computes, behind those of the card before; of a card that
            computes alone all.
        settings: of its caches.
    """

    index: int
    num_layers: int
    settings: CudaSettings
