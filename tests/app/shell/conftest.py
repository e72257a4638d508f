"""A shell whose engine is a state that the test sets, with settings of nobody else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

if TYPE_CHECKING:
    from PySide6.QtWidgets import QApplication

    from app.chat.service import ChatService
    from app.context import AppContext
    from app.supervisor.supervisor import Supervisor
    from tests.app.shell.stand_in import StandInSupervisor

try:
    import PySide6.QtWidgets  # noqa: F401  # whether it can be loaded
except ImportError:
    collect_ignore_glob = ["test_*.py"]

PATIENCE_MS = 60_000


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Settings and data of nobody else, below a name with other scripts."""
    path = tmp_path / "Jürgen 測試 home"
    path.mkdir()
    monkeypatch.setenv("STRATUM_HOME", str(path))
    return path


@pytest.fixture(autouse=True)
def plain_views(monkeypatch: pytest.MonkeyPatch) -> None:
    """The window shows nothing that needs an engine or conversations."""
    from app import main_window  # noqa: PLC0415  # where there is Qt
    from app.views import View  # noqa: PLC0415  # the same

    place = ("tests.app.shell.stand_in", "StandInView")
    monkeypatch.setattr(main_window, "_VIEWS", dict.fromkeys(View, place))


@pytest.fixture
def supervisor(qapp: QApplication) -> StandInSupervisor:
    """An engine that does what the test says."""
    from tests.app.shell.stand_in import StandInSupervisor  # noqa: PLC0415  # where there is Qt

    return StandInSupervisor(qapp)


@pytest.fixture
def make_context(
    qapp: QApplication, home: Path, supervisor: StandInSupervisor
) -> Callable[[], AppContext]:
    """The parts, made anew as a start of the program does."""

    from app.app_settings import AppSettingsStore, Theme, app_settings_path  # noqa: PLC0415
    from app.context import AppContext, Requests  # noqa: PLC0415
    from app.look.look import Look  # noqa: PLC0415
    from app.person_settings import PersonSettings  # noqa: PLC0415
    from app.tray.notifications import Notifier  # noqa: PLC0415
    from engine.core.settings import settings_path  # noqa: PLC0415

    def no_chats() -> ChatService:
        raise AssertionError("a test of the shell opens no conversation")

    def make() -> AppContext:
        settings = PersonSettings(settings_path())
        store = AppSettingsStore(app_settings_path())
        return AppContext(
            data_dir=settings.value.data_dir,
            settings=settings,
            app_settings=store,
            supervisor=cast("Supervisor", supervisor),
            look=Look(qapp, Theme.LIGHT),
            notifier=Notifier(store),
            requests=Requests(),
            open_chats=no_chats,
            close_chats=lambda: None,
        )

    return make


@pytest.fixture
def context(make_context: Callable[[], AppContext]) -> AppContext:
    """The parts."""
    return make_context()
