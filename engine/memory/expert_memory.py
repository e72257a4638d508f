"""A card's memory for experts: how much, for which, and the exchange while tokens are made.

Everything that is read for every token lies on the card before this is asked; the experts of the draft
head come first (each drafted token reads them), then those of the layers fill what is left. When the
card has less room than it said, smaller caches are tried, down to none: the CPU computes what is missing.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from engine.device.array import ArraySpace, DeviceArray
from engine.device.base import DeviceMemoryError, Event
from engine.memory.expert_bank import Bank, ExpertMover, ExpertSource
from engine.memory.expert_cache import Counts, ExpertCache, Swap, slots_for
from engine.memory.expert_pins import ExpertPins

logger = logging.getLogger(__name__)

IntArray = npt.NDArray[np.int32]

_SMALLER = 0.85  # of the last try, when the card had no room for it
_TRIES = 24
_LEAST_MOVES = 2  # of a round: the host may never have to wait for the card


@dataclass(slots=True, eq=False)
class RingHalf:
    """Slots through which experts pass, filled and used in turns with the other half.

    Attributes:
        memory: of the slots; their layout is the layer's whose experts are in them.
        num_slots: of the largest experts.
        filled: the copies have landed.
        is_free: the kernels that read them are done.
    """

    memory: DeviceArray
    num_slots: int
    filled: Event
    is_free: Event

    def bank(self, source: ExpertSource) -> Bank:
        """Its slots for a layer's experts."""
        return Bank(self.memory, self.num_slots, source.layout)


@dataclass(slots=True, eq=False)
class _Moving:
    swap: Swap
    landed: Event | None = None  # None while it waits for its copy


class ExpertMemory:
    """The slots of all layers, the ring, and what is copied into them.

    Attributes:
        cache: which expert is where.
        banks: the slots of each layer.
        mover: copies experts.
        ring: two halves; empty when the card has no room even for that.
        generation: changes when slots have moved, so that captured launches know.
        is_dirty: `cache.slot_of` has changed since `is_dirty` was last set to False.
    """

    def __init__(
        self,
        space: ArraySpace,
        sources: Sequence[ExpertSource],
        num_draft: int,
        *,
        ring_experts: int,
        most_swaps: int,
        rounds_between_swaps: int,
        pins: ExpertPins | None = None,
    ) -> None:
        """Provide the ring; `take` provides the slots.

        Args:
            space: of the card.
            sources: each layer's experts, the draft head's last.
            num_draft: how many of them are the draft head's.
            ring_experts: slots of each half of the ring, fewer where there is no room.
            most_swaps: exchanged at a time.
            rounds_between_swaps: rounds between two such times.
            pins: experts in locked memory.
        """
        self._space = space
        self._device = space.device
        self._sources = tuple(sources)
        self._num_draft = num_draft
        self._most_swaps = most_swaps
        self._rounds = 0
        self._rounds_between_swaps = rounds_between_swaps
        self._moving: deque[_Moving] = deque()
        self.generation = 0
        self.is_dirty = True
        self.most_slot_bytes = max((s.layout.slot_bytes for s in sources), default=0)
        self.mover = ExpertMover(self._device, self.most_slot_bytes, pins=pins)
        space.stream.synchronize()  # memory that is used again belongs to copies from here on
        self.ring = self._new_ring(ring_experts)
        self.cache = self._empty_cache(None)
        self.banks = [Bank(None, 0, source.layout) for source in self._sources]

    def _new_ring(self, num_experts: int) -> list[RingHalf]:
        count = min(num_experts, max((s.num_experts for s in self._sources), default=1))
        while count:
            try:
                return [self._new_half(count) for _ in range(2)]
            except DeviceMemoryError:
                count //= 2
        logger.warning("the card has no room for passing experts; the CPU computes all of them")
        return []

    def _new_half(self, count: int) -> RingHalf:
        device = self._device
        memory = self._space.empty((count * self.most_slot_bytes,), np.uint8)
        return RingHalf(memory, count, device.new_event(), device.new_event())

    def _empty_cache(self, counts: Sequence[Counts] | None) -> ExpertCache:
        num_experts = [source.num_experts for source in self._sources]
        return ExpertCache(num_experts, [0] * len(num_experts), counts)

    @property
    def slot_bytes(self) -> int:
        """What all slots take together."""
        return sum(bank.num_slots * bank.layout.slot_bytes for bank in self.banks)

    @property
    def whole_bytes(self) -> int:
        """What slots for all experts would take."""
        return sum(source.num_experts * source.layout.slot_bytes for source in self._sources)

    # -- taking and giving back ------------------------------------------------------------------

    def take(self, num_bytes: int, counts: Sequence[Counts] | None) -> None:
        """Provide slots for so many bytes, or as many as there is room for, and fill them.

        Args:
            num_bytes: for all slots.
            counts: how often each expert of each layer was used; None = not known.
        """
        self.release()
        wanted = max(0, num_bytes)
        for _ in range(_TRIES):
            slots = self._slots(wanted, counts)
            try:
                self.banks = [
                    self._new_bank(source, count)
                    for source, count in zip(self._sources, slots, strict=True)
                ]
                break
            except DeviceMemoryError:
                logger.info("the card has no room for %d bytes of experts", wanted)
                self._space.drop_kept()
                wanted = int(wanted * _SMALLER)
        else:
            slots = [0] * len(self._sources)
            self.banks = [self._new_bank(source, 0) for source in self._sources]
        num_experts = [source.num_experts for source in self._sources]
        self.cache = ExpertCache(num_experts, slots, counts)
        self._fill()
        self.generation += 1
        logger.info(
            "experts on the card: %d of %d, %d bytes", sum(slots), sum(num_experts), self.slot_bytes
        )

    def _slots(self, num_bytes: int, counts: Sequence[Counts] | None) -> list[int]:
        """Slots of each layer: the draft head's experts first, all of them if they fit."""
        first = len(self._sources) - self._num_draft
        sizes = [source.layout.slot_bytes for source in self._sources]
        numbers = [source.num_experts for source in self._sources]
        draft = slots_for(num_bytes, sizes[first:], numbers[first:])
        rest = num_bytes - sum(n * size for n, size in zip(draft, sizes[first:], strict=True))
        known = (
            None if counts is None or not any(c.any() for c in counts[:first]) else counts[:first]
        )
        return [*slots_for(rest, sizes[:first], numbers[:first], known), *draft]

    def resize(self, num_bytes: int) -> None:
        """Slots for about so many bytes, at most; what stays is moved on the card. Nothing may compute.

        All layers grow or shrink by the same share, the draft head's only when those of the others are
        all taken or gone. Growing ends where the card has no room for more.
        """
        wanted = self._resized(max(0, num_bytes))
        if wanted == [bank.num_slots for bank in self.banks]:
            return
        self.finish_moves()
        order = sorted(range(len(wanted)), key=lambda i: wanted[i] - self.banks[i].num_slots)
        for layer in order:  # those that shrink make room for those that grow
            if wanted[layer] != self.banks[layer].num_slots and not self._resize_layer(
                layer, wanted[layer]
            ):
                break
        self._space.drop_kept()
        self.mover.stream.synchronize()
        self.generation += 1
        self.is_dirty = True
        logger.info("experts on the card: %d bytes", self.slot_bytes)

    def _resized(self, num_bytes: int) -> list[int]:
        """Slots of each layer: the same share of what it has, of all experts where a layer has none."""
        first = len(self._sources) - self._num_draft
        sizes = [source.layout.slot_bytes for source in self._sources]
        numbers = [source.num_experts for source in self._sources]
        has = [bank.num_slots for bank in self.banks]
        draft = slots_for(num_bytes, sizes[first:], numbers[first:])
        rest = num_bytes - sum(n * size for n, size in zip(draft, sizes[first:], strict=True))
        slots = has[:first] if all(has[:first]) else numbers[:first]
        taken = sum(n * size for n, size in zip(slots, sizes[:first], strict=True))
        share = max(rest, 0) / max(taken, 1)
        trunk = [min(int(n * share), most) for n, most in zip(slots, numbers[:first], strict=True)]
        rest -= sum(n * size for n, size in zip(trunk, sizes[:first], strict=True))
        growing = True
        while growing:  # what is left by then is a slot here and there
            growing = False
            for layer, size in enumerate(sizes[:first]):
                if size <= rest and trunk[layer] < numbers[layer]:
                    trunk[layer] += 1
                    rest -= size
                    growing = True
        return [*trunk, *draft]

    def _resize_layer(self, layer: int, num_slots: int) -> bool:
        """Whether there was room for it."""
        source, old = self._sources[layer], self.banks[layer]
        try:
            new = self._new_bank(source, num_slots)
        except DeviceMemoryError:
            if num_slots > old.num_slots:
                return False
            self._refill_layer(layer, num_slots)
            return True
        moves, fills = self.cache.resize(layer, num_slots)
        for before, after in moves:
            self._space.stream.copy(
                new.address_of(after), old.address_of(before), source.layout.slot_bytes
            )
        self._space.stream.synchronize()
        self.banks[layer] = new
        del old
        self._space.drop_kept()
        self._copy_all(fills)
        return True

    def _refill_layer(self, layer: int, num_slots: int) -> None:
        """Fewer slots where the card has no room for the new ones beside the old ones."""
        source = self._sources[layer]
        self.banks[layer] = Bank(None, 0, source.layout)
        self.cache.resize(layer, 0)
        self._space.drop_kept()
        try:
            bank = self._new_bank(source, num_slots)
        except DeviceMemoryError:  # somebody else was faster
            return
        self.banks[layer] = bank
        self._copy_all(self.cache.resize(layer, num_slots)[1])

    def _new_bank(self, source: ExpertSource, count: int) -> Bank:
        memory = None
        if count:
            memory = self._space.empty((count * source.layout.slot_bytes,), np.uint8)
        return Bank(memory, count, source.layout)

    def _fill(self) -> None:
        self._copy_all(self.cache.first_fill())
        self.mover.stream.synchronize()
        self.is_dirty = True

    def _copy_all(self, fills: Sequence[Swap]) -> None:
        """Begin the copies; the caller waits for them."""
        self.mover.put_many(
            [
                (self._sources[f.layer], f.expert, self.banks[f.layer].address_of(f.slot))
                for f in fills
            ]
        )
        for fill in fills:
            self.cache.admit(fill)

    def release(self) -> None:
        """Give the slots back; the CPU, or the ring, takes over. Nothing may compute meanwhile."""
        self.mover.stream.synchronize()
        self._moving.clear()
        counts = self.cache.counts()
        self.cache = self._empty_cache(counts)
        self.banks = [Bank(None, 0, source.layout) for source in self._sources]
        self._space.drop_kept()
        self.generation += 1
        self.is_dirty = True

    # -- exchange --------------------------------------------------------------------------------

    def begin_round(self) -> None:
        """Between two passes, when nothing computes: admit what has landed, choose what comes."""
        while (
            self._moving and self._moving[0].landed is not None and self._moving[0].landed.is_done()
        ):
            self.cache.admit(self._moving.popleft().swap)
            self.is_dirty = True
        for _ in range(_LEAST_MOVES):
            self.move_one()
        self._rounds += 1
        if self._rounds % self._rounds_between_swaps or self._moving:
            return
        swaps = self.cache.choose_swaps(self._most_swaps)
        if swaps:
            self._moving.extend(_Moving(swap) for swap in swaps)
            self.is_dirty = True

    @property
    def is_moving(self) -> bool:
        """Whether a chosen expert waits for its copy to be begun."""
        return bool(self._moving) and self._moving[-1].landed is None

    def move_one(self) -> None:
        """Begin the copy of one chosen expert, if one waits: while the host has nothing to do.

        Its slot was evicted between passes, and no launch put into a stream since reads it.
        """
        for moving in self._moving:
            if moving.landed is None:
                swap = moving.swap
                address = self.banks[swap.layer].address_of(swap.slot)
                self.mover.put(self._sources[swap.layer], swap.expert, address)
                moving.landed = self._device.new_event()
                self.mover.stream.record(moving.landed)
                return

    def finish_moves(self) -> None:
        """Copy all that is chosen, wait for it, and admit it; between passes."""
        while self.is_moving:
            self.move_one()
        self.mover.stream.synchronize()
        while self._moving:
            self.cache.admit(self._moving.popleft().swap)
            self.is_dirty = True
