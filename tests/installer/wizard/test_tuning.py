"""The wizard's page that measures the settings that are fastest on this PC."""

from __future__ import annotations

from installer.steps import Step, Tuning
from installer.tune import TuneProgress
from installer.wizard.pages.tune import TunePage
from tests.installer.wizard.conftest import PATIENCE_MS
from tests.installer.wizard.walk import (
    press,
    press_next,
    step_of,
    to_download,
)


class ScriptedTuning:
    """A measurement that reports and ends as it is told."""

    def __init__(self, report: dict[str, object]) -> None:
        self.report = report
        self.is_stopped = False

    def run(self, progress):
        progress(TuneProgress(done=1, total=2, name="threads", line="threads 4: 9 tokens/s"))
        return self.report

    def stop(self) -> None:
        self.is_stopped = True


def test_tuning_shows_what_was_kept(qtbot, open_wizard):
    report = {
        "settings": {"threads": 6},
        "findings": [{"key": "threads", "value": 6, "default": 8, "gain": 0.052, "is_kept": True}],
    }
    window = open_wizard(can_tune=lambda: True, make_tuning=lambda _config: ScriptedTuning(report))
    to_download(qtbot, window, "tiny", "")
    qtbot.waitUntil(window.next_button.isEnabled, timeout=PATIENCE_MS)
    press_next(qtbot, window)
    page = window.page
    assert isinstance(page, TunePage)
    assert not window.next_button.isEnabled()
    press(qtbot, page.start)
    qtbot.waitUntil(window.next_button.isEnabled, timeout=PATIENCE_MS)
    assert "processor threads" in page.status.text()
    assert "5.2 %" in page.details.text.toPlainText()
    assert window.page.session.installation.tuning is Tuning.DONE


def test_tuning_can_be_skipped(qtbot, open_wizard):
    window = open_wizard(can_tune=lambda: True)
    to_download(qtbot, window, "tiny", "")
    qtbot.waitUntil(window.next_button.isEnabled, timeout=PATIENCE_MS)
    press_next(qtbot, window)
    page = window.page
    assert isinstance(page, TunePage)
    press(qtbot, page.skip)
    assert step_of(window) is Step.DONE
