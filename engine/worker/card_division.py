"""Which of the cards compute, and which layers each, by sizes alone.

Nothing is opened here: what a card has free is what its driver says, so a card that is left out gets no
CUDA context, which would take some hundred megabytes of it. `engine inspect` asks the same.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from engine.core.bandwidth import measure_bandwidth
from engine.core.config import RunConfig
from engine.core.errors import ResourceError
from engine.core.gpu import Gpu
from engine.core.layer_split import LayerShare, LayerSplit, SplitCard, split_layers
from engine.core.machine import probe_machine
from engine.core.placement_hybrid import rates_of
from engine.core.prompt_chunk import rows_on_card, turns_s
from engine.core.split_numbers import SplitInput, split_card
from engine.ops.cuda_settings import CardUse, CudaSettings
from engine.worker.card import reserve_of
from engine.worker.card_choice import Card, is_automatic

logger = logging.getLogger(__name__)

_MEASURING_S = 0.4
_HOST_BYTES_PER_S = 20e9  # two channels of slow memory, where it cannot be measured
_CORE_BYTES_PER_S = 6e9  # of experts in most formats, decoded and multiplied by one core
_SENTENCES = {
    "gpu_left_out_too_small": "it has no room for a layer of this model",
    "gpu_left_out_slower": "answers would not be 3 % faster with it",
}


@dataclass(frozen=True, slots=True)
class CardPart:
    """A card, and what of the model it gets.

    Attributes:
        card: which one.
        share: its layers; None where it computes alone though by its numbers it has no room.
    """

    card: Card
    share: LayerShare | None


@dataclass(frozen=True, slots=True)
class CardDivision:
    """The cards that compute.

    Attributes:
        parts: them, in the order in which a token passes them.
        prompt_rows: of a prompt in one pass, where several share a model.
        left_out: the others, each with the reason in words.
    """

    parts: tuple[CardPart, ...]
    prompt_rows: int
    left_out: tuple[tuple[Card, str], ...] = ()


def divide(
    config: RunConfig,
    model: SplitInput,
    cards: Sequence[Card],
    host_bytes_per_s: float | None = None,
) -> CardDivision:
    """Which of these cards compute, and which layers each.

    Args:
        config: says which are wanted, and what is left to others.
        model: its numbers, with the fewest rows of a pass.
        cards: those that can be used; at least one.
        host_bytes_per_s: at which the processor reads experts; None = measure, where it matters.

    Raises:
        ResourceError: the cards that are named have no room for the model.
    """
    if host_bytes_per_s is None:
        host_bytes_per_s = _host_bytes_per_s() if len(cards) > 1 else _HOST_BYTES_PER_S
    numbers = [_split_card(config, card, number) for number, card in enumerate(cards)]
    named = not is_automatic(config)
    split = split_layers(model.for_split(), numbers, host_bytes_per_s, keeps_all=named)
    if not split.shares and named and len(cards) > 1:
        names = ", ".join(card.label for card in cards)
        raise ResourceError(
            f"{names} have no room for this model together; use a smaller context, or other cards "
            "(setting: gpus).",
            code="gpus_too_small",
        )
    if not split.shares:  # loading will show
        best = max(cards, key=lambda card: card.gpu.vram_free_bytes)
        others = [
            (card, _SENTENCES["gpu_left_out_too_small"]) for card in cards if card is not best
        ]
        return CardDivision((CardPart(best, None),), model.rows, tuple(others))
    left_out = tuple(
        (cards[int(str(note.params["index"]))], _SENTENCES[note.code]) for note in split.notes
    )
    used, rows = [cards[share.index] for share in split.shares], model.rows
    if len(used) > 1:
        split, rows = _with_rows(config, model, used, split, host_bytes_per_s)
        used = [used[share.index] for share in split.shares]
    parts = (CardPart(card, share) for card, share in zip(used, split.shares, strict=True))
    return CardDivision(tuple(parts), rows, left_out)


def _with_rows(
    config: RunConfig,
    model: SplitInput,
    used: Sequence[Card],
    first: LayerSplit,
    host_bytes_per_s: float,
) -> tuple[LayerSplit, int]:
    """The division among exactly these cards, with as many rows in a pass as make turns shortest."""
    numbers = [_split_card(config, card, number) for number, card in enumerate(used)]
    splits: dict[int, LayerSplit] = {}

    def slots_beside(rows: int) -> int:
        wide = replace(model, rows=rows)
        splits[rows] = split_layers(wide.for_split(), numbers, host_bytes_per_s, keeps_all=True)
        slots = model.slots(splits[rows]) if splits[rows].shares else -1
        return slots if slots >= min(model.numbers.experts_used, model.numbers.num_experts) else -1

    most = max(first.shares, key=lambda share: share.stop - share.first)
    rates = rates_of(used[first.shares.index(most)].gpu)
    found = rows_on_card(
        config.prompt_chunk,
        slots_beside,
        lambda rows, slots: turns_s(
            rows, model.window_load(slots), model.numbers.num_experts, rates
        ),
    )
    rows = model.rows if found is None else found[0]
    if found is None:
        slots_beside(rows)
    return splits[rows], rows


def log_division(division: CardDivision) -> None:
    """Say which card gets what, where there are several."""
    for card, why in division.left_out:
        logger.info("%s is left out: %s.", card.label, why)
    for part in division.parts if len(division.parts) > 1 else ():
        share = part.share
        if share is not None:
            words = "%s: %s, %.0f %% of their experts"
            logger.info(words, part.card.label, share.words, 100 * share.expert_share)


def card_uses(
    model: SplitInput, division: CardDivision, settings: Callable[[Gpu], CudaSettings]
) -> tuple[CardUse, ...]:
    """What operations on the cards are made with.

    Args:
        model: its numbers.
        division: the cards.
        settings: of a card that computes alone; sizes are divided among several.
    """
    all_layers = model.numbers.num_layers
    shares = [part.share for part in division.parts if part.share is not None]
    held = sum(share.expert_share * (share.stop - share.first) for share in shares) or 1.0
    uses = []
    for part in division.parts:
        own = settings(part.card.gpu)
        if len(division.parts) == 1 or part.share is None:
            uses.append(CardUse(part.card.index, all_layers, own))
            continue
        layers = part.share.stop - part.share.first
        cache = own.cache_bytes
        own = replace(
            own,
            cache_bytes=(
                None if cache is None else int(cache * part.share.expert_share * layers / held)
            ),
            pinned_copy_bytes=own.pinned_copy_bytes * layers // all_layers,
        )
        uses.append(CardUse(part.card.index, layers, own))
    return tuple(uses)


def _split_card(config: RunConfig, card: Card, number: int) -> SplitCard:
    return split_card(card.gpu, number, reserve_of(config, card.gpu))


def _host_bytes_per_s() -> float:
    """About what the processor reads of experts, whose layers a card has no room for."""
    machine = probe_machine()
    measured = measure_bandwidth(
        machine.physical_cores, machine.ram_available_bytes, time_limit_s=_MEASURING_S
    )
    return min(measured or _HOST_BYTES_PER_S, machine.physical_cores * _CORE_BYTES_PER_S)
