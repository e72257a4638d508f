"""Which saved settings the running engine does not have yet.

The engine reads its run config when it starts, so every saved key waits for the next start. What it
was started with is remembered whenever the supervisor starts it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from app.settings.config_draft import read_config_object
from app.supervisor.state import EngineState, Phase
from app.supervisor.supervisor import Supervisor
from engine.core.errors import EngineError

logger = logging.getLogger(__name__)

_STARTS = frozenset({Phase.STARTING})
_RUNS = frozenset({Phase.LOADING, Phase.READY, Phase.BUSY})


class PendingChanges(QObject):
    """Keys whose saved value waits for a restart.

    Signals:
        changed: others wait than before.
    """

    changed = Signal()

    def __init__(self, supervisor: Supervisor, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._supervisor = supervisor
        self._started_with: dict[Path, Mapping[str, object]] = {}
        self._keys: tuple[str, ...] = ()
        self._note_start()
        supervisor.state_changed.connect(self._state_changed)

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys, top-level ones, in alphabetical order."""
        return self._keys

    def look(self) -> None:
        """Compare the file with what the engine was started with."""
        path = self._supervisor.config_path
        before = self._started_with.get(path) if path is not None else None
        keys: tuple[str, ...] = ()
        if path is not None and before is not None and self._supervisor.state.phase in _RUNS:
            now = _content(path)
            keys = tuple(sorted(key for key in {*before, *now} if before.get(key) != now.get(key)))
        if keys != self._keys:
            self._keys = keys
            self.changed.emit()

    def _state_changed(self, state: EngineState) -> None:
        if state.phase in _STARTS or state.phase is Phase.STOPPED:
            self._started_with.clear()
            self._note_start()
        self.look()

    def _note_start(self) -> None:
        path = self._supervisor.config_path
        if path is not None and path not in self._started_with:
            self._started_with[path] = _content(path)


def _content(path: Path) -> Mapping[str, object]:
    try:
        return read_config_object(path)
    except EngineError as error:
        logger.info("%s", error)
        return {}
