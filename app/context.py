"""What the parts of the app share, made once by `app/main.py` and handed to every view.

    class MonitorView(QWidget):
        def __init__(self, context: AppContext) -> None: ...

Nothing here imports a widget or a heavy package: a view is built when it is first opened.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal

if TYPE_CHECKING:
    from app.app_settings import AppSettingsStore
    from app.chat.service import ChatService
    from app.engine_http import EngineHttp
    from app.look.look import Look
    from app.person_settings import PersonSettings
    from app.supervisor.supervisor import Supervisor
    from app.tray.notifications import Notifier


class Requests(QObject):
    """What a view may ask of the shell; each is a signal that anyone emits.

    Signals:
        open_view: bring the window to the front with a `View` in it.
        add_model: open the installer's window.
        show_log: open the log's window.
        show_about: open "About".
        quit: end the app and the engine.
    """

    open_view = Signal(object)
    add_model = Signal()
    show_log = Signal()
    show_about = Signal()
    quit = Signal()


@dataclass(slots=True)
class AppContext:
    """The parts.

    Attributes:
        data_dir: models, configs, conversations, logs.
        settings: `settings.json` (data folder, active config); `.value`, `.changed`, `.put()`.
        app_settings: the app's own switches; `.value`, `.changed`, `.put()`.
        supervisor: the engine's process and state.
        look: colours and icons; `.changed` when they change between light and dark.
        notifier: notifications, as far as the person wants them.
        requests: what a view may ask of the shell.
        open_chats: all conversations; made at the first call and the same ever after, so that
            answers go on whatever window is open.
        close_chats: ends all answers and saves, if they were ever opened; for the program's end. What
            could not be saved is then in the file that it names.
    """

    data_dir: Path
    settings: PersonSettings
    app_settings: AppSettingsStore
    supervisor: Supervisor
    look: Look
    notifier: Notifier
    requests: Requests
    open_chats: Callable[[], ChatService]
    close_chats: Callable[[], Path | None]

    @property
    def http(self) -> EngineHttp:
        """Requests to the engine, for every thread; it follows the engine's address and key."""
        return self.supervisor.http

    @property
    def configs_dir(self) -> Path:
        """Where the run configs of installed models are."""
        return self.data_dir / "configs"

    @property
    def logs_dir(self) -> Path:
        """Where logs are."""
        return self.data_dir / "logs"
