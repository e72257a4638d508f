"""What lives where when a graphics card helps: a pure function of numbers.

Into video memory goes first what every token reads (mixers, routers, shared experts, head), the draft
layer, keys and values, states; experts fill the rest. All experts stay readable in RAM, where the CPU
computes those that the card does not hold; where RAM is short, those that it holds need no RAM, and
what still does not fit is read from the disk. The sources of the constants are in spec/catalog.md
section 5. Works before a download (numbers from the catalogue) and after it (from the header).

    place(numbers_of_catalog(catalog, model), memory, gpu=None, context=32768)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from engine.core.card_bytes import CUDA_BYTES, OTHER_SCRATCH_BYTES
from engine.core.errors import ParameterValue
from engine.core.gpu import Gpu
from engine.core.machine import Machine
from engine.core.model_numbers import ModelNumbers
from engine.core.ngram_mode import CACHE_BYTES
from engine.core.note import Note
from engine.core.placement import (
    MOST_FROM_DISK,
    PROGRAM_BYTES,
    RAM_TOLERANCE,
    SYSTEM_RESERVE_BYTES,
    Verdict,
)
from engine.core.prompt_chunk import CARD_ROWS, rows_on_card, turns_s
from engine.core.timeline import REFERENCE_RATES, Rates, WindowLoad, link_bytes_per_s
from engine.core.weight_groups import PlacedPart, Tier

MIN_CAPABILITY = (7, 5)  # what our kernels are compiled for: Turing and newer
_MIN_DRIVER_OF_NEW_CARDS = ((10, 0), 570)  # Blackwell came with CUDA 12.8

# Video memory that is left to others: a desktop grows when windows open.
VRAM_RESERVE_BYTES = 700 << 20
VRAM_RESERVE_DISPLAY_BYTES = 1500 << 20
# What a person's system and other programs take of RAM while the model runs, comfortably.
COMFORT_BYTES = 4 << 30


@dataclass(frozen=True, slots=True)
class HybridPlacement:
    """The answer.

    Attributes:
        verdict: fits, tight (close other programs), or does not fit.
        context: tokens of one sequence.
        parallel: sequences that can run together; fewer where memory is short.
        parts: what lives where; experts may appear once for each tier.
        notes: why, and what was given up.
        gpu_index: the card that is used; None without one.
        expert_slots: experts that the card holds.
        prompt_rows: rows of a prompt in one pass; 0 without a card.
        vram_bytes: video memory that is used, slots included.
        ram_bytes: RAM that it takes, mapped weights included.
        disk_expert_bytes: experts that fit nowhere and are read from the disk when needed.
    """

    verdict: Verdict
    context: int
    parallel: int
    parts: tuple[PlacedPart, ...]
    notes: tuple[Note, ...]
    gpu_index: int | None
    expert_slots: int
    prompt_rows: int
    vram_bytes: int
    ram_bytes: int
    disk_expert_bytes: int


@dataclass(frozen=True, slots=True)
class CardSizes:
    """What a card is filled with.

    Attributes:
        parallel: sequences that run together.
        near: tokens whose keys and values stay on the card.
        with_mtp: whether the draft layer is on the card.
        prompt_rows: rows of a prompt in one pass.
        slots: experts that it holds.
    """

    parallel: int
    near: int
    with_mtp: bool
    prompt_rows: int
    slots: int


@dataclass(frozen=True, slots=True)
class _VramPlan:
    parts: tuple[PlacedPart, ...]
    slots: int
    prompt_rows: int
    parallel: int
    notes: tuple[Note, ...]
    far_pages: PlacedPart  # in RAM

    @property
    def num_bytes(self) -> int:
        return sum(part.num_bytes for part in self.parts)


def place(
    model: ModelNumbers,
    machine: Machine,
    gpu: Gpu | None,
    context: int,
    *,
    may_read_disk: bool = False,
) -> HybridPlacement:
    """Place a model.

    Args:
        model: its numbers.
        machine: RAM.
        gpu: the card to use; None: the CPU computes everything.
        context: tokens of one sequence.
        may_read_disk: whether experts that fit into no memory may stay on the disk (large sizes of
            which only a part is in use).
    """
    plan = _vram_plan(model, gpu, context) if gpu is not None else None
    if plan is None:
        first = _place(model, machine, None, context, model.parallel, may_read_disk=may_read_disk)
        alone = _place(model, machine, None, context, 1, may_read_disk=may_read_disk)
        placement = alone if alone.verdict is not first.verdict else first
        if placement is alone:
            placement = _with_note(alone, Note("one_request_at_a_time"))
        if gpu is not None:
            params: dict[str, ParameterValue] = {
                "card": gpu.name,
                "vram_bytes": gpu.vram_total_bytes,
            }
            placement = _with_note(placement, Note("vram_too_small", params))
        return placement
    placement = _place(model, machine, plan, context, plan.parallel, may_read_disk=may_read_disk)
    return dataclasses.replace(placement, gpu_index=gpu.index if gpu is not None else None)


def _with_note(placement: HybridPlacement, note: Note) -> HybridPlacement:
    return dataclasses.replace(placement, notes=(*placement.notes, note))


def _place(
    model: ModelNumbers,
    machine: Machine,
    plan: _VramPlan | None,
    context: int,
    parallel: int,
    *,
    may_read_disk: bool,
) -> HybridPlacement:
    """Fill RAM and disk with what the card does not hold."""
    notes = list(plan.notes) if plan is not None else []
    held = plan.slots * model.expert_slot_bytes if plan is not None else 0
    parts = [
        PlacedPart("Program", Tier.RAM, PROGRAM_BYTES, "Python, libraries, kernels, server"),
        PlacedPart("Vocabulary", Tier.RAM, model.vocabulary_bytes, "for texts and for grammars"),
        # Of a table that is smaller than the cache would be, all is kept.
        PlacedPart(
            "n-gram row cache", Tier.RAM, min(CACHE_BYTES, model.row_bytes), "rows that came last"
        ),
    ]
    parts += _parts_in_ram(model, context, parallel) if plan is None else [plan.far_pages]
    fixed = sum(part.num_bytes for part in parts)
    total = int(machine.ram_total_bytes * (1 + RAM_TOLERANCE))
    room = total - SYSTEM_RESERVE_BYTES - fixed
    in_ram = model.expert_bytes
    if held and room + SYSTEM_RESERVE_BYTES - COMFORT_BYTES < in_ram:
        in_ram = max(model.expert_bytes - held, 0)
        notes.append(Note("experts_not_doubled", {"vram_bytes": held}))
    on_disk = max(0, in_ram - max(room, 0)) if may_read_disk else 0
    if on_disk:
        notes.append(Note("experts_on_disk", {"disk_bytes": on_disk}))
    ram = fixed + in_ram - on_disk
    parts += [
        PlacedPart("Experts", Tier.RAM_MAPPED, in_ram - on_disk, "the CPU computes them here"),
        PlacedPart("Experts", Tier.DISK, on_disk, "they fit into no memory"),
        *(plan.parts if plan is not None else ()),
        PlacedPart("Tables", Tier.DISK, model.row_bytes, "a few rows per token are read"),
    ]
    return HybridPlacement(
        verdict=_verdict(ram, room, on_disk, model, total),
        context=context,
        parallel=parallel,
        parts=tuple(part for part in parts if part.num_bytes),
        notes=tuple(notes),
        gpu_index=None,
        expert_slots=plan.slots if plan is not None else 0,
        prompt_rows=plan.prompt_rows if plan is not None else 0,
        vram_bytes=plan.num_bytes if plan is not None else 0,
        ram_bytes=ram,
        disk_expert_bytes=on_disk,
    )


def best_gpu(cards: Sequence[Gpu], driver_major: int | None, min_driver: int) -> Gpu | None:
    """The card to use: of those that can be used the one with the most video memory.

    One card alone: a second one that is smaller makes prompts slower.
    """
    usable = [card for card in cards if not gpu_problems(card, driver_major, min_driver)]
    return max(usable, key=lambda card: (card.vram_total_bytes, -card.index), default=None)


def gpu_problems(card: Gpu, driver_major: int | None, min_driver: int) -> list[Note]:
    """Why a card cannot be used; empty when it can."""
    notes: list[Note] = []
    capability = card.compute_capability
    if capability is not None and capability < MIN_CAPABILITY:
        text = f"{capability[0]}.{capability[1]}"
        notes.append(Note("gpu_too_old", {"card": card.name, "capability": text}))
    needed = min_driver
    if capability is not None and capability >= _MIN_DRIVER_OF_NEW_CARDS[0]:
        needed = max(needed, _MIN_DRIVER_OF_NEW_CARDS[1])
    if driver_major is not None and driver_major < needed:
        params: dict[str, ParameterValue] = {
            "card": card.name,
            "driver": driver_major,
            "needed": needed,
        }
        notes.append(Note("driver_too_old", params))
    return notes


def reserve_bytes(gpu: Gpu) -> int:
    """Video memory that stays free; more where a screen may hang on the card."""
    return VRAM_RESERVE_BYTES if gpu.has_display is False else VRAM_RESERVE_DISPLAY_BYTES


def _vram_plan(model: ModelNumbers, gpu: Gpu, context: int) -> _VramPlan | None:
    """What the card holds; None when it is too small even for what must be there."""
    # What others hold now counts, except where that would rule the card out: they can be closed.
    rooms = [
        gpu.vram_free_bytes - reserve_bytes(gpu),
        gpu.vram_total_bytes - reserve_bytes(gpu),
    ]
    for room, is_now in zip(rooms, (True, False), strict=True):
        sizes = card_sizes(model, room, context, rates_of(gpu))
        if sizes is None:
            continue
        notes = []
        if sizes.parallel < model.parallel:
            notes.append(Note("one_request_at_a_time"))
        if not sizes.with_mtp:
            notes.append(Note("no_vram_for_drafts", {"card": gpu.name}))
        if not is_now:
            notes.append(vram_taken(gpu))
        size = sizes.slots * model.expert_slot_bytes
        experts = PlacedPart("Experts", Tier.VRAM, size, f"{sizes.slots} of {model.num_experts}")
        far_bytes = (context - sizes.near) * (model.kv_token_bytes - model.kv_pooled_token_bytes)
        far = PlacedPart(
            "KV pages", Tier.RAM, far_bytes, f"all but {sizes.near} tokens; read over the bus"
        )
        fixed = _fixed_parts(
            *(model, context, sizes.near, sizes.parallel, sizes.prompt_rows),
            with_mtp=sizes.with_mtp,
        )
        return _VramPlan(
            *((*fixed, experts), sizes.slots, sizes.prompt_rows, sizes.parallel),
            *(tuple(notes), far),
        )
    return None


def rates_of(gpu: Gpu | None) -> Rates:
    """How fast bytes move on a card, as far as that is known; else as on the reference machine."""
    rates = REFERENCE_RATES
    if gpu is None:
        return rates
    bus = rates.bus
    if gpu.pcie_generation_max is not None and gpu.pcie_width_max is not None:
        bus = link_bytes_per_s(gpu.pcie_generation_max, gpu.pcie_width_max)
    return dataclasses.replace(rates, card=gpu.memory_bytes_per_s or rates.card, bus=bus)


def card_sizes(model: ModelNumbers, room: int, context: int, rates: Rates) -> CardSizes | None:
    """What a card holds; None where it is too small even for what must be there.

    Args:
        model: its numbers.
        room: card memory in bytes for everything.
        context: tokens of one sequence.
        rates: of the machine, for the rows of a pass.
    """
    kept = context if model.kv_vram_tokens is None else min(context, model.kv_vram_tokens)
    least = min(model.experts_used, model.num_experts)  # fewer would only move to and fro
    # What is given up first: further requests at a time, then pages on the card, then the drafts.
    for parallel, near, with_mtp in (
        (model.parallel, kept, True),
        (1, kept, True),
        (1, near_tokens(model, room, context, context, 1), True),
        (1, near_tokens(model, room, context, context, 1, with_mtp=False), False),
    ):

        def slots_beside(rows: int) -> int:
            fixed = _fixed_parts(model, context, near, parallel, rows, with_mtp=with_mtp)  # noqa: B023
            left = room - sum(part.num_bytes for part in fixed)
            slots = min(model.num_experts, left // max(model.expert_slot_bytes, 1))
            return slots if slots >= least else -1

        found = rows_on_card(
            model.prompt_chunk,
            slots_beside,
            lambda rows, slots: turns_s(rows, _window_load(model, slots), model.num_experts, rates),
        )
        if found is not None:
            return CardSizes(parallel, near, with_mtp, *found)
    return None


def card_bytes(model: ModelNumbers, context: int, sizes: CardSizes) -> int:
    """Card memory that these sizes take without experts."""
    fixed = _fixed_parts(
        *(model, context, sizes.near, sizes.parallel, sizes.prompt_rows), with_mtp=sizes.with_mtp
    )
    return sum(part.num_bytes for part in fixed)


def _window_load(model: ModelNumbers, slots: int) -> WindowLoad:
    return WindowLoad(
        layers=model.num_layers,
        experts_used=model.experts_used // max(model.num_layers, 1),
        expert_bytes=model.expert_slot_bytes,
        dense_bytes=model.dense_bytes,
        cached_share=slots / max(model.num_experts, 1),
    )


def near_tokens(
    model: ModelNumbers,
    room: int,
    context: int,
    num_tokens: int,
    parallel: int,
    *,
    rows: int | None = None,
    with_mtp: bool = True,
) -> int:
    """Of all tokens, those whose keys and values stay on the card; it reads the others over the bus.

    As many as are wished for (setting: kv_vram_tokens), else those of one full context as far as they
    leave room for the experts that one token reads, and more beside all experts. Pooled index keys of all
    tokens are on the card in any case.

    Args:
        model: its numbers.
        room: card memory in bytes for everything.
        context: tokens of one sequence.
        num_tokens: of all pages.
        parallel: sequences.
        rows: of a prompt in one pass; None = the fewest.
        with_mtp: whether the draft layer is on the card.
    """
    if model.kv_vram_tokens is not None:
        return min(num_tokens, model.kv_vram_tokens)
    rows = rows or min(CARD_ROWS[-1], model.prompt_chunk or CARD_ROWS[-1])
    fixed = _fixed_parts(model, num_tokens, 0, parallel, rows, with_mtp=with_mtp)
    least = min(model.experts_used, model.num_experts) * model.expert_slot_bytes
    left = room - sum(part.num_bytes for part in fixed)
    each = max(model.kv_token_bytes - model.kv_pooled_token_bytes, 1)
    first = min(context, (left - least) // each)
    return max(0, min(num_tokens, max(first, (left - model.expert_bytes) // each)))


def vram_taken(gpu: Gpu) -> Note:
    """Who holds the card's memory now."""
    names = sorted({process.name for process in gpu.processes if process.name})
    taken: dict[str, ParameterValue] = {
        "card": gpu.name,
        "taken_bytes": gpu.vram_total_bytes - gpu.vram_free_bytes,
    }
    if not names:  # on Windows the driver often does not say
        return Note("vram_taken", taken)
    return Note("vram_taken_by", {**taken, "programs": ", ".join(names)})


def _fixed_parts(
    model: ModelNumbers, context: int, near: int, parallel: int, rows: int, *, with_mtp: bool
) -> list[PlacedPart]:
    states = parallel * model.state_bytes
    kv_bytes = near * model.kv_token_bytes + (context - near) * model.kv_pooled_token_bytes
    kept = "keys, values" if near == context else f"keys, values of {near} tokens; index keys"
    parts = [
        PlacedPart("Weights", Tier.VRAM, model.dense_bytes, "read every token"),
        PlacedPart("KV pages", Tier.VRAM, kv_bytes, kept),
        PlacedPart("Recurrent states", Tier.VRAM, states, f"{parallel} sequences"),
        PlacedPart("CUDA", Tier.VRAM, CUDA_BYTES, "context, kernels, graphs"),
        PlacedPart(
            "Workspace",
            Tier.VRAM,
            (rows + parallel) * model.card_row_bytes + OTHER_SCRATCH_BYTES,
            f"{rows} rows of a prompt at a time",
        ),
    ]
    if with_mtp:
        parts.append(PlacedPart("MTP layer", Tier.VRAM, model.mtp_bytes, "read for every draft"))
    return parts


def _parts_in_ram(model: ModelNumbers, context: int, parallel: int) -> list[PlacedPart]:
    """What lives in RAM when no card takes it."""
    states = parallel * model.state_bytes
    weights = model.dense_bytes + model.mtp_bytes
    kv_bytes = context * model.kv_token_bytes
    return [
        PlacedPart("Weights", Tier.RAM_MAPPED, weights, "read every token"),
        PlacedPart("KV pages", Tier.RAM, kv_bytes, "keys, values, index keys"),
        PlacedPart("Recurrent states", Tier.RAM, states, f"{parallel} sequences"),
        PlacedPart("Workspace", Tier.RAM, model.workspace_bytes, "activations and logits"),
    ]


def _verdict(ram: int, room: int, on_disk: int, model: ModelNumbers, total: int) -> Verdict:
    if on_disk:
        too_much = room <= 0 or on_disk > MOST_FROM_DISK * model.expert_bytes
        return Verdict.DOES_NOT_FIT if too_much else Verdict.TIGHT
    if ram + COMFORT_BYTES <= total:
        return Verdict.FITS
    return Verdict.TIGHT if ram + SYSTEM_RESERVE_BYTES <= total else Verdict.DOES_NOT_FIT
