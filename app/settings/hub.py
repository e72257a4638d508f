"""What the pages of the settings share: the active run config, saving it, and what waits for a restart."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from app.context import AppContext
from app.settings.config_draft import change_config, read_config_object, undo_save
from app.settings.pending_changes import PendingChanges
from app.supervisor.state import EngineState, Phase
from engine.core.config import RunConfig
from engine.core.config_file import load_config
from engine.core.errors import EngineError

_RUNS = frozenset({Phase.STARTING, Phase.LOADING, Phase.READY, Phase.BUSY})


class Hub(QObject):
    """The shared part.

    Attributes:
        context: of the app.
        pending: settings that the running engine does not have yet.

    Signals:
        saved: the active run config was written.
        config_changed: another run config is the active one.
    """

    saved = Signal()
    config_changed = Signal()

    def __init__(self, context: AppContext, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.context = context
        self.pending = PendingChanges(context.supervisor, self)
        self._path = context.supervisor.config_path
        context.supervisor.state_changed.connect(self._state_changed)

    @property
    def config_path(self) -> Path | None:
        """The active run config; None when no model was chosen yet."""
        return self.context.supervisor.config_path

    @property
    def is_engine_running(self) -> bool:
        """Whether an engine runs, or starts."""
        return self.context.supervisor.state.phase in _RUNS

    def config(self) -> RunConfig:
        """The active run config as it is saved; the defaults when there is none, or a broken one."""
        path = self.config_path
        if path is None or not path.exists():
            return RunConfig()
        try:
            return load_config(path)
        except EngineError:
            return RunConfig()

    def content(self) -> dict[str, object]:
        """What the file says, key by key; empty when it cannot be read."""
        path = self.config_path
        try:
            return read_config_object(path) if path is not None else {}
        except EngineError:
            return {}

    def change(self, changes: Mapping[str, object]) -> None:
        """Save some keys of the active run config.

        Raises:
            ConfigProblemError: the result would be no run config; nothing was written.
            EngineError: the file cannot be read or written.
        """
        path = self.config_path
        if path is not None:
            change_config(path, changes)
            self.tell_saved()

    def undo(self) -> None:
        """Put the former version of the active run config back.

        Raises:
            EngineError: there is none that can be used.
        """
        path = self.config_path
        if path is not None:
            undo_save(path)
            self.tell_saved()

    def tell_saved(self) -> None:
        """The file was written: whoever shows it looks again."""
        self.pending.look()
        self.saved.emit()

    def _state_changed(self, _state: EngineState) -> None:
        if self.config_path != self._path:
            self._path = self.config_path
            self.config_changed.emit()
