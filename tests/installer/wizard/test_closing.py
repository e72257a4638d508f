"""Closing while something goes on: nothing is lost, and no program is left running unseen."""

from __future__ import annotations

import random

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QMessageBox, QSystemTrayIcon

from engine.core.errors import ResourceError
from engine.core.language import Language
from installer.i18n.texts import Texts
from installer.wizard.app import _error_hook
from installer.wizard.pages.download import DownloadPage, State
from installer.wizard.window import WizardWindow
from tests.fake_hub.catalogs import catalog_for
from tests.fake_hub.content import BytesContent
from tests.installer.wizard.conftest import PATIENCE_MS
from tests.installer.wizard.walk import press, to_download, wait_for

DATA = random.Random(4).randbytes(400_000)  # noqa: S311  # test data
TEXTS = Texts(Language.ENGLISH)


@pytest.fixture
def running(qtbot, open_wizard, hub) -> WizardWindow:
    """A wizard in the middle of a download."""
    hub.bytes_per_s = 40_000.0  # more seconds than a busy machine needs
    window = open_wizard(catalog_for(hub, {"m": {"model.gguf": BytesContent(DATA)}}))
    page = to_download(qtbot, window, "m", hub.endpoint)
    press(qtbot, page.start)
    qtbot.waitUntil(lambda: hub.sent_bytes > 20_000, timeout=PATIENCE_MS)
    return window


def page_of(window: WizardWindow) -> DownloadPage:
    page = window.page
    assert isinstance(page, DownloadPage)
    return page


def box_of(window: WizardWindow) -> QMessageBox:
    box = window.findChild(QMessageBox)
    assert box is not None
    return box


def test_without_a_tray_the_person_is_asked_and_goes_on_by_default(qtbot, running, hub):
    running.close()
    assert running.isVisible()
    box = box_of(running)
    default = box.defaultButton()
    assert default is not None
    assert default.text() == TEXTS.say("close.no")
    qtbot.mouseClick(default, Qt.MouseButton.LeftButton)
    hub.bytes_per_s = None
    wait_for(qtbot, page_of(running), State.DONE)


def test_stop_and_close_keeps_what_was_fetched(qtbot, running, home):
    running.close()
    yes = next(b for b in box_of(running).buttons() if b.text() == TEXTS.say("close.yes"))
    qtbot.mouseClick(yes, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: not running.isVisible(), timeout=PATIENCE_MS)
    assert list((home / "data" / "models" / "m").glob("*.part"))


def test_with_a_tray_the_download_goes_on_and_the_window_comes_back_at_its_end(
    qtbot, running, hub, monkeypatch
):
    monkeypatch.setattr(QSystemTrayIcon, "isSystemTrayAvailable", lambda: True)
    running.close()
    assert not running.isVisible()
    assert page_of(running).state is State.RUNNING
    hub.bytes_per_s = None
    qtbot.waitUntil(running.isVisible, timeout=PATIENCE_MS)
    assert page_of(running).state is State.DONE


def test_the_tray_can_pause_and_bring_the_window_back(qtbot, running, monkeypatch):
    monkeypatch.setattr(QSystemTrayIcon, "isSystemTrayAvailable", lambda: True)
    running.close()
    tray = running._tray
    assert tray is not None
    tray.pause.emit()
    assert page_of(running).is_paused
    tray.show_window.emit()
    assert running.isVisible()
    page_of(running).pause_or_resume()
    assert page_of(running).state is State.RUNNING


def test_an_error_that_nobody_caught_is_shown_as_its_sentence(qtbot, open_wizard):
    window = open_wizard()
    error = ResourceError("The folder cannot be written.")
    _error_hook(window)(type(error), error, None)
    assert box_of(window).text() == "The folder cannot be written."


def test_a_fault_of_ours_is_shown_without_a_traceback(qtbot, open_wizard, caplog):
    window = open_wizard()
    error = ZeroDivisionError("never")
    _error_hook(window)(type(error), error, None)
    assert "ZeroDivisionError: never" in box_of(window).text()
    assert "the wizard failed" in caplog.text
