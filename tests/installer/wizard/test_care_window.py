"""The window to move, repair and go back: what each button does, and how it ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QPushButton

from engine.core.language import Language
from engine.core.settings import Settings, load_settings, save_settings
from installer.download.progress import DownloadProgress, Phase
from installer.errors import StoppedError
from installer.i18n.texts import Texts
from installer.move_data import DataMove, MoveReport, pending_path
from installer.program import FormerProgram
from installer.repair import ModelRepair, RepairReport
from installer.wizard.care_window import CareDoors, CareWindow

PATIENCE_MS = 60_000


@pytest.fixture
def data(home: Path, tmp_path: Path) -> Path:
    data = tmp_path / "data"
    (data / "configs").mkdir(parents=True)
    (data / "configs" / "tiny.json").write_text('{"format": 1}')
    save_settings(Settings(data_dir=data, active_config=data / "configs" / "tiny.json"))
    return data


@pytest.fixture
def open_care(qtbot, data):
    def open_one(language: Language = Language.ENGLISH, **doors) -> CareWindow:
        window = CareWindow(Texts(language), CareDoors(**doors))
        qtbot.addWidget(window)
        window.show()
        qtbot.waitExposed(window)
        return window

    return open_one


def wait_until_free(qtbot, window: CareWindow) -> None:
    qtbot.waitUntil(window.close_button.isEnabled, timeout=PATIENCE_MS)


@pytest.mark.parametrize("language", list(Language))
def test_everything_is_moved_by_a_button(qtbot, open_care, data, tmp_path, language):
    window = open_care(language)
    assert not window.move_button.isEnabled()
    target = tmp_path / "big" / "new"
    window.folder.setText(str(target))
    qtbot.mouseClick(window.move_button, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: str(target) in window.status.text(), timeout=PATIENCE_MS)
    wait_until_free(qtbot, window)
    assert load_settings().data_dir == target
    assert (target / "configs" / "tiny.json").exists()
    assert not window.progress.isVisible()


def test_a_folder_that_cannot_be_used_is_said_and_nothing_is_moved(qtbot, open_care, data):
    window = open_care()
    window.folder.setText(str(data / "models" / "inside"))
    window.move_button.click()
    qtbot.waitUntil(lambda: "in each other" in window.status.text(), timeout=PATIENCE_MS)
    assert load_settings().data_dir == data


def test_a_move_that_was_interrupted_is_offered_to_go_on(qtbot, open_care, data, tmp_path):
    target = tmp_path / "new"
    pending = {"format": 1, "source": str(data), "target": str(target)}
    pending_path().write_text(json.dumps(pending), "utf-8")
    window = open_care()
    assert window.folder.text() == str(target)
    window.move_button.click()
    qtbot.waitUntil(lambda: str(target) in window.status.text(), timeout=PATIENCE_MS)
    wait_until_free(qtbot, window)
    assert not pending_path().exists()


class SlowMove(DataMove):
    """Moves until it is stopped."""

    def run(self, progress=None) -> MoveReport:
        progress(DownloadProgress(Phase.MOVING, "big.gguf", 3, 10, 3, 10))
        while True:
            self.control.sleep(0.05)
            self.control.check_stopped()


def test_closing_stops_what_runs_and_then_closes(qtbot, open_care):
    window = open_care(make_move=SlowMove)
    window.folder.setText("/new")
    window.move_button.click()
    qtbot.waitUntil(lambda: "big.gguf" in window.status.text(), timeout=PATIENCE_MS)
    assert not window.repair_button.isEnabled()
    qtbot.keyClick(window, Qt.Key.Key_Escape)
    qtbot.waitUntil(lambda: not window.isVisible(), timeout=PATIENCE_MS)


class Repaired:
    """A repair that found something."""

    def run(self, _progress) -> RepairReport:
        model = ModelRepair("tiny", "Tiny", 1, bad=("m.gguf",), is_repaired=True)
        return RepairReport(models=(model,))

    def stop(self) -> None:
        raise StoppedError("not asked for")


def test_a_repair_says_what_was_bad(qtbot, open_care):
    window = open_care(make_repair=lambda _folder: Repaired())
    window.repair_button.click()
    qtbot.waitUntil(lambda: window.status.text() == "Everything is right.", timeout=PATIENCE_MS)
    assert "m.gguf fetched again" in window.details.text.toPlainText()


def test_the_way_back_is_offered_only_where_there_is_one(qtbot, open_care):
    assert not open_care(former_version=lambda: None).back_button.isVisible()
    former = FormerProgram(root=Path("/opt/one"), version="0.9")
    window = open_care(
        former_version=lambda: former, go_back=lambda _texts: "Version 0.9 is the installed one."
    )
    assert "0.9" in window.back_button.text()
    window.back_button.click()
    qtbot.waitUntil(lambda: "is the installed one" in window.status.text(), timeout=PATIENCE_MS)


@pytest.mark.parametrize("language", list(Language))
def test_all_controls_have_names_and_are_reached_by_keys(open_care, language):
    window = open_care(language, former_version=lambda: FormerProgram(root=Path(), version="1"))
    for button in window.findChildren(QPushButton):
        assert button.text() or button.accessibleName()
    assert window.folder.accessibleName()
    letters = [button.text() for button in window.findChildren(QPushButton) if "&" in button.text()]
    found = [text[text.index("&") + 1].lower() for text in letters]
    assert len(found) == len(set(found)), letters


def test_what_was_moved_is_known_to_the_wizard_behind_it(qtbot, open_wizard, data, tmp_path):
    window = open_wizard()
    assert window.care_button.isVisible()
    window.open_care()
    care = next(child for child in window.children() if isinstance(child, CareWindow))
    target = tmp_path / "new"
    care.folder.setText(str(target))
    care.move_button.click()
    qtbot.waitUntil(lambda: str(target) in care.status.text(), timeout=PATIENCE_MS)
    wait_until_free(qtbot, care)
    care.close_button.click()
    qtbot.waitUntil(lambda: window.isActiveWindow() or not care.isVisible(), timeout=PATIENCE_MS)
    assert window._session.installation.data_dir == target


def test_before_anything_is_installed_there_is_nothing_to_care_for(open_wizard, home):
    assert not open_wizard().care_button.isVisible()
