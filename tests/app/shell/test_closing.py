"""Closing the window, quitting, and the sign that comes and goes: never a program that nobody sees."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import shiboken6
from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QApplication, QLineEdit, QMessageBox, QSystemTrayIcon

from app import main as main_module
from app import quitting as quitting_module
from app import shell as shell_module
from app.closing import Closing, what_closing_does
from app.context import AppContext
from app.i18n.translate import Translations
from app.instance import Request, Wish
from app.shell import Shell
from app.supervisor.state import Activity, EngineState, Phase
from app.tray.notifications import Notice
from app.views import View
from engine.core.settings import save_settings
from tests.app.shell.conftest import PATIENCE_MS
from tests.app.shell.stand_in import StandInView

BUSY = EngineState(Phase.BUSY, model="tiny", activity=Activity.ANSWERING, is_loaded=True)
OpenShell = Callable[..., Shell]


@pytest.fixture
def panel(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], None]:
    """Says whether the desktop has a place for signs."""

    def set_there(is_there: bool) -> None:
        monkeypatch.setattr(QSystemTrayIcon, "isSystemTrayAvailable", lambda: is_there)

    set_there(False)
    return set_there


@pytest.fixture
def exits() -> list[int]:
    """With which statuses the application was ended. Its `quit` would ask every window first."""
    return []


@pytest.fixture
def open_shell(
    qapp: QApplication,
    context: AppContext,
    panel: object,
    exits: list[int],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[OpenShell]:
    """Starts a shell as `python -m app` does; quitting does not end the tests' own application."""
    made: list[Shell] = []
    monkeypatch.setattr(quitting_module, "SHOW_AFTER_MS", 30)
    monkeypatch.setattr(quitting_module, "LAST_WORDS_MS", 30)
    monkeypatch.setattr(shell_module, "PANEL_PATIENCE_MS", 30)
    monkeypatch.setattr(shell_module, "PANEL_GONE_MS", 30)
    monkeypatch.setattr(qapp, "exit", exits.append)

    def start(*, at_login: bool = False, **changes: object) -> Shell:
        store = context.app_settings
        store.put(store.value.model_copy(update=changes))
        shell = Shell(qapp, context, Translations())
        made.append(shell)
        shell.start(at_login=at_login)
        return shell

    yield start
    for shell in made:
        shell.sign.remove()
        shiboken6.delete(shell.sign.menu)  # it has no parent
        if shell.window is not None:
            shell.window.let_close()
            shell.window.deleteLater()
        for timer in shell.findChildren(QTimer):
            timer.stop()
        shell.setParent(None)
        shell.deleteLater()


def window_of(shell: Shell):
    window = shell.window
    assert window is not None
    return window


def box_of(shell: Shell) -> QMessageBox:
    box = window_of(shell).findChild(QMessageBox)
    assert box is not None
    return box


@pytest.mark.parametrize(
    ("has_sign", "closes_to_tray", "is_busy", "expected"),
    [
        (True, True, False, Closing.HIDE),
        (True, True, True, Closing.HIDE),
        (True, False, False, Closing.QUIT),
        (True, False, True, Closing.ASK),
        (False, True, False, Closing.QUIT),
        (False, True, True, Closing.ASK),
        (False, False, False, Closing.QUIT),
        (False, False, True, Closing.ASK),
    ],
)
def test_what_closing_does(has_sign, closes_to_tray, is_busy, expected):
    found = what_closing_does(has_sign=has_sign, closes_to_tray=closes_to_tray, is_busy=is_busy)
    assert found is expected


def test_without_a_sign_closing_quits_the_engine_and_then_the_app(qtbot, open_shell, supervisor):
    shell = open_shell(closes_to_tray=True)
    window_of(shell).close()
    assert supervisor.commands[-1] == "quit"
    with qtbot.waitSignal(shell.quitting.done, timeout=PATIENCE_MS):
        supervisor.stopped.emit()


def test_close_to_tray_hides_and_the_note_comes_once(qtbot, open_shell, panel, context, supervisor):
    panel(True)
    notices: list[Notice] = []
    context.notifier.shown.connect(notices.append)
    shell = open_shell(closes_to_tray=True)
    window_of(shell).close()
    assert not window_of(shell).isVisible()
    assert [notice.title for notice in notices] == ["Stratum goes on here"]
    shell.raise_window()
    assert window_of(shell).isVisible()
    window_of(shell).close()
    assert len(notices) == 1
    assert "quit" not in supervisor.commands


def test_closing_during_an_answer_asks_and_the_answer_can_go_on_beside_the_clock(
    qtbot, open_shell, panel, supervisor
):
    panel(True)
    shell = open_shell()
    supervisor.show(BUSY)
    window_of(shell).close()
    assert window_of(shell).isVisible()
    default = box_of(shell).defaultButton()
    assert default.text() == "Go on beside the clock"
    default.click()
    assert not window_of(shell).isVisible()
    assert "quit" not in supervisor.commands


def test_closing_during_an_answer_without_a_sign_keeps_the_window_by_default(
    qtbot, open_shell, supervisor
):
    shell = open_shell()
    supervisor.show(BUSY)
    window_of(shell).close()
    box = box_of(shell)
    box.defaultButton().click()
    assert window_of(shell).isVisible()
    window_of(shell).close()
    box = next(b for b in window_of(shell).findChildren(QMessageBox) if b.isVisible())
    next(b for b in box.buttons() if b.text() == "Stop and quit").click()
    assert supervisor.commands[-1] == "quit"


def test_the_way_out_says_that_memory_is_given_back_when_it_takes_long(
    qtbot, open_shell, supervisor, exits
):
    shell = open_shell()
    shell.quit()
    qtbot.waitUntil(lambda: shell.quitting.window is not None, timeout=PATIENCE_MS)
    small = shell.quitting.window
    assert small is not None
    assert small.isVisible()
    assert "gives its memory back" in small.label.text()
    assert small.close() is False
    small.button.click()
    assert supervisor.commands[-1] == "stop"
    with qtbot.waitSignal(shell.quitting.done, timeout=PATIENCE_MS):
        supervisor.stopped.emit()
        assert small.label.text() == "All memory is free again."
    assert exits == [0]
    small.deleteLater()


def test_quitting_twice_is_quitting_once(qtbot, open_shell, supervisor):
    shell = open_shell()
    shell.quit()
    shell.quit()
    assert supervisor.commands.count("quit") == 1
    supervisor.stopped.emit()


def test_started_at_login_no_window_is_shown(qtbot, open_shell, panel, supervisor):
    panel(True)
    shell = open_shell(at_login=True)
    qtbot.waitUntil(lambda: supervisor.commands == ["start"], timeout=PATIENCE_MS)
    qtbot.wait(100)
    assert shell.window is None


def test_started_at_login_on_a_desktop_without_signs_there_is_a_window_in_the_task_bar(
    qtbot, open_shell
):
    shell = open_shell(at_login=True)
    qtbot.waitUntil(lambda: shell.window is not None, timeout=PATIENCE_MS)
    assert window_of(shell).isMinimized()


def test_a_panel_that_comes_late_brings_the_sign(qtbot, open_shell, panel):
    shell = open_shell()
    assert not shell.sign.is_there
    panel(True)
    with qtbot.waitSignal(shell.sign.is_there_changed, timeout=PATIENCE_MS):
        shell.sign.look_again()
    assert shell.sign.is_there


def test_when_the_panel_goes_a_hidden_window_comes_back(qtbot, open_shell, panel):
    panel(True)
    shell = open_shell(closes_to_tray=True)
    window_of(shell).close()
    panel(False)
    shell.sign.look_again()
    qtbot.waitUntil(window_of(shell).isVisible, timeout=PATIENCE_MS)


def test_a_panel_that_was_only_started_again_changes_nothing(qtbot, open_shell, panel):
    panel(True)
    shell = open_shell(closes_to_tray=True)
    window_of(shell).close()
    panel(False)
    shell.sign.look_again()
    panel(True)
    qtbot.wait(150)
    assert not window_of(shell).isVisible()


def test_a_person_who_wants_no_sign_gets_a_window_and_closing_quits(
    qtbot, open_shell, panel, context, supervisor
):
    panel(True)
    shell = open_shell(closes_to_tray=True)
    window_of(shell).close()
    store = context.app_settings
    store.put(store.value.model_copy(update={"shows_tray": False}))
    assert window_of(shell).isVisible()
    window_of(shell).close()
    assert supervisor.commands[-1] == "quit"
    supervisor.stopped.emit()


def test_the_engine_does_not_start_with_the_app_when_that_is_switched_off(
    qtbot, open_shell, supervisor
):
    open_shell(starts_model=False)
    qtbot.wait(50)
    assert supervisor.commands == []


def test_a_hidden_window_is_not_watched(qtbot, open_shell, panel, supervisor):
    panel(True)
    shell = open_shell(closes_to_tray=True)
    qtbot.waitExposed(window_of(shell))
    assert supervisor.is_watched
    window_of(shell).close()
    assert not supervisor.is_watched


def test_a_view_can_be_asked_for_from_anywhere(qtbot, open_shell, context):
    shell = open_shell()
    context.requests.open_view.emit(View.SETTINGS)
    assert window_of(shell).view is View.SETTINGS
    assert window_of(shell).side_bar.button(View.SETTINGS).isChecked()


def test_what_could_not_be_saved_is_said_before_the_end(
    qtbot, open_shell, supervisor, context, exits, tmp_path
):
    rescue = tmp_path / "stratum-unsaved.json"
    context.close_chats = lambda: rescue
    shell = open_shell()
    shell.quit()
    supervisor.stopped.emit()
    (box,) = (box for box in QApplication.topLevelWidgets() if isinstance(box, QMessageBox))
    assert str(rescue) in box.text()
    assert exits == []
    box.close()
    assert exits == [0]
    shiboken6.delete(box)


@pytest.mark.parametrize(
    ("words", "wish"),
    [([], Wish.RAISE), (["--chat"], Wish.OPEN_CHAT), (["--at-login"], Wish.NOTHING)],
)
def test_what_a_second_start_wants(words, wish):
    assert main_module._wish_of(main_module._parser().parse_args(words)) is wish


def test_a_second_start_opens_the_chat_or_what_was_last_there(qtbot, open_shell, context):
    shell = open_shell()
    context.requests.open_view.emit(View.MONITOR)
    window_of(shell).showMinimized()
    shell.obey(Request(Wish.RAISE))
    assert not window_of(shell).isMinimized()
    assert window_of(shell).view is View.MONITOR
    shell.obey(Request(Wish.OPEN_CHAT))
    assert window_of(shell).view is View.CHAT


def test_another_active_model_is_followed_at_the_next_start(open_shell, context, supervisor, home):
    shell = open_shell()
    config = home / "data" / "configs" / "new.json"
    save_settings(context.settings.value.model_copy(update={"active_config": config}))
    shell.obey(Request(Wish.RAISE))
    assert supervisor.commands[-1] == "choose new"


def test_a_view_that_has_given_the_keyboard_to_a_part_of_it_keeps_it_there(
    qtbot, open_shell, monkeypatch
):
    # The chat gives it to its composer; the window took it back (seen 2026-11-30).
    part = QLineEdit()

    class View(StandInView):
        def showEvent(self, event):  # Qt's name
            super().showEvent(event)
            part.setParent(self)
            part.show()
            part.setFocus()

    monkeypatch.setattr("tests.app.shell.stand_in.StandInView", View)
    shell = open_shell()
    window = window_of(shell)
    window.activateWindow()
    qtbot.waitUntil(part.hasFocus)


def test_a_data_folder_of_its_own_is_no_wish_that_the_app_can_fulfil(capsys):
    # The engine reads it from the settings; a folder for the app alone would part the two.
    with pytest.raises(SystemExit) as ended:
        main_module.main(["--data-dir", "/somewhere"])
    assert ended.value.code == 2
    assert "--data-dir" in capsys.readouterr().err
