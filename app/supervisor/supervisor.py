"""The engine as the windows see it: a Qt object with a state, commands and signals.

    supervisor = Supervisor(data_dir, config_path)
    supervisor.state_changed.connect(tray.show_state)
    supervisor.start()
    ...
    supervisor.stopped.connect(application.quit)
    supervisor.quit()

No method blocks. All signals come on the thread that made the object (the main thread).
"""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QObject, Signal

from app.engine_http import EngineHttp
from app.supervisor.state import EngineState


class Supervisor(QObject):
    """Starts, watches and ends the engine.

    Signals:
        state_changed: with the new `EngineState`, whenever something in it is different.
        status_read: with each `EngineStatus` that was read; at most twice a second.
        command_refused: with the `Reason` why a command was not obeyed (`free_memory` while a
            request runs, say).
        stopped: after `quit`: no process of the engine lives any more.

    Attributes:
        http: requests to the engine, for every thread; it follows the engine's address and key.
    """

    state_changed = Signal(object)
    status_read = Signal(object)
    command_refused = Signal(object)
    stopped = Signal()

    def __init__(
        self, data_dir: Path, config_path: Path | None, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self.http = EngineHttp()

    @property
    def state(self) -> EngineState:
        """Where the engine is now."""
        raise NotImplementedError

    @property
    def config_path(self) -> Path | None:
        """The run config that is run; None when no model was chosen."""
        raise NotImplementedError

    @property
    def log_path(self) -> Path:
        """The engine's log; older ones are beside it."""
        raise NotImplementedError

    def start(self) -> None:
        """Start the engine, or adopt the one that runs. After a failure: try again."""
        raise NotImplementedError

    def stop(self) -> None:
        """End the engine; running answers get ten seconds. Called again: end it harder."""
        raise NotImplementedError

    def restart(self) -> None:
        """End it, and start it again."""
        raise NotImplementedError

    def free_memory(self) -> None:
        """Give the model's memory back; the engine runs on, and the next request loads it."""
        raise NotImplementedError

    def load(self) -> None:
        """Load the model now, after `free_memory` or an idle time."""
        raise NotImplementedError

    def choose(self, config_path: Path) -> None:
        """Run another config: keeps it as the active one, and restarts an engine that runs."""
        raise NotImplementedError

    def use_port(self, port: int) -> None:
        """Write another port into the run config, and start (after `PORT_IN_USE`)."""
        raise NotImplementedError

    def set_watched(self, *, is_watched: bool) -> None:
        """Say whether a window shows the state; unwatched, the engine is asked less often."""
        raise NotImplementedError

    def look_now(self) -> None:
        """Ask the engine at once (a request was just sent)."""
        raise NotImplementedError

    def quit(self) -> None:
        """End the engine and then this supervisor; `stopped` comes when nothing is left of it."""
        raise NotImplementedError
