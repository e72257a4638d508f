"""The real program on a real desktop: the sign is clicked, the window closed, the panel killed.

The engine is the real one with the bundled model.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from engine.core.settings import Settings, live_engine_record, save_settings
from tests.support.desktop import Desktop, end, wait_until

pytestmark = [pytest.mark.desktop, pytest.mark.timeout(600)]

ROOT = Path(__file__).resolve().parents[3]
TITLE = "^Stratum$"


class App:
    """The program, its folders, and what it has left on the desktop."""

    def __init__(self, desktop: Desktop, home: Path) -> None:
        self.desktop = desktop
        self.home = home
        self.data_dir = home / "data"
        self.started: list[subprocess.Popen[bytes]] = []

    def install_tiny(self) -> None:
        """Make the bundled model the active one, as the installer does."""
        config = self.data_dir / "configs" / "tiny.json"
        config.parent.mkdir(parents=True)
        model = next((ROOT / "assets" / "models").rglob("*.gguf"))
        content = {"format": 1, "model": str(model), "model_id": "tiny", "port": free_port()}
        config.write_text(json.dumps(content), "utf-8")
        settings = Settings(data_dir=self.data_dir, active_config=config)
        save_settings(settings, self.home / "settings.json")

    def switch(self, **changes: object) -> None:
        """Set switches of the app before it starts."""
        path = self.home / "app.json"
        content = json.loads(path.read_text("utf-8")) if path.exists() else {"format": 1}
        path.write_text(json.dumps(content | changes), "utf-8")

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        process = self.desktop.start(
            [sys.executable, "-m", "app", *arguments],
            cwd=ROOT,
            environment={"STRATUM_HOME": str(self.home), "LANG": "C.UTF-8", "LANGUAGE": "en"},
        )
        self.started.append(process)
        return process

    def engine_pid(self) -> int:
        """Of the engine that serves; waits for it."""
        wait_until(lambda: live_engine_record(self.data_dir), "the engine's start")
        record = live_engine_record(self.data_dir)
        assert record is not None
        return record.pid

    def sign_place(self) -> tuple[int, int]:
        """Of the sign in the panel, once the panel has done with laying itself out for it."""
        places: list[tuple[int, int] | None] = [None]

        def has_come_to_rest() -> bool:
            time.sleep(0.5)
            places.append(self.desktop.sign_place())
            return places[-1] is not None and places[-1] == places[-2]

        wait_until(has_come_to_rest, "the sign in the panel")
        place = places[-1]
        assert place is not None
        return place

    def quit_by_menu(self, program: subprocess.Popen[bytes]) -> None:
        """Choose the menu's last entry, "Quit Stratum"; again where keys came before the menu."""

        def has_ended() -> bool:
            if self.desktop.sign_place() is not None:
                self.desktop.click(*self.sign_place(), button=3)
                time.sleep(0.7)
                self.desktop.press("Up")
                self.desktop.press("Return")
            with contextlib.suppress(subprocess.TimeoutExpired):
                program.wait(timeout=15)
            return program.poll() is not None

        wait_until(has_ended, "the end by the menu")
        assert program.returncode == 0

    def has_window(self) -> bool:
        return bool(self.desktop.windows(TITLE))

    def log(self) -> str:
        path = self.data_dir / "logs" / "app.log"
        return path.read_text("utf-8") if path.exists() else ""


def free_port() -> int:
    import socket  # noqa: PLC0415  # only here

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def app(desktop: Desktop, tmp_path: Path) -> Iterator[App]:
    home = tmp_path / "Jürgen 測試 home"
    home.mkdir()
    made = App(desktop, home)
    yield made
    for process in made.started:
        if process.poll() is None:
            end(process)
    sys.stdout.write(made.log())  # shown when the test has failed


def test_close_to_tray_click_and_quit(app):
    app.install_tiny()
    app.switch(closes_to_tray=True)
    program = app.start()
    window = app.desktop.window(TITLE)
    engine = app.engine_pid()
    app.desktop.output(["xdotool", "windowactivate", "--sync", window])
    app.desktop.press("ctrl+w")
    wait_until(lambda: not app.has_window(), "the window's closing")
    assert program.poll() is None
    assert psutil.pid_exists(engine)

    app.desktop.click(*app.sign_place())
    app.desktop.window(TITLE)
    app.quit_by_menu(program)
    wait_until(lambda: not psutil.pid_exists(engine), "the engine's end")
    wait_until(lambda: app.desktop.sign_place() is None, "the sign's end")


def test_a_second_start_raises_the_window_of_the_first(app):
    app.switch(closes_to_tray=True, starts_model=False)
    app.start()
    window = app.desktop.window(TITLE)
    app.desktop.output(["xdotool", "windowactivate", "--sync", window])
    app.desktop.press("ctrl+w")
    wait_until(lambda: not app.has_window(), "the window's closing")
    assert app.start().wait(timeout=90) == 0
    app.desktop.window(TITLE)


def test_started_at_login_there_is_a_sign_and_no_window(app):
    app.install_tiny()
    app.start("--at-login")
    app.sign_place()
    app.engine_pid()
    assert not app.has_window()


def test_a_panel_that_is_killed_and_started_again_gets_the_sign_back(app):
    app.switch(starts_model=False)
    app.start("--at-login")
    app.sign_place()
    app.desktop.stop_panel()
    wait_until(lambda: not app.desktop.has_panel(), "the panel's end")
    app.desktop.start_panel()
    app.sign_place()
    assert not app.has_window()


def test_without_a_panel_closing_the_window_quits(app):
    app.desktop.stop_panel()
    app.switch(closes_to_tray=True, starts_model=False)
    program = app.start()
    window = app.desktop.window(TITLE)
    app.desktop.output(["xdotool", "windowactivate", "--sync", window])
    app.desktop.press("ctrl+w")
    assert program.wait(timeout=90) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_engine_and_app(app, number):
    app.install_tiny()
    program = app.start("--at-login")
    engine = app.engine_pid()
    os.kill(program.pid, number)
    assert program.wait(timeout=90) == 0
    assert not psutil.pid_exists(engine)
    assert "asked to end by signal" in app.log()


def test_settings_that_cannot_be_used_are_said_in_a_window(app):
    (app.home / "settings.json").write_text('{"data_dir": 3}', "utf-8")
    program = app.start()
    app.desktop.window(TITLE)
    app.desktop.press("Return")
    assert program.wait(timeout=90) == 2
