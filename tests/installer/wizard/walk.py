"""How a person goes through the wizard, for the tests of this folder."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QAbstractButton
from pytestqt.qtbot import QtBot

from installer.steps import Step
from installer.wizard.pages.download import DownloadPage, State
from installer.wizard.pages.licence import LicencePage
from installer.wizard.pages.model import ModelPage
from installer.wizard.pages.options import OptionsPage
from installer.wizard.pages.pc import PcPage
from installer.wizard.window import WizardWindow
from tests.installer.wizard.conftest import PATIENCE_MS


def step_of(window: WizardWindow) -> Step:
    return window.page.step


def press_next(qtbot: QtBot, window: WizardWindow) -> None:
    assert window.next_button.isEnabled()
    qtbot.mouseClick(window.next_button, Qt.MouseButton.LeftButton)


def press(qtbot: QtBot, button: QAbstractButton) -> None:
    assert button.isVisible()
    assert button.isEnabled()
    qtbot.mouseClick(button, Qt.MouseButton.LeftButton)


def to_pc(qtbot: QtBot, window: WizardWindow) -> PcPage:
    press_next(qtbot, window)
    page = window.page
    assert isinstance(page, PcPage)
    qtbot.waitUntil(lambda: not page.is_looking, timeout=PATIENCE_MS)
    return page


def to_model(qtbot: QtBot, window: WizardWindow) -> ModelPage:
    to_pc(qtbot, window)
    press_next(qtbot, window)
    page = window.page
    assert isinstance(page, ModelPage)
    return page


def to_options(qtbot: QtBot, window: WizardWindow, model_id: str) -> OptionsPage:
    page = to_model(qtbot, window)
    page.buttons[model_id].setChecked(True)
    press_next(qtbot, window)
    options = window.page
    assert isinstance(options, OptionsPage)
    return options


def to_download(qtbot: QtBot, window: WizardWindow, model_id: str, mirror: str) -> DownloadPage:
    options = to_options(qtbot, window, model_id)
    options.mirror.setText(mirror)
    press_next(qtbot, window)
    if isinstance(window.page, LicencePage):
        window.page.accept.setChecked(True)
        press_next(qtbot, window)
    page = window.page
    assert isinstance(page, DownloadPage)
    qtbot.waitUntil(lambda: page.state is not State.PLANNING, timeout=PATIENCE_MS)
    return page


def wait_for(qtbot: QtBot, page: DownloadPage, state: State) -> None:
    qtbot.waitUntil(lambda: page.state is state, timeout=PATIENCE_MS)
