"""Which experts lie in a card's slots: filled by what was used before, and following what is used.

A layer has slots of its own, because an expert's size differs from layer to layer. Everything here is
bookkeeping: what is copied where, and when, belongs to the caller. An expert counts as cached (`slot_of`)
only from `admit` on, and no longer from the moment when it was chosen to go.

    cache = ExpertCache(num_experts=[4, 4], num_slots=[2, 1], counts=None)
    cache.note(0, ids)                       # ids of one layer's choice, any shape
    for swap in cache.choose_swaps():        # evicted already
        ...                                  # copy swap.expert into swap.slot
        cache.admit(swap)                    # when the copy has landed
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Counts = npt.NDArray[np.float32]
IntArray = npt.NDArray[np.int32]

MOST_SWAPS = 96  # at a time: what a bus moves while tokens are drafted
ROUNDS_BETWEEN_SWAPS = 4
_KEPT_SHARE = 0.9  # of older counts, at each look: half of them are gone after 26 windows
_MARGIN = 1.5  # an expert must be wanted so much more than the one that goes, or they take turns


@dataclass(frozen=True, slots=True)
class Swap:
    """An expert that comes into a slot.

    Attributes:
        layer: of the model, as the cache counts them.
        slot: of that layer.
        expert: that comes.
    """

    layer: int
    slot: int
    expert: int


class ExpertCache:
    """The slots of all layers.

    Attributes:
        slot_of: for each layer `[E]` int32, the slot of each expert that may be used, else -1.
        num_slots: of each layer.
    """

    def __init__(
        self,
        num_experts: Sequence[int],
        num_slots: Sequence[int],
        counts: Sequence[Counts] | None = None,
    ) -> None:
        """Empty slots.

        Args:
            num_experts: of each layer.
            num_slots: of each layer, at most as many as it has experts.
            counts: for each layer `[E]`, how often each expert was used; None = nothing is known.
        """
        if any(slots > experts for slots, experts in zip(num_slots, num_experts, strict=True)):
            raise ValueError("a layer has more slots than experts")
        self.num_slots = tuple(num_slots)
        self.slot_of: list[IntArray] = [np.full(n, -1, np.int32) for n in num_experts]
        # of each slot, also before it has landed
        self._expert_in: list[IntArray] = [np.full(n, -1, np.int32) for n in num_slots]
        self._counts: list[Counts] = [np.zeros(n, np.float32) for n in num_experts]
        if counts is not None:
            for own, known in zip(self._counts, counts, strict=True):
                total = float(known.sum())
                own[...] = known * (len(own) / total) if total > 0 else 0.0
        self.hits = 0
        self.misses = 0

    def is_whole(self, layer: int) -> bool:
        """Whether all experts of a layer are cached."""
        return bool((self.slot_of[layer] >= 0).all())

    def first_fill(self) -> list[Swap]:
        """What to copy into the empty slots: of each layer the most used, else the first ones."""
        fills: list[Swap] = []
        for layer, counts in enumerate(self._counts):
            wanted = np.argsort(-counts, kind="stable")[: self.num_slots[layer]]
            for slot, expert in enumerate(sorted(wanted.tolist())):
                fills.append(Swap(layer, slot, expert))
                self._take(fills[-1])
        return fills

    def note(self, layer: int, expert_ids: IntArray) -> None:
        """Count what a layer chose."""
        ids = expert_ids.reshape(-1)
        counts = self._counts[layer]
        counts += np.bincount(ids, minlength=len(counts)).astype(np.float32)
        num_hits = int((self.slot_of[layer][ids] >= 0).sum())
        self.hits += num_hits
        self.misses += len(ids) - num_hits

    def choose_swaps(self, most: int = MOST_SWAPS) -> list[Swap]:
        """The swaps that gain most, at most so many; what goes is evicted at once."""
        found: list[tuple[float, Swap]] = []
        for layer, counts in enumerate(self._counts):
            if self.num_slots[layer]:
                found += self._swaps_of(layer, counts, most)
            self._counts[layer] = counts * _KEPT_SHARE
        found.sort(key=lambda pair: (-pair[0], pair[1].layer, pair[1].slot))
        swaps = [swap for _, swap in found[:most]]
        for swap in swaps:
            self._take(swap)
        return swaps

    def _swaps_of(self, layer: int, counts: Counts, most: int) -> list[tuple[float, Swap]]:
        """A layer's best swaps: the most wanted of the missing for the least wanted of the cached."""
        slot_of, expert_in = self.slot_of[layer], self._expert_in[layer]
        taken = set(expert_in.tolist())
        missing = [e for e in np.argsort(-counts, kind="stable").tolist() if e not in taken]
        cached = np.flatnonzero(slot_of >= 0)
        going = cached[np.argsort(counts[cached], kind="stable")].tolist()
        empty = np.flatnonzero(expert_in < 0).tolist()
        swaps: list[tuple[float, Swap]] = []
        for expert in missing[:most]:
            if empty:
                swaps.append((float(counts[expert]), Swap(layer, empty.pop(), expert)))
                continue
            if not going:
                break
            goes = going.pop(0)
            if counts[expert] < counts[goes] + _MARGIN:
                break
            gain = float(counts[expert] - counts[goes])
            swaps.append((gain, Swap(layer, int(slot_of[goes]), expert)))
        return swaps

    def _take(self, swap: Swap) -> None:
        """The slot belongs to the expert that comes; the one that was in it is gone."""
        old = int(self._expert_in[swap.layer][swap.slot])
        if old >= 0:
            self.slot_of[swap.layer][old] = -1
        self._expert_in[swap.layer][swap.slot] = swap.expert

    def admit(self, swap: Swap) -> None:
        """The expert's copy has landed: it may be used."""
        self.slot_of[swap.layer][swap.expert] = swap.slot

    def resize(self, layer: int, num_slots: int) -> tuple[list[tuple[int, int]], list[Swap]]:
        """Another number of slots for a layer; nothing of it may be on its way.

        Returns:
            Old and new slot of each expert that stays, the most wanted ones; and of the free slots which
            expert is to be copied there, those that are wanted most of the others.
        """
        counts, slot_of = self._counts[layer], self.slot_of[layer]
        cached = np.flatnonzero(slot_of >= 0)
        staying = np.sort(cached[np.argsort(-counts[cached], kind="stable")[:num_slots]])
        moves = [(int(slot_of[expert]), slot) for slot, expert in enumerate(staying.tolist())]
        slot_of[...] = -1
        slot_of[staying] = np.arange(len(staying), dtype=np.int32)
        self._expert_in[layer] = np.full(num_slots, -1, np.int32)
        self._expert_in[layer][: len(staying)] = staying
        self.num_slots = (*self.num_slots[:layer], num_slots, *self.num_slots[layer + 1 :])
        others = [e for e in np.argsort(-counts, kind="stable").tolist() if slot_of[e] < 0]
        fills = [
            Swap(layer, len(staying) + i, expert)
            for i, expert in enumerate(others[: num_slots - len(staying)])
        ]
        for fill in fills:
            self._take(fill)
        return moves, fills

    def counts(self) -> list[Counts]:
        """How much each expert is wanted, newer use weighing more; copies."""
        return [counts.copy() for counts in self._counts]


def slots_for(
    num_bytes: int,
    expert_bytes: Sequence[int],
    num_experts: Sequence[int],
    counts: Sequence[Counts] | None = None,
) -> list[int]:
    """Slots of each layer for so much memory.

    With counts the experts that are used most for their size get one; without, every layer gets the
    same share of its experts.

    Args:
        num_bytes: for all slots together.
        expert_bytes: of a slot of each layer.
        num_experts: of each layer.
        counts: for each layer `[E]`, how often each expert was used.
    """
    if counts is None:
        whole = sum(size * n for size, n in zip(expert_bytes, num_experts, strict=True))
        share = 0.0 if whole == 0 else min(1.0, max(num_bytes, 0) / whole)
        return [int(n * share) for n in num_experts]
    layers = np.concatenate([np.full(n, i) for i, n in enumerate(num_experts)])
    sizes = np.asarray(expert_bytes, np.int64)[layers]
    # Ranks inside a layer fall with its counts, so a layer's slots are for its most used experts.
    worth = np.concatenate([np.sort(c)[::-1] / max(float(c.sum()), 1.0) for c in counts]) / sizes
    slots = [0] * len(num_experts)
    room = num_bytes
    for layer in layers[np.argsort(-worth, kind="stable")].tolist():
        if expert_bytes[layer] <= room:
            room -= expert_bytes[layer]
            slots[layer] += 1
    return slots
