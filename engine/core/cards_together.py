"""Several cards that would share a model, as one card by whose numbers the model can be placed.

    card = cards_together(numbers, [rtx_4070, rtx_4090], context=32768, host_bytes_per_s=60e9)
    card.name, card.vram_total_bytes >> 30        # "RTX 4070 + RTX 4090", 34

For what is said before a model is downloaded. What each card takes for itself (CUDA's context, activations,
the reserve for others) is taken off for all but one of them, for which the placement counts it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from engine.core.card_bytes import CUDA_BYTES, OTHER_SCRATCH_BYTES
from engine.core.gpu import Gpu
from engine.core.layer_split import LayerSplit, split_layers
from engine.core.model_numbers import ModelNumbers
from engine.core.placement_hybrid import reserve_bytes
from engine.core.prompt_chunk import CARD_ROWS
from engine.core.split_numbers import SplitInput, split_card
from engine.core.timeline import REFERENCE_RATES

NAMES_JOINED_BY = " + "


def cards_together(
    numbers: ModelNumbers, cards: Sequence[Gpu], *, context: int, host_bytes_per_s: float
) -> Gpu | None:
    """The cards that the program would choose by itself, as one; None without cards.

    Args:
        numbers: of the model.
        cards: those that can be used.
        context: tokens of one sequence.
        host_bytes_per_s: at which the processor reads experts.
    """
    if not cards:
        return None
    best = max(cards, key=lambda card: (card.vram_total_bytes, -card.index))
    if len(cards) == 1:
        return best
    model = SplitInput(
        numbers,
        head_bytes=0,
        rows=CARD_ROWS[-1],
        context=context,
        num_tokens=context,
        parallel=numbers.parallel,
    )
    # Programs that hold memory now can be closed: what counts is what the cards have.
    empty = [replace(card, vram_free_bytes=card.vram_total_bytes) for card in cards]
    split = split_layers(
        model.for_split(),
        [split_card(card, number, reserve_bytes(card)) for number, card in enumerate(empty)],
        host_bytes_per_s,
    )
    if not split.shares:
        return best
    used = [cards[share.index] for share in split.shares]
    return used[0] if len(used) == 1 else _joined(used, split, model)


def _joined(used: Sequence[Gpu], split: LayerSplit, model: SplitInput) -> Gpu:
    own = (model.rows + model.parallel) * model.numbers.card_row_bytes + OTHER_SCRATCH_BYTES
    own += CUDA_BYTES
    best = max(used, key=lambda card: (card.vram_total_bytes, -card.index))
    total, free = best.vram_total_bytes, best.vram_free_bytes
    for card in used:
        if card is not best:
            taken = own + reserve_bytes(card)
            total += max(0, card.vram_total_bytes - taken)
            free += max(0, card.vram_free_bytes - taken)
    # A token passes them one after the other, each over its share of the bytes.
    layers = [share.stop - share.first for share in split.shares]
    rates = [card.memory_bytes_per_s or REFERENCE_RATES.card for card in used]
    seconds = sum(count / rate for count, rate in zip(layers, rates, strict=True))
    in_order = sorted(used, key=lambda card: card.index)
    return replace(
        best,
        name=NAMES_JOINED_BY.join(card.name for card in in_order),
        vram_total_bytes=total,
        vram_free_bytes=free,
        memory_bytes_per_s=sum(layers) / seconds,
        processes=tuple(process for card in in_order for process in card.processes),
    )
