"""The page of the app's own switches: each takes effect at once, none pulls another along."""

from __future__ import annotations

import sys

import pytest
from PySide6.QtCore import QCoreApplication

from app import app_switches, autostart
from app.app_settings import AppSettingsStore, Theme, app_settings_path
from app.app_switches import AppSwitches
from app.i18n.translate import Translations
from engine.core.errors import ResourceError
from engine.core.language import Language


@pytest.fixture
def page(qtbot, context, monkeypatch, tmp_path) -> AppSwitches:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr(autostart, "is_portable", lambda: False)
    made = AppSwitches(context)
    qtbot.addWidget(made)
    made.show()
    return made


@pytest.mark.skipif(sys.platform == "win32", reason="the tests keep out of Windows' own settings")
def test_start_at_login_and_close_to_tray_are_off_and_independent(page):
    assert not page.at_login.isChecked()
    assert not page.box("closes_to_tray").isChecked()
    page.at_login.click()
    assert autostart.is_on()
    assert not page.box("closes_to_tray").isChecked()
    page.at_login.click()
    page.box("closes_to_tray").click()
    assert not autostart.is_on()
    assert AppSettingsStore(app_settings_path()).value.closes_to_tray


@pytest.mark.parametrize(
    "name", ["starts_model", "shows_tray", "notifies_ready", "notifies_answer", "notifies_error"]
)
def test_each_switch_is_kept(page, name):
    assert page.box(name).isChecked()
    page.box(name).click()
    assert getattr(AppSettingsStore(app_settings_path()).value, name) is False


def test_without_a_sign_nothing_can_be_left_beside_the_clock(page):
    page.box("shows_tray").click()
    assert not page.box("closes_to_tray").isEnabled()
    assert page.note("closes_to_tray") == "Without the sign, closing the window quits."
    page.box("shows_tray").click()
    assert page.box("closes_to_tray").isEnabled()
    assert page.note("closes_to_tray") == ""


def test_a_system_that_refuses_is_said_under_the_switch(page, monkeypatch):
    def refuse(*_arguments: object, **_more: object) -> None:
        raise ResourceError("Starting at login could not be changed (read-only).")

    monkeypatch.setattr(app_switches.autostart, "set_login_start", refuse)
    page.at_login.click()
    assert not page.at_login.isChecked()
    assert "read-only" in page.note("at_login")


def test_a_portable_copy_says_why_there_is_no_start_at_login(qtbot, context):
    page = AppSwitches(context)
    qtbot.addWidget(page)
    page.show()
    assert not page.at_login.isEnabled()
    assert "own folder" in page.note("at_login")


def test_language_and_colours_are_chosen_by_name(page, context):
    page.language.activated.emit(page.language.findText("简体中文"))
    page.theme.activated.emit(page.theme.findText("Dark"))
    assert context.app_settings.value.language is Language.CHINESE
    assert context.app_settings.value.theme is Theme.DARK


def test_the_page_speaks_another_language_at_once_and_keeps_its_state(page, qtbot):
    page.box("closes_to_tray").click()
    translations = Translations()
    try:
        translations.speak(Language.CHINESE)
        qtbot.waitUntil(
            lambda: (
                page.box("notifies_error").text()
                == QCoreApplication.translate("AppSwitches", "When something fails")
                != "When something fails"
            )
        )
        assert page.box("closes_to_tray").isChecked()
        assert page.theme.currentIndex() == 0
    finally:
        translations.speak(Language.ENGLISH)
