"""A supervisor beside a real engine that somebody else started: it asks when a test says so."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QApplication

from app.app_settings import AppSettingsStore, app_settings_path
from app.context import AppContext, Requests
from app.engine_http import EngineAddress, EngineHttp
from app.engine_status import EngineStatus, ServerState, parse_status
from app.look.look import Look
from app.person_settings import PersonSettings
from app.supervisor.state import Activity, EngineState, Phase
from app.tray.notifications import Notifier
from engine.core.settings import settings_path

if TYPE_CHECKING:
    from app.chat.service import ChatService
    from app.supervisor.supervisor import Supervisor

_BUSY = {
    ServerState.READING: Activity.READING,
    ServerState.THINKING: Activity.THINKING,
    ServerState.ANSWERING: Activity.ANSWERING,
    ServerState.TOOL_CALL: Activity.TOOL_CALL,
}


class LiveSupervisor(QObject):
    """The same signals and commands as `Supervisor`.

    Attributes:
        commands: what was asked for, in order.
        http: asks the real engine, if there is one.
    """

    state_changed = Signal(object)
    status_read = Signal(object)
    command_refused = Signal(object)
    stopped = Signal()

    def __init__(self, config_path: Path | None = None, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.state = EngineState()
        self.http = EngineHttp()
        self.config_path = config_path
        self.log_path = Path("engine.log")
        self.commands: list[str] = []

    def watch(self, url: str, pid: int, key: str | None = None) -> None:
        """Be the supervisor of an engine that runs."""
        self.http.address = EngineAddress(url, key)
        self.state = EngineState(phase=Phase.READY, base_url=url, pid=pid, is_loaded=True)

    def look(self) -> EngineStatus:
        """Ask the engine, and tell everybody."""
        status = parse_status(self.http.get("/status"))
        assert status is not None
        self.show(
            EngineState(
                phase=Phase.BUSY if status.is_working else Phase.READY,
                activity=_BUSY.get(status.state, Activity.NONE),
                base_url=self.http.address.base_url if self.http.address else "",
                pid=self.state.pid,
                model=status.model,
                is_loaded=status.is_loaded,
                queued=status.queued,
            )
        )
        self.status_read.emit(status)
        return status

    def show(self, state: EngineState) -> None:
        """Be in another state."""
        if state != self.state:
            self.state = state
            self.state_changed.emit(state)

    def start(self) -> None:
        self.commands.append("start")

    def stop(self) -> None:
        self.commands.append("stop")

    def restart(self) -> None:
        self.commands.append("restart")

    def choose(self, config_path: Path) -> None:
        self.config_path = config_path
        self.commands.append(f"choose {config_path.stem}")

    def set_watched(self, *, is_watched: bool) -> None:
        """As the real one."""


def make_context(app: QApplication, supervisor: LiveSupervisor) -> AppContext:
    """The parts of the app around it, with the settings that `STRATUM_HOME` names."""
    settings = PersonSettings(settings_path())
    store = AppSettingsStore(app_settings_path())
    return AppContext(
        data_dir=settings.value.data_dir,
        settings=settings,
        app_settings=store,
        supervisor=cast("Supervisor", supervisor),
        look=Look(app, store.value.theme),
        notifier=Notifier(store),
        requests=Requests(),
        open_chats=_no_chats,
        close_chats=lambda: None,
    )


def _no_chats() -> ChatService:
    raise AssertionError("nothing here opens a conversation")
