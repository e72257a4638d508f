"""Which model, context and thinking level suit this PC, why, and how sure that is.

    recommendation = recommend(survey(data_dir), load_catalog(), Wish(for_coding_agents=True))
    recommendation.verdict            # the one verdict: window, terminal and exit status show it
    recommendation.choice.model_id

Pure: everything comes from the survey and the catalogue. Every model of the catalogue stays a choice,
with what it risks; the bundled one works everywhere. Sentences are codes with values (`Note`).
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from engine.core.catalog import Catalog, CatalogModel
from engine.core.config import Effort, RunConfig
from engine.core.drive_speed import DriveKind
from engine.core.drives import Drive
from engine.core.errors import ParameterValue
from engine.core.gpu import Gpu
from engine.core.machine import Machine
from engine.core.model_numbers import numbers_of_catalog
from engine.core.network_reach import any_reached
from engine.core.note import Note
from engine.core.placement import DEFAULT_CONTEXT, RAM_TOLERANCE, Verdict
from engine.core.placement_hybrid import (
    GPU_ENGINE,
    HybridPlacement,
    best_gpu,
    gpu_problems,
    place,
)
from engine.core.survey import Survey
from installer.speed import SpeedRange, cpu_speed, gpu_speed

AGENT_CONTEXT = 65_536
# What is recommended, the best first; a model that is only tight comes after those that fit.
RECOMMENDED = ("qwen-iq3_xxs", "qwen-iq2_xs", "coder-iq1_m")

_TIGHT_BYTES = 8 << 30  # below its floor a model may still run, with nothing beside it
_DISK_RESERVE_BYTES = 1 << 30
_NEVER_RECOMMENDED_CONTEXT = 204_800  # conversations broke off there on others' engines
_LARGE_CARD_BYTES = 19 << 30  # "20 GB" and "14 GB" cards report a little less
_MIDDLE_CARD_BYTES = 13 << 30
_SLOW = 3.0  # tokens/s: slower than reading
_CONTEXT_WHEN_SHORT = (32_768, 16_384, 8_192)
# Tokens/s from which each thinking level is bearable: it multiplies the length of answers.
_EFFORTS = ((20.0, Effort.HIGH), (8.0, Effort.MEDIUM), (_SLOW, Effort.LOW))


class Mark(enum.StrEnum):
    """How good something is."""

    GREEN = "green"
    AMBER = "amber"  # works, with something to know
    RED = "red"  # does not work, or only the bundled model does


@dataclass(frozen=True, slots=True)
class Wish:
    """What the person wants.

    Attributes:
        for_coding_agents: agents send long prompts.
        model_id: a model that was chosen; None: recommend one.
        context: a context that was chosen; None: recommend one.
        present_bytes: of each model, what lies finished or in parts in the data folder.
    """

    for_coding_agents: bool = False
    model_id: str | None = None
    context: int | None = None
    present_bytes: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Choice:
    """One model on this PC.

    Attributes:
        model_id: of the catalogue.
        title: family and size.
        fit: whether its memory suffices.
        mark: all together, as a colour.
        context: tokens that it is offered with.
        effort: thinking level that suits its speed.
        speed: expected.
        missing_bytes: still to be downloaded.
        disk_bytes: what the drive must have free.
        fits_on_disk: whether the data folder's drive has that; None when it does not answer.
        notes: its merits and risks.
        placement: what lives where.
    """

    model_id: str
    title: str
    fit: Verdict
    mark: Mark
    context: int
    effort: Effort
    speed: SpeedRange
    missing_bytes: int
    disk_bytes: int
    fits_on_disk: bool | None
    notes: tuple[Note, ...]
    placement: HybridPlacement


@dataclass(frozen=True, slots=True)
class Recommendation:
    """The answer.

    Attributes:
        verdict: the one verdict.
        choice: the recommended model, or the one that was wished for.
        choices: all models, in the catalogue's order.
        reasons: why this choice and this verdict.
        gpu_index: the card that would be used; None without a usable one.
        uses_gpu: whether this version's engine uses it.
    """

    verdict: Mark
    choice: Choice
    choices: tuple[Choice, ...]
    reasons: tuple[Note, ...]
    gpu_index: int | None
    uses_gpu: bool

    @property
    def exit_status(self) -> int:
        """What the command line returns: 1 when no large model can run."""
        return 1 if self.verdict is Mark.RED else 0


def recommend(
    survey: Survey, catalog: Catalog, wish: Wish | None = None, *, gpu_engine: bool = GPU_ENGINE
) -> Recommendation:
    """What to install on this PC.

    Args:
        survey: of the PC.
        catalog: what there is.
        wish: what the person wants.
        gpu_engine: whether the engine can use a card.
    """
    wish = wish or Wish()
    recommendation = _recommend(survey, catalog, wish, gpu_engine=gpu_engine)
    if not wish.for_coding_agents or recommendation.verdict is not Mark.RED:
        return recommendation
    # Rather a model with less context than agents want than none.
    shorter = dataclasses.replace(wish, for_coding_agents=False)
    other = _recommend(survey, catalog, shorter, gpu_engine=gpu_engine)
    if other.verdict is Mark.RED:
        return recommendation
    params: dict[str, ParameterValue] = {"context": other.choice.context, "wanted": AGENT_CONTEXT}
    note = Note("context_short_for_agents", params)
    return dataclasses.replace(other, reasons=(*other.reasons, note))


def _recommend(survey: Survey, catalog: Catalog, wish: Wish, *, gpu_engine: bool) -> Recommendation:
    card = usable_card(survey, catalog)
    gpu = card if gpu_engine else None
    choices = tuple(_choice(survey, catalog, model, wish, gpu) for model in catalog.models)
    by_id = {choice.model_id: choice for choice in choices}
    chosen = by_id.get(wish.model_id or "")
    best, reasons = _best(survey, catalog, by_id)
    choice = chosen or best
    if chosen is not None and chosen is not best:
        reasons = [Note("chosen_by_you", {"model": chosen.title, "recommended": best.title})]
    uses_gpu = choice.placement.gpu_index is not None
    reasons += _card_reasons(survey, catalog, card, gpu_engine=gpu_engine, uses_gpu=uses_gpu)
    reasons += _choice_reasons(choice, wish)
    verdict = Mark.RED if best.model_id == catalog.bundled.id else choice.mark
    if verdict is Mark.GREEN and choice.missing_bytes and not any_reached(survey.reach):
        verdict = Mark.AMBER
        reasons.append(Note("no_hub_reached"))
    return Recommendation(
        verdict=verdict,
        choice=choice,
        choices=choices,
        reasons=tuple(reasons),
        gpu_index=card.index if card is not None else None,
        uses_gpu=uses_gpu,
    )


def usable_card(survey: Survey, catalog: Catalog) -> Gpu | None:
    """The card that an engine with GPU support uses."""
    return best_gpu(survey.gpus.cards, survey.gpus.driver_major, _min_driver(survey, catalog))


def _min_driver(survey: Survey, catalog: Catalog) -> int:
    return catalog.min_driver.get(survey.environment.system.lower(), 0)


def _best(
    survey: Survey, catalog: Catalog, choices: Mapping[str, Choice]
) -> tuple[Choice, list[Note]]:
    """The recommended choice and the reasons for it."""
    ram: dict[str, ParameterValue] = {"ram_bytes": survey.machine.ram_total_bytes}
    bundled = choices[catalog.bundled.id]
    if not survey.cpu.is_x86:
        return bundled, [Note("cpu_unknown", {"architecture": survey.environment.architecture})]
    if not survey.cpu.avx2:
        return bundled, [Note("cpu_too_old", {"cpu": survey.machine.cpu_name})]
    in_order = [choices[model_id] for model_id in RECOMMENDED if model_id in choices]
    room = max((drive.free_bytes for drive in _drives(survey)), default=None)
    for fit in (Verdict.FITS, Verdict.TIGHT):
        for choice in in_order:
            if choice.fit is not fit or (room is not None and choice.disk_bytes > room):
                continue
            code = "recommended_tight" if fit is Verdict.TIGHT else "recommended_for_ram"
            return choice, [Note(code, {**ram, "model": choice.title})]
    if any(choice.fit is not Verdict.DOES_NOT_FIT for choice in in_order):
        least = min(choice.disk_bytes for choice in in_order)
        params: dict[str, ParameterValue] = {"needed_bytes": least, "free_bytes": room or 0}
        return bundled, [Note("no_drive_has_room", params)]
    least = min((choice.placement.ram_bytes for choice in in_order), default=0)
    return bundled, [Note("no_model_fits", {**ram, "needed_bytes": least})]


def _drives(survey: Survey) -> list[Drive]:
    drives = list(survey.drives)
    if survey.data_drive is not None:
        drives.append(survey.data_drive)
    return drives


def _card_reasons(
    survey: Survey, catalog: Catalog, card: Gpu | None, *, gpu_engine: bool, uses_gpu: bool
) -> list[Note]:
    if card is None:
        driver, needed = survey.gpus.driver_major, _min_driver(survey, catalog)
        problems = (gpu_problems(each, driver, needed) for each in survey.gpus.cards)
        return [note for notes in problems for note in notes]
    if not gpu_engine:
        return [Note("gpu_not_used_yet", {"card": card.name})]
    if not uses_gpu:
        return []  # the choice's own notes say why
    notes = [Note("gpu_used", {"card": card.name})]
    if len(survey.gpus.cards) > 1:
        notes.append(Note("one_card_of_several", {"card": card.name}))
    return notes


def _choice_reasons(choice: Choice, wish: Wish) -> list[Note]:
    speed: dict[str, ParameterValue] = {
        "low": round(choice.speed.low, 2),
        "high": round(choice.speed.high, 2),
    }
    notes = [
        Note("expected_speed", speed),
        Note("effort_by_speed", {"effort": choice.effort.value}),
    ]
    if wish.for_coding_agents:
        notes.append(Note("context_for_agents", {"context": choice.context}))
    return notes


def _choice(
    survey: Survey, catalog: Catalog, model: CatalogModel, wish: Wish, gpu: Gpu | None
) -> Choice:
    context, placement = _with_context(survey.machine, catalog, model, wish, gpu)
    numbers = numbers_of_catalog(catalog, model)
    shape = catalog.family_of(model).shape
    speed = None
    if gpu is not None and placement.gpu_index is not None:
        speed = gpu_speed(survey, gpu, model, shape, numbers, placement)
    speed = speed or cpu_speed(survey, model, shape, numbers, placement)
    fit = _fit(survey.machine, model, placement)
    missing = max(0, model.needs.download_bytes - wish.present_bytes.get(model.id, 0))
    missing = 0 if model.is_bundled else missing
    disk = missing + 2 * numbers.mtp_bytes + _DISK_RESERVE_BYTES if missing else 0
    free = survey.data_drive.free_bytes if survey.data_drive is not None else None
    fits_on_disk = None if free is None else disk <= free
    is_bundled = model.is_bundled
    drive = survey.data_drive
    on_hard_disk = not is_bundled and drive is not None and drive.kind is DriveKind.HARD_DISK
    notes = [
        *(Note(code) for code in (*catalog.family_of(model).notes, *model.notes)),
        *_fit_notes(survey.machine, model, fit, placement),
        *placement.notes,
        *_disk_notes(survey, disk, fits_on_disk=fits_on_disk),
        *_risks(survey, model, context, speed, gpu),
        *(_faster_drive(survey, disk) if on_hard_disk else ()),
    ]
    if wish.context is not None and wish.context > context:
        notes.append(Note("context_capped", {"context": context, "wanted": wish.context}))
    if model.needs.is_experimental:
        notes.append(Note("experimental"))
    can_run = is_bundled or (survey.cpu.avx2 and survey.cpu.is_x86)
    mark = Mark.GREEN
    if fit is Verdict.DOES_NOT_FIT or not can_run:
        mark = Mark.RED
    elif fit is Verdict.TIGHT or fits_on_disk is False or speed.middle < _SLOW or on_hard_disk:
        mark = Mark.AMBER
    return Choice(
        model_id=model.id,
        title=catalog.title_of(model),
        fit=fit,
        mark=mark,
        context=context,
        effort=RunConfig().default_reasoning_effort if is_bundled else _effort(speed),
        speed=speed,
        missing_bytes=missing,
        disk_bytes=disk,
        fits_on_disk=fits_on_disk,
        notes=tuple(notes),
        placement=placement,
    )


def _with_context(
    machine: Machine, catalog: Catalog, model: CatalogModel, wish: Wish, gpu: Gpu | None
) -> tuple[int, HybridPlacement]:
    """The context to offer, and the placement with it."""
    numbers = numbers_of_catalog(catalog, model)
    budget = model.needs.has_ram_budget

    def placed(context: int) -> HybridPlacement:
        return place(numbers, machine, gpu, context, may_read_disk=budget)

    if wish.context is not None:
        context = min(wish.context, numbers.trained_context)
        return context, placed(context)
    wanted = recommended_context(gpu, has_ram_budget=budget)
    if wish.for_coding_agents:
        wanted = max(wanted, AGENT_CONTEXT)
    wanted = min(wanted, numbers.trained_context)
    first = placed(wanted)
    is_on_card = gpu is None or first.gpu_index is not None
    is_good = first.verdict is Verdict.FITS and is_on_card
    if is_good or wish.for_coding_agents or model.is_bundled:
        return wanted, first
    for shorter in _CONTEXT_WHEN_SHORT:
        placement = placed(shorter)
        if shorter < wanted and _is_better(placement, first):
            return shorter, placement
    return wanted, first


def _is_better(one: HybridPlacement, other: HybridPlacement) -> bool:
    order = (Verdict.FITS, Verdict.TIGHT, Verdict.DOES_NOT_FIT)
    has_card = one.gpu_index is not None and other.gpu_index is None
    return has_card or order.index(one.verdict) < order.index(other.verdict)


def recommended_context(gpu: Gpu | None, *, has_ram_budget: bool = False) -> int:
    """The context to begin with, by the card's memory; never `_NEVER_RECOMMENDED_CONTEXT`."""
    if gpu is None:
        return DEFAULT_CONTEXT
    vram = gpu.vram_total_bytes
    if has_ram_budget:
        return 8_192 if vram < _MIDDLE_CARD_BYTES else 32_768
    if vram < _MIDDLE_CARD_BYTES:
        return 32_768
    return 65_536 if vram < _LARGE_CARD_BYTES else 131_072


def _fit(machine: Machine, model: CatalogModel, placement: HybridPlacement) -> Verdict:
    """The worse of what the placement says and of the model's published floor."""
    if placement.verdict is Verdict.DOES_NOT_FIT:
        return Verdict.DOES_NOT_FIT
    total = machine.ram_total_bytes * (1 + RAM_TOLERANCE)
    floor = model.needs.ram_bytes
    if placement.gpu_index is not None and total < floor:
        return Verdict.TIGHT  # a large card takes experts over; the placement has counted that
    if total < floor - _TIGHT_BYTES:
        return Verdict.DOES_NOT_FIT
    return placement.verdict if total >= floor else Verdict.TIGHT


def _fit_notes(
    machine: Machine, model: CatalogModel, fit: Verdict, placement: HybridPlacement
) -> list[Note]:
    floor = model.needs.ram_bytes if model.needs.has_ram_budget else 0
    params: dict[str, ParameterValue] = {
        "needed_bytes": max(placement.ram_bytes, floor),
        "total_bytes": machine.ram_total_bytes,
        "free_bytes": machine.ram_available_bytes,
    }
    if fit is Verdict.DOES_NOT_FIT:
        return [Note("ram_short", params)]
    if fit is Verdict.TIGHT:
        return [Note("ram_tight", params)]
    if placement.ram_bytes > machine.ram_available_bytes:
        return [Note("ram_taken_now", params)]
    return []


def _disk_notes(survey: Survey, disk: int, *, fits_on_disk: bool | None) -> list[Note]:
    drive = survey.data_drive
    if drive is None or fits_on_disk is not False:
        return []
    params: dict[str, ParameterValue] = {
        "drive": str(drive.mount),
        "free_bytes": drive.free_bytes,
        "needed_bytes": disk,
        "missing_bytes": disk - drive.free_bytes,
    }
    notes = [Note("drive_short", params)]
    others = [other for other in survey.drives if other.free_bytes >= disk and not other.is_network]
    if others:
        roomy = max(others, key=lambda other: other.free_bytes)
        other: dict[str, ParameterValue] = {
            "drive": str(roomy.mount),
            "free_bytes": roomy.free_bytes,
        }
        notes.append(Note("other_drive_has_room", other))
    return notes


def _faster_drive(survey: Survey, disk: int) -> list[Note]:
    """A drive of this PC that is no hard disk and has room."""
    faster = [
        drive
        for drive in survey.drives
        if drive.kind is DriveKind.SOLID_STATE and not drive.is_network and drive.free_bytes >= disk
    ]
    if not faster:
        return []
    best = max(faster, key=lambda drive: drive.free_bytes)
    params: dict[str, ParameterValue] = {"drive": str(best.mount), "free_bytes": best.free_bytes}
    return [Note("faster_drive_has_room", params)]


def _risks(
    survey: Survey, model: CatalogModel, context: int, speed: SpeedRange, gpu: Gpu | None
) -> list[Note]:
    if model.is_bundled:
        return []
    notes: list[Note] = []
    drive = survey.data_drive
    if drive is not None and drive.kind is DriveKind.HARD_DISK:
        notes.append(Note("on_hard_disk", {"drive": str(drive.mount)}))
    if speed.middle < _SLOW:
        params: dict[str, ParameterValue] = {
            "low": round(speed.low, 2),
            "high": round(speed.high, 2),
        }
        notes.append(Note("slower_than_reading", params))
    if context == _NEVER_RECOMMENDED_CONTEXT:
        notes.append(Note("context_not_recommended", {"context": context}))
    if gpu is not None and context > max(recommended_context(gpu), AGENT_CONTEXT):
        notes.append(Note("context_longer_than_recommended", {"context": context}))
    return notes


def _effort(speed: SpeedRange) -> Effort:
    return next((effort for least, effort in _EFFORTS if speed.middle >= least), Effort.NONE)
