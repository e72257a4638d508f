"""The settings as a whole: pages, another language, what waits for a restart; and the first page."""

import json

import pytest
from PySide6.QtCore import QEvent, QPoint, Qt
from PySide6.QtWidgets import QApplication, QCheckBox

from app import autostart
from app.app_settings import Theme
from app.look.look import em
from app.settings.general_page import GeneralPage
from app.settings.settings_view import PageName, SettingsView
from app.supervisor.state import EngineState, Phase
from engine.core.errors import ResourceError
from engine.core.language import Language


@pytest.fixture
def view(qtbot, context):
    view = SettingsView(context)
    qtbot.addWidget(view)
    view.resize(900, 700)
    view.show()
    yield view
    view.hide()


def test_the_first_page_holds_what_people_look_for_first(view):
    assert isinstance(view.page, GeneralPage)
    assert view.page.login.text() == "Start Stratum when I log in"
    assert view.page.switches["closes_to_tray"].isVisible()


def test_every_page_opens_is_named_and_can_be_reached_by_the_keyboard(view):
    for name in PageName:
        page = view.open_page(name)
        assert view.stack.currentWidget() is page
        assert view.list.currentItem().text()
    assert view.list.focusPolicy() & Qt.FocusPolicy.TabFocus
    assert view.list.count() == len(PageName)


def test_in_little_room_the_pages_have_icons_alone_and_no_text_of_a_page_is_cut_off(view, qtbot):
    unit = em(view)
    page = view.open_page(PageName.GENERAL)
    view.resize(33 * unit, 30 * unit)  # what a screen of 1600 points has at 250 %
    assert view.list.width() < 4 * unit
    item = view.list.item(0)
    assert item.text() == ""
    assert item.toolTip() == item.data(Qt.ItemDataRole.AccessibleTextRole) == "General"
    qtbot.waitUntil(lambda: page.width() > 25 * unit)
    for box in page.findChildren(QCheckBox):
        right = box.mapTo(page, QPoint(box.sizeHint().width(), 0)).x()
        assert right <= page.width(), box.text()
    view.resize(60 * unit, 30 * unit)
    assert view.list.item(0).text() == "General"


def test_a_saved_setting_waits_for_a_restart_that_one_button_makes(
    view, supervisor, config_path, qtbot
):
    supervisor.show(EngineState(phase=Phase.STARTING))
    supervisor.show(EngineState(phase=Phase.READY, base_url="http://127.0.0.1:1"))
    assert view.restart_bar.isHidden()
    view.hub.change({"threads": 2, "sampling.top_k": 5})
    assert not view.restart_bar.isHidden()
    assert "Threads" in view.restart_text.text()
    view.restart_button.click()
    assert supervisor.commands == ["restart"]
    supervisor.show(EngineState(phase=Phase.STARTING))
    supervisor.show(EngineState(phase=Phase.READY, base_url="http://127.0.0.1:1"))
    assert view.restart_bar.isHidden()


def test_a_setting_that_is_put_back_waits_no_more(view, supervisor):
    supervisor.show(EngineState(phase=Phase.READY, base_url="http://127.0.0.1:1"))
    view.hub.change({"threads": 2})
    assert view.hub.pending.keys == ("threads",)
    view.hub.undo()
    assert view.hub.pending.keys == ()


def test_another_language_builds_the_pages_anew(view):
    before = view.open_page(PageName.NETWORK)
    QApplication.sendEvent(view, QEvent(QEvent.Type.LanguageChange))
    assert view.page is not before
    assert view.list.currentRow() == list(PageName).index(PageName.NETWORK)


def test_the_switches_are_kept_and_do_not_hang_together(view, context, home):
    page = view.page
    page.switches["closes_to_tray"].click()
    page.switches["notifies_ready"].click()
    assert context.app_settings.value.closes_to_tray
    assert not context.app_settings.value.notifies_ready
    assert context.app_settings.value.notifies_error
    assert not page.login.isChecked()
    assert json.loads((home / "app.json").read_text("utf-8"))["closes_to_tray"] is True
    page.switches["shows_tray"].click()
    assert not page.switches["closes_to_tray"].isEnabled()


def test_language_and_colours_are_chosen_here(view, context):
    page = view.page
    page.language.setCurrentIndex(page.language.findData(Language.CHINESE))
    page.language.activated.emit(page.language.currentIndex())
    page.theme.setCurrentIndex(page.theme.findData(Theme.DARK))
    page.theme.activated.emit(page.theme.currentIndex())
    assert context.app_settings.value.language is Language.CHINESE
    assert context.app_settings.value.theme is Theme.DARK


def test_the_start_at_login_is_asked_of_the_system_and_a_refusal_is_said(view, monkeypatch):
    state = {"is_on": False}
    monkeypatch.setattr(autostart, "can_be_changed", lambda: True)
    monkeypatch.setattr(autostart, "is_on", lambda: state["is_on"])

    def set_on(_settings, *, is_on):
        if state.get("refuses"):
            raise ResourceError("The system refuses.")
        state["is_on"] = is_on

    monkeypatch.setattr(autostart, "set_on", set_on)
    page = view.page
    page.enter()
    page.login.click()
    assert state["is_on"]
    state["refuses"] = True
    page.login.click()
    assert page.login.isChecked()
    assert page.notice.text == "The system refuses."


def test_without_a_model_the_pages_say_so(qtbot, context, supervisor):
    supervisor.config_path = None
    view = SettingsView(context)
    qtbot.addWidget(view)
    view.show()
    for name in PageName:
        view.open_page(name)
    page = view.open_page(PageName.RUN)
    assert "No model is installed yet" in page.subtitle.text()
    assert not page.rows["port"].isEnabled()
    assert not view.open_page(PageName.NETWORK).open.isEnabled()
