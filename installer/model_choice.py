"""One model of the catalogue on this PC: whether it fits, how fast it is, what it risks."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from engine.core.catalog import Catalog, CatalogModel
from engine.core.config import Effort, RunConfig
from engine.core.drive_speed import DriveKind
from engine.core.errors import ParameterValue
from engine.core.gpu import Gpu
from engine.core.machine import Machine
from engine.core.model_numbers import numbers_of_catalog
from engine.core.note import Note
from engine.core.placement import DEFAULT_CONTEXT, RAM_TOLERANCE, Verdict
from engine.core.placement_hybrid import HybridPlacement, place
from engine.core.survey import Survey
from installer.speed import SpeedRange, cpu_speed, gpu_speed

AGENT_CONTEXT = 65_536

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


def make_choice(
    survey: Survey, catalog: Catalog, model: CatalogModel, wish: Wish, gpu: Gpu | None
) -> Choice:
    """What a model is on this PC.

    Args:
        survey: of the PC.
        catalog: what there is.
        model: of the catalogue.
        wish: what the person wants.
        gpu: the card to compute on; None: the processor alone.
    """
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
