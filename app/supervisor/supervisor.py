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

import contextlib
import logging
from collections.abc import Callable
from pathlib import Path
from typing import cast

from PySide6.QtCore import QObject, Qt, Signal, Slot

from app.background import Task, in_background
from app.engine_http import EngineHttp
from app.supervisor.control import Control, Listeners, Surroundings
from app.supervisor.events import Asked, Command, Resumed, Suspending
from app.supervisor.sleep_watch import SleepWatch, sleep_watch
from app.supervisor.state import EngineState, Phase
from engine.core.config_file import load_config, save_config
from engine.core.errors import EngineError
from engine.core.settings import load_settings, save_settings

logger = logging.getLogger(__name__)


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

    _told = Signal(object)  # from the control thread: a function to call on the main thread

    def __init__(
        self,
        data_dir: Path,
        config_path: Path | None,
        parent: QObject | None = None,
        *,
        surroundings: Surroundings | None = None,
        make_sleep_watch: Callable[[QObject], SleepWatch] = sleep_watch,
    ) -> None:
        super().__init__(parent)
        self._state = EngineState()
        self._told.connect(self._call, Qt.ConnectionType.QueuedConnection)
        listeners = Listeners(
            on_state=lambda state: self._tell(lambda: self._take_state(state)),
            on_status=lambda status: self._tell(lambda: self.status_read.emit(status)),
            on_refusal=lambda reason: self._tell(lambda: self.command_refused.emit(reason)),
            on_sleep_allowed=lambda: self._tell(self._allow_sleep),
            on_finish=lambda: self._tell(self._finish),
        )
        self._control = Control(data_dir, config_path, listeners, surroundings or Surroundings())
        self._control.start()
        self._watch = make_sleep_watch(self)
        self._watch.suspending.connect(self._suspend)
        self._watch.resumed.connect(self._resume)

    @property
    def http(self) -> EngineHttp:
        """Requests to the engine."""
        return self._control.http

    @property
    def state(self) -> EngineState:
        """Where the engine is now."""
        return self._state

    @property
    def config_path(self) -> Path | None:
        """The run config that is run; None when no model was chosen."""
        return self._control.config_path

    @property
    def log_path(self) -> Path:
        """The engine's log; older ones are beside it (`engine.1.log`)."""
        return self._control.log_path

    def start(self) -> None:
        """Start the engine, or adopt the one that runs. After a failure: try again."""
        self._ask(Command.START)

    def stop(self) -> None:
        """End the engine; running answers get ten seconds. Called again: end it harder."""
        self._ask(Command.STOP)

    def restart(self) -> None:
        """End it, and start it again."""
        self._ask(Command.RESTART)

    def free_memory(self) -> None:
        """Give the model's memory back; the engine runs on, and the next request loads it."""
        self._ask(Command.FREE)

    def load(self) -> None:
        """Load the model now, after `free_memory` or an idle time."""
        self._ask(Command.LOAD)

    def choose(self, config_path: Path) -> None:
        """Run another config, now and after the next start of the program.

        An engine that runs, or has failed, is started with it; one that was stopped stays so.
        """
        if config_path != self._control.config_path:
            self._control.config_path = config_path
            in_background(self, lambda _task: _keep_choice(config_path))
        if self._state.phase is Phase.FAILED and not self._state.base_url:
            self._ask(Command.START)
        elif self._state.phase is not Phase.STOPPED:
            self._ask(Command.RESTART)

    def use_port(self, port: int) -> None:
        """Write another port into the run config, and start (after `PORT_IN_USE`)."""
        path = self._control.config_path
        if path is None:
            return

        def change(_task: Task[None]) -> None:
            save_config(load_config(path).model_copy(update={"port": port}), path)

        def refuse(error: EngineError) -> None:
            logger.warning("the port is not changed: %s", error)
            self.start()  # which says what is wrong with the file

        in_background(self, change, on_success=lambda _none: self.restart(), on_failure=refuse)

    def set_watched(self, *, is_watched: bool) -> None:
        """Say whether a window shows the state; unwatched, the engine is asked less often."""
        self._control.is_watched = is_watched
        self._control.nudge()
        if is_watched:
            self._control.look_now()

    def look_now(self) -> None:
        """Ask the engine at once (a request was just sent)."""
        self._control.look_now()

    def quit(self) -> None:
        """End the engine and then this supervisor; `stopped` comes when nothing is left of it."""
        self._ask(Command.QUIT)

    def _ask(self, command: Command) -> None:
        self._control.post(Asked(command))

    def _tell(self, function: Callable[[], object]) -> None:
        """Call a function on the main thread; from the control thread."""
        with contextlib.suppress(RuntimeError):  # the program ends, and this object has gone
            self._told.emit(function)

    @Slot(object)
    def _call(self, function: object) -> None:
        cast("Callable[[], object]", function)()

    def _take_state(self, state: EngineState) -> None:
        self._state = state
        self.state_changed.emit(state)

    def _suspend(self) -> None:
        self._control.post(Suspending())

    def _resume(self) -> None:
        self._control.post(Resumed(was_announced=True))

    def _allow_sleep(self) -> None:
        self._watch.allow()

    def _finish(self) -> None:
        self._watch.close()
        self.stopped.emit()


def _keep_choice(config_path: Path) -> None:
    try:
        save_settings(load_settings().model_copy(update={"active_config": config_path}))
    except EngineError as error:
        logger.warning("the choice is not kept for the next start: %s", error)
