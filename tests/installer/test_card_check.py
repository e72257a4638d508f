"""The check of the card after an installation, and what becomes of a model that was chosen for it."""

from __future__ import annotations

import dataclasses
import sys

import pytest

from engine.core.catalog import Catalog
from engine.core.catalog_file import find_model, load_catalog
from engine.core.emulated_cards import EMULATED_VARIABLE
from engine.core.language import Language
from engine.core.note import Note
from engine.core.survey import Survey
from installer.card_check import (
    Aftermath,
    CardCheckError,
    CardCheckRun,
    CardResult,
    aftermath,
    card_results,
    seen_without,
)
from installer.engine_run import RunProgress
from installer.i18n.texts import Texts
from installer.recommend import Wish, recommend
from tests.support.pc_profiles import card, pc

LARGE_CARD = card("RTX 4090", 24, per_s=1008e9)
SECOND_CARD = card("RTX 3090", 24, (8, 6), index=1, per_s=936e9)
HANGS = Note("card_hangs", {"card": "RTX 4090", "seconds": 120})
FAILED = (CardResult(0, is_passed=False, note=HANGS),)


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return load_catalog()


def after(seen: Survey, catalog: Catalog, model_id: str | None = None) -> Aftermath:
    """The aftermath of a failed check for what was recommended, or wished for, with the card."""
    before = recommend(seen, catalog, Wish(model_id=model_id)).choice
    assert before.placement.gpu_index is not None
    model = find_model(catalog, before.model_id)
    return aftermath(seen_without(seen, FAILED), catalog, model, before.context)


def test_the_engine_s_report_is_understood(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("STRATUM_HOME", str(tmp_path))
    monkeypatch.setenv(EMULATED_VARIABLE, "1500")
    steps: list[RunProgress] = []
    (result,) = card_results(CardCheckRun().run(steps.append))
    assert (result.index, result.is_passed, result.note.code) == (0, True, "card_passed")
    assert steps[-1].done == steps[-1].total == 100
    again: list[RunProgress] = []
    assert card_results(CardCheckRun().run(again.append)) == (result,)
    assert again == [], "what is known is not checked again"


@pytest.mark.parametrize("code", ["import sys; sys.exit('no luck')", "print('no report')"])
def test_a_check_that_cannot_be_made_is_said_and_made_later(code: str) -> None:
    with pytest.raises(CardCheckError, match="tries again when it starts"):
        CardCheckRun((sys.executable, "-c", code)).run(lambda _progress: None)


@pytest.mark.parametrize(
    "report", [{}, {"cards": 3}, {"cards": [3, {}, {"index": "0"}, {"index": 0, "note": 1}]}]
)
def test_a_report_of_another_kind_has_no_results(report: dict[str, object]) -> None:
    assert card_results(report) == ()


def test_a_model_that_needs_no_card_stays_as_it_is(catalog: Catalog) -> None:
    assert after(pc(125.6, cards=[LARGE_CARD]), catalog, "qwen-iq2_xs") == Aftermath()


def test_a_context_for_the_card_s_memory_becomes_the_processor_s(catalog: Catalog) -> None:
    found = after(pc(31.1, cards=[LARGE_CARD]), catalog)
    assert found.context == 32_768
    first, second = found.notes
    assert first == Note("context_without_card", {"context": 32_768, "before": 131_072})
    assert second.code == "ram_tight"
    assert "32" in Texts(Language.ENGLISH).note(first)


def test_a_model_that_only_the_card_made_fit_is_told_with_one_that_fits(catalog: Catalog) -> None:
    seen = pc(46.9, cards=[LARGE_CARD])
    found = after(seen, catalog, "qwen-iq3_xxs")
    (note,) = found.notes
    assert note.code == "model_needs_card"
    smaller = recommend(seen_without(seen, FAILED), catalog).choice
    assert smaller.model_id == "qwen-iq2_xs"
    assert note.params["recommended"] == smaller.title
    for language in Language:
        sentence = Texts(language).note(note)
        assert smaller.title in sentence
        assert "{" not in sentence


def test_another_card_that_passed_keeps_everything_as_it_is(catalog: Catalog) -> None:
    seen = pc(46.9, cards=[LARGE_CARD, SECOND_CARD])
    model = find_model(catalog, "qwen-q2_0")
    passed = CardResult(1, is_passed=True, note=Note("card_passed"))
    left = seen_without(seen, (*FAILED, passed))
    assert left.card_troubles == {0: HANGS}
    assert aftermath(left, catalog, model, 32_768) == Aftermath()


def test_the_bundled_model_needs_no_card(catalog: Catalog) -> None:
    seen = dataclasses.replace(pc(15.4, cards=[LARGE_CARD]), card_troubles={0: HANGS})
    assert aftermath(seen, catalog, catalog.bundled, None) == Aftermath()
