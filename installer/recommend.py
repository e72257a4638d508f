"""Which model, context and thinking level suit this PC, why, and how sure that is.

    recommendation = recommend(survey(data_dir), load_catalog(), Wish(for_coding_agents=True))
    recommendation.verdict            # the one verdict: window, terminal and exit status show it
    recommendation.choice.model_id

Pure: everything comes from the survey and the catalogue. Every model of the catalogue stays a choice,
with what it risks; the bundled one works everywhere. Sentences are codes with values (`Note`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

from engine.core.cards_together import NAMES_JOINED_BY, cards_together
from engine.core.catalog import Catalog, CatalogModel
from engine.core.drives import Drive
from engine.core.errors import ParameterValue
from engine.core.gpu import Gpu
from engine.core.model_numbers import numbers_of_catalog
from engine.core.network_reach import any_reached
from engine.core.note import Note
from engine.core.placement import DEFAULT_CONTEXT, Verdict
from engine.core.placement_hybrid import (
    best_gpu,
    gpu_problems,
)
from engine.core.survey import Survey
from installer.model_choice import AGENT_CONTEXT, Choice, Mark, Wish, make_choice
from installer.speed import DEFAULT_BANDWIDTH

__all__ = ["Choice", "Mark", "Recommendation", "Wish", "recommend"]

# What is recommended, the best first; a model that is only tight comes after those that fit.
RECOMMENDED = ("qwen-iq3_xxs", "qwen-iq2_xs", "coder-iq1_m")


@dataclass(frozen=True, slots=True)
class Recommendation:
    """The answer.

    Attributes:
        verdict: the one verdict.
        choice: the recommended model, or the one that was wished for.
        choices: all models, in the catalogue's order.
        reasons: why this choice and this verdict.
        gpu_index: the card that can be used; None without one.
        uses_gpu: whether the choice uses it.
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


def recommend(survey: Survey, catalog: Catalog, wish: Wish | None = None) -> Recommendation:
    """What to install on this PC.

    Args:
        survey: of the PC.
        catalog: what there is.
        wish: what the person wants.
    """
    wish = wish or Wish()
    recommendation = _recommend(survey, catalog, wish)
    if not wish.for_coding_agents or recommendation.verdict is not Mark.RED:
        return recommendation
    # Rather a model with less context than agents want than none.
    shorter = dataclasses.replace(wish, for_coding_agents=False)
    other = _recommend(survey, catalog, shorter)
    if other.verdict is Mark.RED:
        return recommendation
    return dataclasses.replace(other, reasons=(*other.reasons, _short_context(other.choice)))


def _recommend(survey: Survey, catalog: Catalog, wish: Wish) -> Recommendation:
    card = usable_card(survey, catalog)
    cards = {model.id: _cards_for(survey, catalog, model) for model in catalog.models}
    choices = tuple(
        make_choice(survey, catalog, model, wish, cards[model.id]) for model in catalog.models
    )
    by_id = {choice.model_id: choice for choice in choices}
    chosen = by_id.get(wish.model_id or "")
    best, reasons = _best(survey, catalog, by_id)
    choice = chosen or best
    if chosen is not None and chosen is not best:
        reasons = [Note("chosen_by_you", {"model": chosen.title, "recommended": best.title})]
    uses_gpu = choice.placement.gpu_index is not None
    reasons += _card_reasons(survey, catalog, cards[choice.model_id], uses_gpu=uses_gpu)
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
    """The best card that the engine can use, as far as nothing is known against it."""
    return best_gpu(_untroubled(survey), survey.gpus.driver_major, _min_driver(survey, catalog))


def _untroubled(survey: Survey) -> list[Gpu]:
    return [card for card in survey.gpus.cards if card.index not in survey.card_troubles]


def _cards_for(survey: Survey, catalog: Catalog, model: CatalogModel) -> Gpu | None:
    """The cards that the engine would use for a model, as one."""
    driver, needed = survey.gpus.driver_major, _min_driver(survey, catalog)
    cards = [card for card in _untroubled(survey) if not gpu_problems(card, driver, needed)]
    return cards_together(
        numbers_of_catalog(catalog, model),
        cards,
        context=DEFAULT_CONTEXT,
        host_bytes_per_s=survey.memory_bytes_per_s or DEFAULT_BANDWIDTH,
    )


def card_problems(survey: Survey, catalog: Catalog, card: Gpu) -> list[Note]:
    """Why a card cannot be used; empty when nothing is known against it."""
    problems = gpu_problems(card, survey.gpus.driver_major, _min_driver(survey, catalog))
    trouble = survey.card_troubles.get(card.index)
    # Packages of CUDA say nothing new of a card that is too old for them.
    return problems or ([] if trouble is None else [trouble])


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
    survey: Survey, catalog: Catalog, card: Gpu | None, *, uses_gpu: bool
) -> list[Note]:
    if card is None:
        problems = (card_problems(survey, catalog, each) for each in survey.gpus.cards)
        return [note for notes in problems for note in notes]
    if not uses_gpu:
        return []  # the choice's own notes say why
    if NAMES_JOINED_BY in card.name:
        return [Note("gpus_used", {"cards": card.name})]
    notes = [Note("gpu_used", {"card": card.name})]
    if len(survey.gpus.cards) > 1:
        notes.append(Note("one_card_of_several", {"card": card.name}))
    return notes


def _short_context(choice: Choice) -> Note:
    params: dict[str, ParameterValue] = {"context": choice.context, "wanted": AGENT_CONTEXT}
    return Note("context_short_for_agents", params)


def _choice_reasons(choice: Choice, wish: Wish) -> list[Note]:
    speed: dict[str, ParameterValue] = {
        "low": round(choice.speed.low, 2),
        "high": round(choice.speed.high, 2),
    }
    notes = [
        Note("expected_speed", speed),
        Note("effort_by_speed", {"effort": choice.effort.value}),
    ]
    if wish.for_coding_agents and choice.context >= AGENT_CONTEXT:
        notes.append(Note("context_for_agents", {"context": choice.context}))
    elif wish.for_coding_agents:
        notes.append(_short_context(choice))
    return notes
