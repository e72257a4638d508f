"""Layers shared by several cards: the first card's operations lead those of the others.

Each card holds its layers' weights, states, pages and expert slots, and computes them in its own stream.
The residual streams go from card to card once a boundary, through pinned memory: the card before copies
them there, the card behind waits for that with an event and fetches them. The host waits for neither. A
token passes one card after the other, so what several cards bring is room, for experts that the CPU would
compute otherwise. Which layers each card has is decided elsewhere (`engine/core/layer_split.py`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from engine.device.array import ArraySpace, DeviceArray, on_card
from engine.device.base import Device, DeviceMemoryError, PinnedMemory
from engine.ops.base import ChoiceCounter, FloatArray, IntArray, Limits, Stage
from engine.ops.cuda import CudaOps
from engine.ops.cuda_launch import Launcher
from engine.ops.cuda_launches import Launches, make_launches
from engine.ops.cuda_settings import CudaSettings
from engine.ops.pools import DeltaPool, PlePool
from engine.ops.weights import DeltaWeights, MoeWeights, PleWeights


@dataclass(frozen=True, slots=True, eq=False)
class CardShare:
    """A card and the layers that it computes.

    Attributes:
        device: the card; it is closed with the operations.
        num_layers: how many, behind those of the card before; at least one.
        settings: of its caches; `counts` are those of all layers.
    """

    device: Device
    num_layers: int
    settings: CudaSettings


class SplitOps(CudaOps):
    """The first card's operations, which also care for those of further cards."""

    def __init__(
        self,
        limits: Limits,
        shares: Sequence[CardShare],
        launches: Callable[[Launcher, Limits], Launches] = make_launches,
    ) -> None:
        """Start all cards.

        Args:
            limits: sizes; `threads` are those of the host operations, which all cards share.
            shares: at least two, in the order in which a token passes them.
            launches: makes what puts kernels into a card's stream.

        Raises:
            ResourceError: a card or the CPU cannot be used.
        """
        if len(shares) < 2 or any(share.num_layers < 1 for share in shares):
            raise ValueError("several cards are needed, each with a layer")
        ends = np.cumsum([share.num_layers for share in shares]).tolist()
        starts = [0, *ends[:-1]]
        settings = [
            _settings_of(share.settings, start, end)
            for share, start, end in zip(shares, starts, ends, strict=True)
        ]
        super().__init__(limits, shares[0].device, settings[0], launches)
        self._others: list[_FurtherCard] = []
        try:
            for share, own in zip(shares[1:], settings[1:], strict=True):
                further = _FurtherCard(limits, share.device, own, launches, host=self.host)
                self._others.append(further)
        except BaseException:
            self.close()
            raise
        cards = (self, *self._others)
        self._stages = tuple(map(Stage, cards, starts, ends))

    @property
    def cards(self) -> tuple[CudaOps, ...]:
        """The operations of each card."""
        return (self, *self._others)

    def stages(self, num_layers: int) -> tuple[Stage, ...]:
        """Each card's layers.

        Raises:
            ValueError: the cards were given another number of layers.
        """
        if self._stages[-1].stop != num_layers:
            raise ValueError(f"{num_layers} layers on cards for {self._stages[-1].stop}")
        return self._stages

    def host_arrays(self, *parts: tuple[tuple[int, ...], npt.DTypeLike]) -> list[npt.NDArray[Any]]:
        """Pinned arrays that all cards read: each has a mirror of its own."""
        arrays = super().host_arrays(*parts)
        for card in self._others:
            card.share_block(self, arrays[0])
        return arrays

    def finish_loading(self, layers: Sequence[MoeWeights], draft: Sequence[MoeWeights]) -> None:
        """Each card takes what is left of its memory for its layers' experts; drafts are the last's."""
        first = self._stages[0]
        super().finish_loading(layers[first.first : first.stop], [])
        for stage in self._stages[1:]:
            heads = draft if stage is self._stages[-1] else []
            stage.ops.finish_loading(layers[stage.first : stage.stop], heads)

    def count_choices(self, counter: ChoiceCounter | None) -> bool:
        """Count what comes to the host anyway, by the model's numbers of layers."""
        super().count_choices(counter)
        for stage in self._stages[1:]:
            stage.ops.count_choices(
                None if counter is None else functools.partial(_count, counter, stage.first)
            )
        return True

    def watch_reads(self, watch: ChoiceCounter | None) -> bool:
        """Of all cards' layers, by the model's numbers."""
        super().watch_reads(watch)
        for stage in self._stages[1:]:
            stage.ops.watch_reads(
                None if watch is None else functools.partial(_count, watch, stage.first)
            )
        return True

    def make_room(self, error: DeviceMemoryError, attempt: int = 0) -> bool:
        """Give up a part of the slots on every card: nobody says which one has run out."""
        made = [super().make_room(error, attempt)]
        made += [card.make_room(error, attempt) for card in self._others]
        return any(made)

    def balance_memory(self) -> None:
        """Each card by itself."""
        super().balance_memory()
        for card in self._others:
            card.balance_memory()

    def tune(self, settings: Mapping[str, float]) -> None:
        """The same on every card."""
        super().tune(settings)
        for card in self._others:
            card.tune(settings)

    def resize(self, limits: Limits) -> None:
        """The same on every card."""
        super().resize(limits)
        for card in self._others:
            card.resize(limits)

    def free_card_bytes(self) -> int | None:
        """None: what one card has free says nothing about the others, so all pages lie on the cards."""
        return None

    def pace(self) -> None:
        """Let each card be at most one layer behind."""
        super().pace()
        for card in self._others:
            card.pace()

    def synchronize(self) -> None:
        """Wait for all cards."""
        super().synchronize()
        for card in self._others:
            card.synchronize()

    def commit_states(
        self,
        delta: Sequence[tuple[DeltaWeights, DeltaPool]],
        ple: Sequence[tuple[PleWeights, PlePool]],
        slot: int,
        half: int,
        num_tokens: int,
    ) -> None:
        """Each card those of its layers."""
        for card in self.cards:
            own_delta = [one for one in delta if card.holds(one[1].state)]
            own_ple = [one for one in ple if card.holds(one[1].conv)]
            CudaOps.commit_states(card, own_delta, own_ple, slot, half, num_tokens)

    def close(self) -> None:
        """Give back what the cards have, the CPU's threads last."""
        for card in self._others:
            card.close()
        super().close()


class _FurtherCard(CudaOps):
    """The operations on a card that is not the first: streams come from the card before."""

    _way: _Way | None = None

    def take_over(self, source: FloatArray, out: FloatArray) -> None:
        """Fetch the streams of the card before."""
        theirs, mine = on_card(source), on_card(out)
        if self._way is None:
            self._way = _Way(theirs.space, mine.space)
        self._steps.host(functools.partial(self._way.move, theirs, mine))

    def close(self) -> None:
        """Give everything back but the host operations, which are the first card's."""
        super().close()
        if self._way is not None:
            self._way.close()


class _Way:
    """Pinned memory between two cards, and the events that order who uses it."""

    def __init__(self, source: ArraySpace, target: ArraySpace) -> None:
        self._source = source
        self._target = target
        self._left = source.device.new_event()
        self._arrived = target.device.new_event()
        self._memory: PinnedMemory | None = None

    def move(self, theirs: DeviceArray, mine: DeviceArray) -> None:
        """Put the copies into both cards' streams."""
        staged = self._room(theirs.nbytes)
        self._source.stream.wait(self._arrived)  # what was brought before has been fetched
        self._source.stream.download(staged, theirs.address)
        self._source.stream.record(self._left)
        self._target.stream.wait(self._left)
        self._target.stream.upload(mine.address, staged)
        self._target.stream.record(self._arrived)

    def _room(self, num_bytes: int) -> npt.NDArray[np.uint8]:
        memory = self._memory
        if memory is None or memory.array.nbytes < num_bytes:
            if memory is not None:
                self._arrived.synchronize()
                memory.free()
            memory = self._memory = self._source.device.pinned(num_bytes)
        return memory.array[:num_bytes]

    def close(self) -> None:
        """Unlock the memory; nothing may be under way."""
        if self._memory is not None:
            self._memory.free()
            self._memory = None


def _settings_of(settings: CudaSettings, start: int, end: int) -> CudaSettings:
    """With the counts of these layers alone."""
    known = settings.counts
    return settings if known is None else replace(settings, counts=known[start:end])


def _count(counter: ChoiceCounter, first: int, layer_idx: int, expert_ids: IntArray) -> None:
    counter(first + layer_idx, expert_ids)
