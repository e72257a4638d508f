"""A supervisor without an engine: it shows the state that a test sets and notes what it was told."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QWidget

from app.context import AppContext
from app.supervisor.state import EngineState


class StandInSupervisor(QObject):
    """The same signals and commands as `Supervisor`.

    Attributes:
        commands: what was asked for, in order.
    """

    state_changed = Signal(object)
    status_read = Signal(object)
    command_refused = Signal(object)
    stopped = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.state = EngineState()
        self.config_path: Path | None = None
        self.log_path = Path("engine.log")
        self.commands: list[str] = []
        self.is_watched = False

    def show(self, state: EngineState) -> None:
        """Be in another state."""
        self.state = state
        self.state_changed.emit(state)

    def start(self) -> None:
        self.commands.append("start")

    def stop(self) -> None:
        self.commands.append("stop")

    def free_memory(self) -> None:
        self.commands.append("free_memory")

    def choose(self, config_path: Path) -> None:
        self.config_path = config_path
        self.commands.append(f"choose {config_path.stem}")

    def use_port(self, port: int) -> None:
        self.commands.append(f"use_port {port}")

    def set_watched(self, *, is_watched: bool) -> None:
        self.is_watched = is_watched

    def quit(self) -> None:
        self.commands.append("quit")


class StandInView(QWidget):
    """Where a view would be; views have tests of their own."""

    def __init__(self, context: AppContext) -> None:
        super().__init__()
        self.context = context
