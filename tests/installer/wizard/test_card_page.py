"""The tuning page checks the graphics card first, and says what it came to."""

from __future__ import annotations

import pytest

from installer.card_check import CardCheckRun
from installer.wizard.pages.tune import TunePage
from tests.installer.wizard.conftest import PATIENCE_MS, ScriptedCheck
from tests.installer.wizard.walk import press_next, to_download
from tests.support.pc_profiles import card, pc

PASSED = {
    "index": 0,
    "passed": True,
    "note": {"code": "card_passed", "params": {"card": "RTX 4090", "checks": 61, "seconds": 9.5}},
}
HANGS = {
    "index": 0,
    "passed": False,
    "note": {"code": "card_hangs", "params": {"card": "RTX 4090", "seconds": 120}},
}


def to_card_check(qtbot, open_wizard, check):
    """The tuning page of a PC with a card, once the check has ended."""
    seen = pc(62.7, cards=[card("RTX 4090", 24)])
    window = open_wizard(survey=lambda _folder: seen, make_card_check=lambda: check)
    to_download(qtbot, window, "tiny", "")
    qtbot.waitUntil(window.next_button.isEnabled, timeout=PATIENCE_MS)
    press_next(qtbot, window)
    page = window.page
    assert isinstance(page, TunePage)
    qtbot.waitUntil(lambda: not page.is_busy(), timeout=PATIENCE_MS)
    return window, page


def test_the_card_is_checked_after_the_installation_and_said_to_be_used(qtbot, open_wizard):
    window, page = to_card_check(qtbot, open_wizard, ScriptedCheck(PASSED))
    assert page.card.isVisible()
    assert page.card.text() == "RTX 4090 computes rightly (61 checks in 9.5 s) and is used."
    assert page.session.survey.card_troubles == {}
    assert window.next_button.isEnabled()


def test_a_card_that_fails_is_said_and_counts_no_more(qtbot, open_wizard):
    _window, page = to_card_check(qtbot, open_wizard, ScriptedCheck(HANGS))
    assert "RTX 4090 is not used: its check got no answer for 120 seconds." in page.card.text()
    assert set(page.session.survey.card_troubles) == {0}
    assert not page.session.recommendation.uses_gpu


def test_a_check_that_cannot_be_made_stops_nobody(qtbot, open_wizard):
    class Broken(ScriptedCheck):
        def run(self, progress):
            raise CardCheckRun().failed("no luck")

    window, page = to_card_check(qtbot, open_wizard, Broken())
    assert "could not be checked (no luck)" in page.card.text()
    assert window.next_button.isEnabled()


def test_without_a_card_nothing_is_checked(qtbot, open_wizard):
    class Never(ScriptedCheck):
        def run(self, progress):
            pytest.fail("there is nothing to check")

    window = open_wizard(make_card_check=Never)
    to_download(qtbot, window, "tiny", "")
    qtbot.waitUntil(window.next_button.isEnabled, timeout=PATIENCE_MS)
    press_next(qtbot, window)
    assert isinstance(window.page, TunePage)
    assert not window.page.is_busy()
    assert not window.page.card.isVisible()
