"""Sizes of a model on a graphics card: pages, rows of a pass, requests at a time, by what the card has free."""

from __future__ import annotations

import dataclasses
import functools
import logging
from collections.abc import Sequence
from dataclasses import dataclass

from engine.core.card_bytes import CONTEXT_BYTES
from engine.core.config import OpsName, RunConfig
from engine.core.drive_speed import DriveKind
from engine.core.gguf_header import ModelHeader
from engine.core.gpu import Gpu
from engine.core.machine import Machine
from engine.core.model_numbers import ModelNumbers, numbers_of_header
from engine.core.placement import CardShare, Placement, place_beside_card
from engine.core.placement_hybrid import (
    CardSizes,
    card_sizes,
    near_tokens,
    rates_of,
)
from engine.core.prompt_chunk import CARD_ROWS
from engine.core.split_numbers import SplitInput
from engine.model.limits import ModelLimits
from engine.worker.card_choice import is_automatic

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class PlacingInput:
    """What a model was placed with on the CPU, and is placed with beside a card.

    Attributes:
        machine: its RAM.
        drive: of the n-gram table.
        draft_head: header of the draft head's own file, where it has one.
    """

    machine: Machine
    drive: DriveKind
    draft_head: ModelHeader | None


def sizes_beside_card(
    config: RunConfig, numbers: ModelNumbers, context: int, room_bytes: int, gpu: Gpu | None
) -> CardSizes | None:
    """What a card that computes alone is filled with; None where it has too little room to be taken.

    A card that was asked for (settings: ops, gpus) is tried whatever the numbers say.

    Args:
        config: of the run.
        numbers: of the model.
        context: tokens of one sequence.
        room_bytes: of the card: free before anything of the model is on it, less the reserve.
        gpu: what its driver says of it, as far as anybody knows.
    """
    room = room_bytes + CONTEXT_BYTES  # the plan counts it; here it is taken already
    sizes = card_sizes(numbers, room, context, rates_of(gpu))
    if sizes is None and (config.ops is OpsName.CUDA or not is_automatic(config)):
        rows = min(CARD_ROWS[-1], config.prompt_chunk or CARD_ROWS[-1])
        return CardSizes(1, 0, with_mtp=True, prompt_rows=rows, slots=0)
    return sizes


def placement_beside_card(
    config: RunConfig,
    header: ModelHeader,
    given: PlacingInput,
    context: int,
    room_bytes: int,
    gpu: Gpu | None,
) -> Placement | None:
    """What lies where when one card computes; None where it has too little room to be taken.

    Args:
        config: of the run.
        header: of the model.
        given: machine and files.
        context: tokens of one sequence.
        room_bytes: of the card: free before anything of the model is on it, less the reserve.
        gpu: what its driver says of it, as far as anybody knows.
    """
    numbers = numbers_of_header(header, config, given.draft_head)
    sizes = sizes_beside_card(config, numbers, context, room_bytes, gpu)
    if sizes is None:
        return None
    if config.prompt_chunk is not None and sizes.prompt_rows < config.prompt_chunk:
        logger.warning(
            "prompt_chunk is %d, but the graphics card has memory for passes of %d rows",
            *(config.prompt_chunk, sizes.prompt_rows),
        )
    if not sizes.with_mtp and numbers.mtp_bytes:
        logger.warning("the graphics card has no memory for the draft head; it guesses no tokens")
    near = functools.partial(
        near_tokens,
        numbers,
        room_bytes + CONTEXT_BYTES,
        context,
        parallel=sizes.parallel,
        rows=sizes.prompt_rows,
        with_mtp=sizes.with_mtp,
    )
    share = CardShare(
        parallel=sizes.parallel,
        prompt_rows=sizes.prompt_rows,
        near_tokens=near,
        far_token_bytes=numbers.kv_token_bytes - numbers.kv_pooled_token_bytes,
        with_head=sizes.with_mtp,
    )
    return place_beside_card(given.machine, header, config, given.drive, given.draft_head, share)


def placement_beside_cards(
    config: RunConfig,
    header: ModelHeader,
    given: PlacingInput,
    model: SplitInput,
    rooms: Sequence[tuple[int, int]],
) -> Placement:
    """What lies where when several cards share the layers.

    Args:
        config: of the run.
        header: of the model.
        given: machine and files.
        model: its numbers, with the rows of a pass.
        rooms: of each card, in the order in which a token passes them, its layers, and the bytes that are
            free before anything of the model is on it, less the reserve.
    """

    def near(num_tokens: int) -> int:  # what the fullest card has room for
        wide = dataclasses.replace(model, num_tokens=num_tokens)
        last = len(rooms) - 1
        return min(
            wide.near_tokens(num_layers, room + CONTEXT_BYTES, is_last=number == last)
            for number, (num_layers, room) in enumerate(rooms)
        )

    numbers = model.numbers
    share = CardShare(
        parallel=model.parallel,
        prompt_rows=model.rows,
        near_tokens=near,
        far_token_bytes=numbers.kv_token_bytes - numbers.kv_pooled_token_bytes,
    )
    return place_beside_card(given.machine, header, config, given.drive, given.draft_head, share)


def limits_of(placement: Placement, limits: ModelLimits) -> ModelLimits:
    """The limits with the sizes of this placement."""
    if placement.near_pages is not None and placement.near_pages < placement.kv_pages:
        logger.info(
            "keys and values of %d of %d tokens stay in graphics memory; the others lie in RAM",
            placement.near_pages * placement.page_tokens,
            placement.kv_pages * placement.page_tokens,
        )
    return dataclasses.replace(
        limits,
        max_rows=placement.prompt_rows + placement.max_sequences,
        max_sequences=placement.max_sequences,
        kv_pages=placement.kv_pages,
        kv_near_pages=placement.near_pages,
        with_head=placement.with_head,
    )
