"""Starts the app: one for each person, its parts made once, the window first and the rest after it.

    python -m app                   the window, or the window of the app that runs already
    python -m app --chat            the same, with the chat in it
    python -m app --at-login        beside the clock, without a window

Exit status: 0 success, 2 wrong use or unusable settings, 1 anything else.
"""

from __future__ import annotations

import argparse
import logging
import logging.handlers
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QMessageBox

from app.app_settings import AppSettingsStore, app_settings_path
from app.background import unexpected
from app.context import AppContext, Requests
from app.end_signals import EndSignals
from app.error_words import error_words
from app.i18n.translate import Translations
from app.instance import Instance, Wish
from app.look.icons import app_icon
from app.look.look import Look
from app.person_settings import PersonSettings
from app.priority import take_normal_priority
from app.shell import Shell, language_to_speak
from app.supervisor.supervisor import Supervisor
from app.tray.notifications import Notifier
from engine import __version__
from engine.core.errors import EngineError
from engine.core.language import Language, system_language
from engine.core.settings import settings_path

if TYPE_CHECKING:
    from app.chat.service import ChatService

logger = logging.getLogger(__name__)

_LOG_BYTES = 1 << 20


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until the person quits; the result is the exit status."""
    _open_missing_streams()
    options = _parser().parse_args(arguments)
    _name_for_task_bar()
    app = QApplication(sys.argv[:1])
    app.setApplicationName("Stratum")
    app.setApplicationVersion(__version__)
    app.setDesktopFileName("stratum")
    # Without a window the sign beside the clock goes on; `Shell` ends the program.
    app.setQuitOnLastWindowClosed(False)
    app.setWindowIcon(app_icon())
    translations = Translations()
    translations.speak(options.language or system_language())
    try:
        return _run(app, options, translations)
    except EngineError as error:
        logger.info("ended with %s", error.code, exc_info=True)
        sys.stderr.write(f"app: {error}\n")
        _show_error(app, error_words(error))
        return error.exit_status


def _run(app: QApplication, options: argparse.Namespace, translations: Translations) -> int:
    instance = Instance(parent=app)
    if not instance.claim(_wish_of(options)):
        return 0
    settings = PersonSettings(settings_path(), app)
    data_dir = settings.value.data_dir
    _open_log(data_dir / "logs" / "app.log")
    logger.info("Stratum %s starts", __version__)
    take_normal_priority()
    context = make_context(app, settings, data_dir)
    if options.language is not None:
        store = context.app_settings
        store.put(store.value.model_copy(update={"language": options.language}))
    translations.speak(language_to_speak(context))
    shell = Shell(app, context, translations)
    instance.asked.connect(shell.obey)
    instance.is_ending = lambda: shell.quitting.has_begun
    end_signals = EndSignals(app)
    end_signals.wanted.connect(shell.quit)
    sys.excepthook = _say_fault
    shell.start(at_login=options.at_login)
    status = app.exec()
    end_signals.close()
    instance.close()
    return status


def make_context(app: QApplication, settings: PersonSettings, data_dir: Path) -> AppContext:
    """The parts that the windows share."""
    app_settings = AppSettingsStore(app_settings_path(), app)
    supervisor = Supervisor(data_dir, settings.value.active_config, app)
    notifier = Notifier(app_settings, app)

    opened: list[ChatService] = []

    def open_chats() -> ChatService:
        if not opened:
            from app.chat.service import ChatService  # noqa: PLC0415  # after the window is there

            chats = ChatService(data_dir, supervisor.http, app)
            chats.follow(supervisor)

            def tell(chat_id: str, _message_id: str, seconds: float) -> None:
                notifier.answer_ended(chats.controller(chat_id).conversation.title, seconds)

            chats.answer_ended.connect(tell)
            opened.append(chats)
        return opened[0]

    return AppContext(
        data_dir=data_dir,
        settings=settings,
        app_settings=app_settings,
        supervisor=supervisor,
        look=Look(app, app_settings.value.theme),
        notifier=notifier,
        requests=Requests(app),
        open_chats=open_chats,
        close_chats=lambda: opened[0].close() if opened else None,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m app",
        allow_abbrev=False,
        description="Stratum's sign beside the clock, its chat, monitor and settings. The environment "
        "variable STRATUM_HOME names another folder for everything it keeps.",
    )
    parser.add_argument("--at-login", action="store_true", help="start without a window")
    parser.add_argument("--chat", action="store_true", help="open the chat, also when it runs")
    parser.add_argument("--language", type=Language, choices=list(Language), help="of the texts")
    return parser


def _wish_of(options: argparse.Namespace) -> Wish:
    """What the app that runs already should do."""
    if options.at_login:
        return Wish.NOTHING
    return Wish.OPEN_CHAT if options.chat else Wish.RAISE


def _open_missing_streams() -> None:
    """Started without a console (pythonw) there are no streams; what is printed goes nowhere."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115  # until the end


def _name_for_task_bar() -> None:
    """Without a name of its own Windows shows the window as Python's, with Python's icon."""
    if sys.platform == "win32":
        import ctypes  # noqa: PLC0415  # its windll exists only there

        ctypes.windll.shell32.SetCurrentProcessExplicitAppUserModelID("Stratum.App")


def _open_log(path: Path) -> None:
    """Keep what a supporter would want to see; without a place for it nothing is kept."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handler = logging.handlers.RotatingFileHandler(
            path, maxBytes=_LOG_BYTES, backupCount=2, encoding="utf-8"
        )
    except OSError as error:
        sys.stderr.write(f"app: no log is kept: {error}\n")
        return
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.getLogger().addHandler(handler)
    logging.getLogger().setLevel(logging.INFO)


def _say_fault(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """What Qt calls for an error in one of our functions that nobody caught: logged, and shown."""
    logger.error("a fault", exc_info=(kind, error, trace))
    said = error if isinstance(error, EngineError) else unexpected(error)
    box = QMessageBox(QMessageBox.Icon.Warning, "Stratum", error_words(said))
    box.setTextFormat(Qt.TextFormat.PlainText)
    box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    box.open()


def _show_error(app: QApplication, sentence: str) -> None:
    """Show one sentence until it is closed, for a start that comes to nothing."""
    box = QMessageBox(QMessageBox.Icon.Warning, "Stratum", sentence)
    box.setTextFormat(Qt.TextFormat.PlainText)
    box.setStandardButtons(QMessageBox.StandardButton.Close)
    box.finished.connect(app.quit)
    box.show()
    app.exec()
