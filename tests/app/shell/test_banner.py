"""The strip that says why the model does not run leads to where that can be put right."""

import pytest
from PySide6.QtWidgets import QPushButton

from app.banner import Banner
from app.supervisor.state import EngineState, Phase, Reason, ReasonCode
from app.views import View


@pytest.fixture
def banner(qtbot, context):
    made = Banner(context)
    qtbot.addWidget(made)
    return made


def buttons(banner):
    return {button.text(): button for button in banner.findChildren(QPushButton)}


def test_a_broken_setting_is_one_click_from_the_settings(banner, context, supervisor, qtbot):
    reason = Reason(ReasonCode.CONFIG_BROKEN, detail="the setting context is “many”")
    supervisor.show(EngineState(Phase.FAILED, reason=reason))
    assert "the setting context" in banner.label.text()
    with qtbot.waitSignal(context.requests.open_view) as asked:
        buttons(banner)["Open settings"].click()
    assert asked.args == [View.SETTINGS]


def test_a_crash_shows_no_line_of_a_log_in_which_all_was_well(banner, supervisor):
    supervisor.show(EngineState(Phase.STARTING, reason=Reason(ReasonCode.KILLED)))
    assert banner.label.text().startswith("The system or another program ended the engine")
    assert "\n" not in banner.label.text()
    assert list(buttons(banner)) == ["Close"]
