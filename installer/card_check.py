"""The check of the graphics card after an installation, and what follows when it fails.

    report = CardCheckRun().run(on_progress)      # blocks; stop() from any thread
    results = card_results(report)
    aftermath(seen_without(survey, results), catalog, model, context)

The engine checks a card before it first uses it anyway (`engine card-check`); here the person sees it, and
learns in time when a model was chosen that needs the card.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from engine.core.catalog import Catalog, CatalogModel
from engine.core.errors import ParameterValue
from engine.core.note import Note
from engine.core.placement import Verdict
from engine.core.survey import Survey
from installer.engine_run import EngineRun
from installer.errors import InstallError, StoppedError
from installer.model_choice import Choice, Wish, make_choice
from installer.recommend import recommend

_ORDER = (Verdict.FITS, Verdict.TIGHT, Verdict.DOES_NOT_FIT)


class CardCheckError(InstallError):
    """The check could not be made; the engine will make it at its start."""

    code = "card_check_failed"


class CardCheckRun(EngineRun):
    """One run of `engine card-check`; cards that were checked before answer at once."""

    def __init__(self, command: tuple[str, ...] | None = None) -> None:
        """Prepare it.

        Args:
            command: how the engine's command line is started; None: this Python.
        """
        super().__init__(("card-check", "--json"), command)

    def stopped(self) -> StoppedError:
        """It is made at the first start instead."""
        return StoppedError("The check was stopped. Stratum makes it when it starts.")

    def failed(self, reason: str) -> InstallError:
        """It is made at the first start instead."""
        return CardCheckError(
            f"The graphics card could not be checked ({reason}). Stratum tries again when it starts.",
            params={"reason": reason},
        )


@dataclass(frozen=True, slots=True)
class CardResult:
    """What the check of one card came to.

    Attributes:
        index: the card's number.
        is_passed: it is used.
        note: the same for a person.
    """

    index: int
    is_passed: bool
    note: Note


def card_results(report: Mapping[str, object]) -> tuple[CardResult, ...]:
    """The results in the report of `engine card-check`; what is none is left out."""
    cards = report.get("cards")
    found = []
    for entry in cards if isinstance(cards, list) else []:
        if not isinstance(entry, dict):
            continue
        index, note = entry.get("index"), entry.get("note")
        if isinstance(index, int) and isinstance(note, dict):
            found.append(CardResult(index, entry.get("passed") is True, _note(note)))
    return tuple(found)


def seen_without(seen: Survey, results: Sequence[CardResult]) -> Survey:
    """The survey with what is known now against cards."""
    failed = {result.index: result.note for result in results if not result.is_passed}
    return dataclasses.replace(seen, card_troubles={**seen.card_troubles, **failed})


@dataclass(frozen=True, slots=True)
class Aftermath:
    """What a failed check means for the model that was installed.

    Attributes:
        notes: for the person; empty when it runs well without the card.
        context: the shorter context that suits the processor; None where the chosen one stays.
    """

    notes: tuple[Note, ...] = ()
    context: int | None = None


def aftermath(
    seen: Survey, catalog: Catalog, model: CatalogModel, context: int | None
) -> Aftermath:
    """What becomes of a model that was chosen before its card failed.

    Args:
        seen: the PC with what is known against its cards.
        catalog: what there is.
        model: that was installed.
        context: that was chosen; None: the usual one.
    """
    if model.is_bundled:
        return Aftermath()
    found = recommend(seen, catalog, Wish(model_id=model.id, context=context))
    if found.gpu_index is not None:  # another card is used
        return Aftermath()
    now = found.choice
    if now.fit is Verdict.FITS:
        return Aftermath()
    shorter = make_choice(seen, catalog, model, Wish(model_id=model.id), None)
    notes: list[Note] = []
    if shorter.context < now.context and _ORDER.index(shorter.fit) < _ORDER.index(now.fit):
        params = {"context": shorter.context, "before": now.context}
        notes.append(Note("context_without_card", params))
        chosen, new_context = shorter, shorter.context
    else:
        chosen, new_context = now, None
    if chosen.fit is not Verdict.FITS:
        notes.append(_misfit(seen, catalog, chosen))
    return Aftermath(tuple(notes), new_context)


def _misfit(seen: Survey, catalog: Catalog, choice: Choice) -> Note:
    """That a model does not fit, or just so, and which one does."""
    best = recommend(seen, catalog, Wish()).choice
    if best.model_id == choice.model_id:
        return next(note for note in choice.notes if note.code in {"ram_tight", "ram_short"})
    params: dict[str, ParameterValue] = {
        "model": choice.title,
        "needed_bytes": choice.placement.ram_bytes,
        "total_bytes": seen.machine.ram_total_bytes,
        "recommended": best.title,
    }
    is_short = choice.fit is Verdict.DOES_NOT_FIT
    return Note("model_needs_card" if is_short else "model_tight_without_card", params)


def _note(plain: Mapping[str, object]) -> Note:
    params = plain.get("params")
    known = {
        str(key): value
        for key, value in (params.items() if isinstance(params, dict) else ())
        if value is None or isinstance(value, str | int | float | bool)
    }
    return Note(str(plain.get("code", "")), known)
