"""A supervisor whose engine is the real one, with settings and data of nobody else."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

if TYPE_CHECKING:
    from pytestqt.qtbot import QtBot

    from app.supervisor.state import EngineState
    from app.supervisor.supervisor import Supervisor

PATIENCE_MS = 90_000


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with a space and letters of other scripts."""
    path = tmp_path / "Jürgen 測試 home"
    path.mkdir()
    monkeypatch.setenv("STRATUM_HOME", str(path))
    return path


@pytest.fixture
def write_config(home: Path) -> Callable[..., Path]:
    """A function that writes a run config (the bundled model, any free port)."""

    def write(name: str = "tiny", **values: object) -> Path:
        path = home / "configs" / f"{name}.json"
        path.parent.mkdir(exist_ok=True)
        content = {"format": 1, "port": 0, "context": 2048, **values}
        path.write_text(json.dumps(content), encoding="utf-8")
        return path

    return write


@pytest.fixture
def write_script(home: Path) -> Callable[..., Path]:
    """A function that writes a script for the scripted worker."""

    def write(**values: object) -> Path:
        path = home / "script.json"
        path.write_text(json.dumps({"format": 1, **values}), encoding="utf-8")
        return path

    return write


class Watched:
    """A supervisor, and what it said."""

    def __init__(self, supervisor: Supervisor, qtbot: QtBot) -> None:
        self.supervisor = supervisor
        self.states: list[EngineState] = []
        self.refusals: list[object] = []
        self.is_over = False
        self._qtbot = qtbot
        supervisor.state_changed.connect(self.states.append)
        supervisor.command_refused.connect(self.refusals.append)
        supervisor.stopped.connect(self._finish)

    def _finish(self) -> None:
        self.is_over = True

    @property
    def state(self) -> EngineState:
        return self.supervisor.state

    def until(self, condition: Callable[[EngineState], object]) -> EngineState:
        """Wait until the state is so."""

        def check() -> None:
            assert condition(self.state), self.state

        self._qtbot.waitUntil(check, timeout=PATIENCE_MS)
        return self.state

    def until_seen(self, condition: Callable[[EngineState], object]) -> None:
        """Wait until there was such a state."""

        def check() -> None:
            assert any(condition(state) for state in self.states), self.states[-3:]

        self._qtbot.waitUntil(check, timeout=PATIENCE_MS)

    def quit(self) -> None:
        """End, and wait for the end."""
        self.supervisor.quit()

        def check() -> None:
            assert self.is_over, self.state

        self._qtbot.waitUntil(check, timeout=PATIENCE_MS)


@pytest.fixture
def supervise(home: Path, qtbot: QtBot) -> Iterator[Callable[..., Watched]]:
    """A function that makes supervisors; all of them quit at the end, and nothing is left."""
    from app.supervisor.awake import Wakefulness  # noqa: PLC0415  # where there is Qt
    from app.supervisor.control import Surroundings  # noqa: PLC0415
    from app.supervisor.events import Patience  # noqa: PLC0415
    from app.supervisor.launch import serve_command  # noqa: PLC0415
    from app.supervisor.sleep_watch import SleepWatch  # noqa: PLC0415
    from app.supervisor.supervisor import Supervisor  # noqa: PLC0415
    from engine.core.keep_awake import NoKeepAwake  # noqa: PLC0415

    made: list[Watched] = []

    def make(
        config_path: Path | None,
        *,
        script: Path | None = None,
        command: Callable[[Path], list[str]] | None = None,
        patience: Patience | None = None,
        watch: SleepWatch | None = None,
    ) -> Watched:
        def scripted(path: Path) -> list[str]:
            words = serve_command(path)
            if script is not None:
                words += ["--script", str(script), "--repeat-stop-tokens", "0"]
            return words

        supervisor = Supervisor(
            home / "data",
            config_path,
            surroundings=Surroundings(
                command=command or scripted,
                patience=patience or Patience(backoff_s=(0.1, 0.2)),
                wakefulness=Wakefulness(NoKeepAwake()),
            ),
            make_sleep_watch=lambda parent: watch or SleepWatch(parent),
        )
        watched = Watched(supervisor, qtbot)
        made.append(watched)
        return watched

    yield make
    pids = {state.pid for watched in made for state in watched.states if state.pid}
    for watched in made:
        if not watched.is_over:
            watched.supervisor.stop()
            watched.quit()
    assert [pid for pid in pids if lives(pid)] == []


def lives(pid: int) -> bool:
    """Whether a process runs; one that has ended and waits for its parent does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def python(code: str, *arguments: str) -> list[str]:
    """The command of a stand-in for the engine."""
    return [sys.executable, "-c", code, *arguments]
