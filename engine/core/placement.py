"""What lives where: a pure function of machine, model header and config.

The wizard, `engine inspect` and the worker call the same function and get the same answer: every
part of the model with its tier and bytes, the reason for it, and one verdict. This file places in RAM
what the CPU computes with, all of it or what a graphics card leaves; `placement_hybrid.py` places from numbers
alone, on cards too. It counts weights, KV pages (keys, values, raw and pooled index keys), recurrent
states with their rollback copy, workspaces and a reserve (spec/qwen4exp.md section 6).
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from engine.core.config import ExpertMode, NgramMode, RunConfig
from engine.core.draft_head_file import tensors_with_head
from engine.core.drive_speed import DriveKind
from engine.core.errors import ConfigError, ParameterValue, ResourceError
from engine.core.expert_plan import ExpertPlan, plan_experts
from engine.core.gguf_header import ModelHeader
from engine.core.machine import Machine
from engine.core.model_config import ModelConfig
from engine.core.model_sizes import (
    MAX_WINDOW,
    checkpoint_bytes,
    kv_page_bytes,
    model_config_of,
    page_tokens_of,
    state_bytes,
    vocabulary_bytes,
    workspace_bytes,
)
from engine.core.ngram_mode import NgramPlan, plan_ngram_table
from engine.core.ngram_numbers import TABLE_NAME
from engine.core.prompt_chunk import CPU_ROWS, rows_on_cpu
from engine.core.session_memory import session_memory
from engine.core.sizes import size_in_words
from engine.core.weight_groups import EXPERTS, TABLE_PART, PlacedPart, Tier, weight_parts

DEFAULT_CONTEXT = 32_768

# Python, the libraries, the kernels and the front: measured 130 MB resident before a model is loaded.
PROGRAM_BYTES = 200 << 20
# Left to the system and to other programs when RAM is counted as a whole.
SYSTEM_RESERVE_BYTES = 1 << 30
# A "32 GB" kit reports 31.x GiB because firmware keeps some: sizes may miss by this share.
RAM_TOLERANCE = 0.03
# What a graphics card holds instead.
_CARD_PARTS = frozenset(
    {
        *("Other", "MTP layer", "Token embedding", "Stream projections as Q8_0"),
        *("Recurrent states", "Workspace"),
    }
)
# Experts that are read from the disk while it answers: beyond this share the disk sets the speed.
MOST_FROM_DISK = 0.6
# Pages for further sequences beside the first full context, as a share of free memory.
_EXTRA_KV_SHARE = 0.25


class Verdict(enum.StrEnum):
    """Whether this machine can run the model with this config."""

    FITS = "fits"
    TIGHT = "tight"
    DOES_NOT_FIT = "does_not_fit"


@dataclass(frozen=True, slots=True)
class Placement:
    """The answer.

    Attributes:
        verdict: fits, tight (free memory is short: close programs), or does not fit.
        reasons: sentences for the person, the verdict's first.
        parts: what lives where.
        context: context length in tokens of one sequence.
        page_tokens: tokens in a KV page.
        kv_pages: pages for all sequences together.
        max_sequences: sequences that are computed together.
        session_bytes: for the recurrent states of conversations that are kept warm.
        needed_bytes: RAM that all this takes, mapped weights included.
        private_bytes: the share of it that the system cannot take back: what is no part of the file,
            and experts that are kept.
        experts: what becomes of the experts.
        ngram: how the n-gram table is read; None without one.
        prompt_rows: rows of a prompt that one pass computes.
        near_pages: of the pages, those on a graphics card; None without one.
        with_head: whether there is room for the draft head, where the model has one.
    """

    verdict: Verdict
    reasons: tuple[str, ...]
    parts: tuple[PlacedPart, ...]
    context: int
    page_tokens: int
    kv_pages: int
    max_sequences: int
    session_bytes: int
    needed_bytes: int
    private_bytes: int
    experts: ExpertPlan
    ngram: NgramPlan | None = None
    prompt_rows: int = CPU_ROWS
    near_pages: int | None = None
    with_head: bool = True


@dataclass(frozen=True, slots=True)
class CardShare:
    """What a graphics card takes over, so that it needs no RAM.

    Attributes:
        parallel: sequences that run together.
        prompt_rows: rows of a prompt that one pass computes.
        near_tokens: of so many tokens, those whose keys and values lie on the card.
        far_token_bytes: of keys and values of one token, what lies in RAM where they do not.
        with_head: whether it has room for the draft head.
    """

    parallel: int
    prompt_rows: int
    near_tokens: Callable[[int], int]
    far_token_bytes: int
    with_head: bool = True


def place_on_cpu(
    machine: Machine,
    header: ModelHeader,
    config: RunConfig,
    drive: DriveKind = DriveKind.UNKNOWN,
    draft_head: ModelHeader | None = None,
) -> Placement:
    """Place a model whose every operation runs on the CPU.

    Args:
        machine: what it is placed on.
        header: of the model.
        config: what is wanted.
        drive: what the drive of the n-gram table was measured to be.
        draft_head: of the draft head's file, where it has one of its own.

    Raises:
        ModelFileError: the header describes no model that we know.
        ConfigError: the context asked for is longer than the model's.
    """
    return _place(machine, header, config, drive, draft_head, None)


def place_beside_card(
    machine: Machine,
    header: ModelHeader,
    config: RunConfig,
    drive: DriveKind,
    draft_head: ModelHeader | None,
    card: CardShare,
) -> Placement:
    """Place in RAM what a graphics card does not take over of a model.

    Raises:
        ModelFileError: the header describes no model that we know.
        ConfigError: the context asked for is longer than the model's.
    """
    return _place(machine, header, config, drive, draft_head, card)


def _place(
    machine: Machine,
    header: ModelHeader,
    config: RunConfig,
    drive: DriveKind,
    draft_head: ModelHeader | None,
    card: CardShare | None,
) -> Placement:
    model = model_config_of(header)
    context = _context(model, config)
    if draft_head is not None:
        model = dataclasses.replace(model, num_mtp_layers=1)
    tensors = tensors_with_head(header, draft_head, model.num_layers)
    parts = weight_parts(tensors, model.num_layers, requant=config.requant)
    parallel = config.parallel if card is None else card.parallel
    rows = rows_on_cpu(config) if card is None else card.prompt_rows
    page_tokens = page_tokens_of(model)
    page_bytes = kv_page_bytes(model, config.kv_type, page_tokens)
    pages_each = -(-context // page_tokens)
    kv_pages = _kv_pages(pages_each, page_bytes, parallel, machine)
    kv_part = PlacedPart(
        "KV pages",
        Tier.RAM,
        kv_pages * page_bytes,
        f"{kv_pages} pages of {page_tokens} tokens, {config.kv_type.value}: keys, values, "
        f"index keys; a full context is {pages_each} pages",
    )
    parts += [
        kv_part if card is None else _far_part(card, kv_pages, page_tokens),
        PlacedPart(
            "Recurrent states",
            Tier.RAM,
            parallel * state_bytes(model),
            f"{parallel} sequences, each with its rollback copy and window",
        ),
        PlacedPart(
            "Workspace",
            Tier.RAM,
            workspace_bytes(model, rows, parallel + MAX_WINDOW),
            f"activations of {rows} rows and logits",
        ),
        PlacedPart(
            "Vocabulary",
            Tier.RAM,
            vocabulary_bytes(model.vocab_size),
            f"{model.vocab_size} tokens, for texts and for grammars",
        ),
        PlacedPart("Program", Tier.RAM, PROGRAM_BYTES, "Python, libraries, kernels, server"),
    ]
    if card is not None:
        parts = [_on_card(part) for part in parts]
    free = machine.ram_available_bytes - _ram_bytes(parts)
    table = header.tensors.get(TABLE_NAME)
    ngram = plan_ngram_table(config, None if table is None else table[1], drive, free)
    if ngram is not None:
        parts = _with_table(parts, ngram)
        free -= ngram.ram_bytes
    sessions = session_memory(
        config.session_cache_mib,
        free,
        checkpoint_bytes(model),
        page_bytes,
        pages_each,
    )
    if sessions.state_bytes:
        parts.append(
            PlacedPart(
                "Warm conversations",
                Tier.RAM,
                sessions.state_bytes + sessions.pages * page_bytes,
                f"up to {sessions.state_bytes // checkpoint_bytes(model)} checkpoints and "
                f"{sessions.pages} pages (setting: session_cache_mib)",
            )
        )
    needed = _ram_bytes(parts)
    expert_bytes = sum(part.num_bytes for part in parts if part.name == EXPERTS)
    room = machine.ram_available_bytes - (needed - expert_bytes)
    experts = plan_experts(config, expert_bytes, room)
    at = next((i for i, part in enumerate(parts) if part.name == EXPERTS), None)
    if at is not None:
        parts[at : at + 1] = _expert_parts(experts)
    if experts.keeps_rest:
        parts = [_kept(part) for part in parts]
    private = sum(part.num_bytes for part in parts if part.tier is Tier.RAM)
    verdict, reason = _verdict(machine, needed, private, experts)
    reasons = [reason]
    if config.context is None and context < model.context_length:
        reasons.append(
            f"The context is {context} tokens; the model knows up to {model.context_length} "
            "(setting: context)."
        )
    if kv_pages < pages_each * parallel:
        reasons.append(
            f"The {parallel} parallel requests share {kv_pages * page_tokens} tokens of "
            "context, so long ones may have to wait for each other."
        )
    return Placement(
        verdict=verdict,
        reasons=tuple(reasons),
        parts=tuple(parts),
        context=context,
        page_tokens=page_tokens,
        kv_pages=kv_pages + sessions.pages,
        max_sequences=parallel,
        session_bytes=sessions.state_bytes,
        needed_bytes=needed,
        private_bytes=private,
        ngram=ngram,
        experts=experts,
        prompt_rows=rows,
        near_pages=(
            None if card is None else _near_pages(card, kv_pages + sessions.pages, page_tokens)
        ),
        with_head=card is None or card.with_head,
    )


def _near_pages(card: CardShare, pages: int, page_tokens: int) -> int:
    return min(pages, -(-card.near_tokens(pages * page_tokens) // page_tokens))


def _far_part(card: CardShare, pages: int, page_tokens: int) -> PlacedPart:
    near = _near_pages(card, pages, page_tokens)
    far_bytes = (pages - near) * page_tokens * card.far_token_bytes
    reason = f"all but {near} of {pages} pages of {page_tokens} tokens; the card reads them here"
    return PlacedPart("KV pages", Tier.RAM, far_bytes, reason)


def _on_card(part: PlacedPart) -> PlacedPart:
    """The part where it lies when a card computes: what every token reads is on the card."""
    if part.name not in _CARD_PARTS or part.tier is Tier.DISK:
        return part
    return dataclasses.replace(part, tier=Tier.VRAM)


def _ram_bytes(parts: Iterable[PlacedPart]) -> int:
    return sum(p.num_bytes for p in parts if p.tier not in {Tier.DISK, Tier.VRAM})


def _with_table(parts: list[PlacedPart], plan: NgramPlan) -> list[PlacedPart]:
    """The parts with the n-gram table where it is read from, and with what reading it takes."""
    tier = Tier.RAM if plan.mode is NgramMode.RAM else Tier.DISK
    at = next(i for i, part in enumerate(parts) if part.name == TABLE_PART)
    placed = [
        *parts[:at],
        PlacedPart(TABLE_PART, tier, plan.table_bytes, f"{plan.mode.value}: {plan.reason}"),
        *parts[at + 1 :],
    ]
    if plan.mode is NgramMode.DIRECT:
        reason = "rows that came last, and reads in flight (setting: ngram_cache_rows)"
        placed.append(PlacedPart("n-gram row cache", Tier.RAM, plan.ram_bytes, reason))
    return placed


def require_private_memory(placement: Placement, machine: Machine) -> None:
    """Refuse to load what would push the machine into swapping to death.

    Mapped weights may exceed memory (they are then read again from the disk, slowly); caches, states,
    workspaces and experts that are to be kept may not.

    Raises:
        ResourceError: naming the sizes and the settings that lower them.
    """
    private, free = placement.private_bytes, machine.ram_available_bytes
    if private <= free:
        return
    params: dict[str, ParameterValue] = {
        "needed": private,
        "free": free,
        "total": machine.ram_total_bytes,
    }
    caches = private - placement.experts.keep_bytes
    of_all = f"{size_in_words(free)} are free of {size_in_words(machine.ram_total_bytes)} on this machine"
    if caches <= free:
        keep = placement.experts.keep_bytes
        rest = placement.needed_bytes - placement.experts.ram_bytes - placement.experts.disk_bytes
        room_mib = max(free - rest, 0) >> 20
        budget = f", or to budget with an expert_ram_mib of at most {room_mib}" if room_mib else ""
        raise ResourceError(
            f"The experts that are to be kept in memory take {size_in_words(keep)}, everything else "
            f"{size_in_words(caches)}; {of_all}. Close other programs, or set expert_mode to mapped{budget}.",
            code="insufficient_ram",
            params=params,
        )
    table = placement.ngram
    if table is not None and table.mode is NgramMode.RAM and caches - table.ram_bytes <= free:
        raise ResourceError(
            f"The n-gram table that is to be held in memory takes {size_in_words(table.ram_bytes)}, "
            f"everything else {size_in_words(private - table.ram_bytes)}; {of_all}. Close other programs, "
            "or set ngram_mode to direct.",
            code="insufficient_ram",
            params=params,
        )
    raise ResourceError(
        f"Caches and workspaces need {size_in_words(caches)} of memory; {of_all}. Close other "
        f"programs, or lower context ({placement.context}), parallel ({placement.max_sequences}), "
        "session_cache_mib or prompt_chunk.",
        code="insufficient_ram",
        params=params,
    )


def _context(model: ModelConfig, config: RunConfig) -> int:
    if config.context is None:
        return min(model.context_length, DEFAULT_CONTEXT)
    if config.context > model.context_length:
        raise ConfigError(
            f"The context of {config.context} tokens is longer than the model's "
            f"{model.context_length}. Choose at most that (setting: context).",
            code="context_too_long",
            params={"context": config.context, "trained": model.context_length},
        )
    return config.context


def _kv_pages(pages_each: int, page_bytes: int, parallel: int, machine: Machine) -> int:
    """Pages for one full context, and for further sequences as far as memory is free."""
    spare = int(machine.ram_available_bytes * _EXTRA_KV_SHARE)
    extra = min(pages_each * (parallel - 1), spare // max(page_bytes, 1))
    return pages_each + max(extra, parallel - 1)


def _kept(part: PlacedPart) -> PlacedPart:
    """A part that every token reads, held in memory."""
    if part.tier is not Tier.RAM_MAPPED or part.name == EXPERTS:
        return part
    return dataclasses.replace(part, tier=Tier.RAM, reason=f"kept in memory: {part.reason}")


def _expert_parts(plan: ExpertPlan) -> list[PlacedPart]:
    """The experts, by where they are."""
    way = "all of them" if plan.mode is ExpertMode.RESIDENT else "those that are used most"
    parts = [
        PlacedPart(EXPERTS, Tier.RAM, plan.keep_bytes, f"kept in memory: {way}"),
        PlacedPart(
            EXPERTS,
            Tier.RAM_MAPPED,
            plan.ram_bytes - plan.keep_bytes,
            "the CPU computes experts where they lie in the file",
        ),
        PlacedPart(EXPERTS, Tier.DISK, plan.disk_bytes, "read when a token wants them"),
    ]
    return [part for part in parts if part.num_bytes]


def _verdict(
    machine: Machine, needed: int, private: int, experts: ExpertPlan
) -> tuple[Verdict, str]:
    total = machine.ram_total_bytes * (1 + RAM_TOLERANCE)
    if needed <= machine.ram_available_bytes:
        return Verdict.FITS, (
            f"It fits: {size_in_words(needed)} needed, {size_in_words(machine.ram_available_bytes)} free."
        )
    if needed + SYSTEM_RESERVE_BYTES <= total:
        return Verdict.TIGHT, (
            f"It is tight: {size_in_words(needed)} needed, {size_in_words(machine.ram_available_bytes)} free of "
            f"{size_in_words(machine.ram_total_bytes)}. Close other programs before starting."
        )
    all_experts = experts.ram_bytes + experts.disk_bytes
    room = total - SYSTEM_RESERVE_BYTES - (needed - all_experts)  # for experts
    on_disk = all_experts - int(room)
    if (
        room >= 0
        and private <= machine.ram_available_bytes
        and on_disk <= MOST_FROM_DISK * all_experts
    ):
        return Verdict.TIGHT, (
            f"It is tight: {size_in_words(needed)} needed of {size_in_words(machine.ram_total_bytes)}, so "
            f"{size_in_words(max(on_disk, experts.disk_bytes))} of the experts are read from the disk "
            "while it answers, which is slow. Choose a smaller size for speed."
        )
    way_out = (
        "Choose a smaller size, or a shorter context."
        if private <= machine.ram_total_bytes
        else "Lower context, parallel or prompt_chunk."
    )
    return Verdict.DOES_NOT_FIT, (
        f"It does not fit: {size_in_words(needed)} needed; of "
        f"{size_in_words(machine.ram_total_bytes)} of memory in all, "
        f"{size_in_words(SYSTEM_RESERVE_BYTES)} is left to the system. {way_out}"
    )
