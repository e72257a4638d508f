"""Which layers each of several cards computes: a pure function of numbers.

A token passes the cards one after the other, so a further card saves no time by itself. It brings room:
experts that it holds are read at its bandwidth instead of the processor's. A layer on a card takes

    fixed bytes / card's bandwidth + the longer of (hits / card's bandwidth, misses / processor's bandwidth)

where hits are the wanted expert bytes that the card holds (`timeline.hit_rate`: of its room, less what
its layers need in any case). The division is the one with the smallest sum over all
layers, boundaries included; a card that makes the sum larger gets no layer. So layers go to the cards in
proportion to what memory and bandwidth of each are worth for this model. The last card has the head and
the draft layer besides, so each card is tried as the last one.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from engine.core.note import Note
from engine.core.timeline import CARD_SHARE, EXPERT_SHARE, hit_rate

# What a boundary between two cards costs a pass: two copies of some ten kilobytes and their events.
BOUNDARY_S = 60e-6
# A card is worth the trouble if it makes tokens faster by so much.
LEAST_GAIN = 0.03


@dataclass(frozen=True, slots=True)
class SplitCard:
    """A card.

    Attributes:
        index: its number.
        name: for messages.
        room_bytes: memory for this model: reserve and the driver's own are taken off.
        bytes_per_s: bandwidth of its memory.
    """

    index: int
    name: str
    room_bytes: int
    bytes_per_s: float


@dataclass(frozen=True, slots=True)
class SplitModel:
    """A model.

    Attributes:
        num_layers: layers.
        fixed_bytes: of a layer's weights that every token reads.
        kept_bytes: of a layer's states and key/value pages: they need room.
        expert_bytes: all experts of a layer.
        used_expert_bytes: what a token reads of them.
        last_bytes: head and draft layer, on the last card.
        card_bytes: activations, on each card.
    """

    num_layers: int
    fixed_bytes: int
    kept_bytes: int
    expert_bytes: int
    used_expert_bytes: int
    last_bytes: int
    card_bytes: int


@dataclass(frozen=True, slots=True)
class LayerShare:
    """What a card gets.

    Attributes:
        index: the card's number.
        first: its first layer.
        stop: the layer behind its last.
        expert_share: of its layers' experts it holds so many.
        num_bytes: of its memory that is used.
    """

    index: int
    first: int
    stop: int
    expert_share: float
    num_bytes: int

    @property
    def words(self) -> str:
        """Which layers, such as `layers 0 to 14`."""
        if self.stop - self.first == 1:
            return f"layer {self.first}"
        return f"layers {self.first} to {self.stop - 1}"


@dataclass(frozen=True, slots=True)
class LayerSplit:
    """The answer.

    Attributes:
        shares: in the order in which a token passes the cards; empty when no card has room.
        token_s: what a token takes by these numbers; infinite when no card has room.
        notes: which cards are left out, and why.
    """

    shares: tuple[LayerShare, ...]
    token_s: float
    notes: tuple[Note, ...]


def split_layers(
    model: SplitModel,
    cards: Sequence[SplitCard],
    host_bytes_per_s: float,
    *,
    keeps_all: bool = False,
) -> LayerSplit:
    """Divide the layers.

    Args:
        model: its numbers.
        cards: those that may be used; of equal divisions the one with fewer and earlier cards is taken.
        host_bytes_per_s: bandwidth at which the processor reads the experts that no card holds.
        keeps_all: whether each card gets a layer, also one that makes tokens slower; without a share
            for anyone where one has no room.
    """
    if keeps_all:
        return _split(model, cards, host_bytes_per_s)
    small = [
        c for c in cards if math.isinf(_layers_s(model, c, 1, host_bytes_per_s, is_last=False))
    ]
    chosen = [card for card in cards if card not in small]
    best = _split(model, chosen, host_bytes_per_s)
    slow: list[SplitCard] = []
    while len(chosen) > 1:  # the card that helps least goes, while nearly nothing is lost with it
        tries = [
            (_split(model, [c for c in chosen if c is not card], host_bytes_per_s), card)
            for card in reversed(chosen)
        ]
        split, card = min(tries, key=lambda one: one[0].token_s)
        if split.token_s > best.token_s * (1 + LEAST_GAIN) or not split.shares:
            break
        best = split
        chosen.remove(card)
        slow.append(card)
    if not best.shares:
        small, slow = list(cards), []
    notes = [_left_out("gpu_left_out_too_small", card) for card in small]
    notes += [_left_out("gpu_left_out_slower", card) for card in slow]
    return LayerSplit(best.shares, best.token_s, tuple(notes))


def _left_out(code: str, card: SplitCard) -> Note:
    return Note(code, {"card": card.name, "index": card.index})


def _split(model: SplitModel, cards: Sequence[SplitCard], host_bytes_per_s: float) -> LayerSplit:
    """The best division among exactly these cards, each with a layer at least."""
    best_s = math.inf
    best_shares: tuple[LayerShare, ...] = ()
    for last in range(len(cards)):  # the order of the others makes no difference
        order = [*cards[:last], *cards[last + 1 :], cards[last]]
        total_s, counts = _divide(model, order, host_bytes_per_s)
        if total_s < best_s:
            best_s, best_shares = total_s, _shares(model, order, counts)
    return LayerSplit(best_shares, best_s, ())


def _divide(
    model: SplitModel, order: Sequence[SplitCard], host_bytes_per_s: float
) -> tuple[float, tuple[int, ...]]:
    """Seconds of a token and layers of each card, by trying all ways to go on."""

    @functools.cache
    def rest(at: int, num_layers: int) -> tuple[float, tuple[int, ...]]:
        """The cards from `at` on, with so many layers left."""
        is_last = at == len(order) - 1
        best: tuple[float, tuple[int, ...]] = (math.inf, ())
        least = num_layers if is_last else 1
        for count in range(max(least, 1), num_layers + 1):
            own_s = _layers_s(model, order[at], count, host_bytes_per_s, is_last=is_last)
            behind = (0.0, ()) if is_last else rest(at + 1, num_layers - count)
            total_s = own_s + behind[0] + (0.0 if is_last else BOUNDARY_S)
            if total_s < best[0]:
                best = (total_s, (count, *behind[1]))
        return best

    return rest(0, model.num_layers)


def _layers_s(
    model: SplitModel, card: SplitCard, count: int, host_bytes_per_s: float, *, is_last: bool
) -> float:
    """Seconds that a card takes for so many layers; infinite when it has no room for them."""
    held = _expert_share(model, card, count, is_last=is_last)
    if held is None:
        return math.inf
    hits = hit_rate(held) * model.used_expert_bytes
    misses = model.used_expert_bytes - hits
    experts_s = max(hits / (card.bytes_per_s * EXPERT_SHARE), misses / host_bytes_per_s)
    dense_bytes = count * model.fixed_bytes + (model.last_bytes if is_last else 0)
    return count * experts_s + dense_bytes / (card.bytes_per_s * CARD_SHARE)


def _expert_share(model: SplitModel, card: SplitCard, count: int, *, is_last: bool) -> float | None:
    """Which part of so many layers' experts a card holds; None when it has no room for the rest."""
    room = card.room_bytes - _needed_bytes(model, count, is_last=is_last)
    if room < 0:
        return None
    return min(1.0, room / max(count * model.expert_bytes, 1))


def _needed_bytes(model: SplitModel, count: int, *, is_last: bool) -> int:
    needed = model.card_bytes + count * (model.fixed_bytes + model.kept_bytes)
    return needed + (model.last_bytes if is_last else 0)


def _shares(
    model: SplitModel, order: Sequence[SplitCard], counts: Sequence[int]
) -> tuple[LayerShare, ...]:
    shares, first = [], 0
    for card, count in zip(order, counts, strict=True):
        is_last = card is order[-1]
        held = _expert_share(model, card, count, is_last=is_last) or 0.0
        needed = _needed_bytes(model, count, is_last=is_last)
        num_bytes = needed + int(held * count * model.expert_bytes)
        shares.append(LayerShare(card.index, first, first + count, held, num_bytes))
        first += count
    return tuple(shares)
