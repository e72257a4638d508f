"""Holds sign, window and small windows together, and decides what closing, quitting and asking mean."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path

from PySide6.QtCore import QObject, QProcess, Qt, QTimer
from PySide6.QtWidgets import QApplication, QMessageBox, QWidget

from app.app_settings import AppSettings
from app.closing import Closing, what_closing_does
from app.context import AppContext
from app.i18n.translate import Translations
from app.instance import Request, Wish
from app.main_window import MainWindow
from app.program_folder import PROGRAM_DIR
from app.quitting import Quitting
from app.supervisor.state import Phase
from app.tray.notifications import Notice, NoticeKind
from app.tray.sign import TraySign
from app.views import View
from engine.core.errors import EngineError
from engine.core.language import Language, language_of, system_language

logger = logging.getLogger(__name__)

# Started at login we may be there before the panel; after this long there is none.
PANEL_PATIENCE_MS = 20_000
# A panel that restarts is away for a moment.
PANEL_GONE_MS = 8_000


class Shell(QObject):
    """The program as the person meets it.

    Attributes:
        window: None until it was first shown.
        quitting: the way out.
    """

    def __init__(self, app: QApplication, context: AppContext, translations: Translations) -> None:
        super().__init__(app)
        self._app = app
        self._context = context
        self._translations = translations
        self.window: MainWindow | None = None
        self._small_windows: dict[str, QWidget] = {}
        self._rescue: Path | None = None
        self.quitting = Quitting(context.supervisor, self)
        self.quitting.done.connect(self._leave)
        self.sign = TraySign(context, self)
        self.sign.clicked.connect(self.raise_window)
        self.sign.is_there_changed.connect(self._sign_changed)
        context.notifier.shown.connect(self._show_notice)
        context.supervisor.state_changed.connect(context.notifier.state_changed)
        context.app_settings.changed.connect(self._settings_changed)
        requests = context.requests
        requests.open_view.connect(self.open_view)
        requests.add_model.connect(self._add_model)
        requests.show_log.connect(self._show_log)
        requests.show_about.connect(self._show_about)
        requests.quit.connect(self.quit)

    def start(self, *, at_login: bool) -> None:
        """Show what is to be seen first, and start the engine: it loads while the views are built."""
        if not at_login:
            self.open_view(View.CHAT)
        elif not self.sign.is_there:
            QTimer.singleShot(PANEL_PATIENCE_MS, self, self._need_window)
        if self._context.app_settings.value.starts_model:
            self._context.supervisor.start()

    def obey(self, request: Request) -> None:
        """Do what a second start asks for."""
        if self.quitting.has_begun:
            return
        if request.token:  # Qt takes it from there when a window asks to come to the front
            os.environ["XDG_ACTIVATION_TOKEN"] = request.token
        self._follow_active_config()
        if request.wish is Wish.OPEN_CHAT:
            self.open_view(View.CHAT)
        else:
            self.raise_window()

    def open_view(self, view: View) -> None:
        """Bring the window to the front with a view in it."""
        window = self._window()
        window.open_view(view)
        self.raise_window()

    def raise_window(self) -> None:
        """Bring the window to the front with what was last in it."""
        if self.quitting.has_begun:
            return
        window = self._window()
        window.setWindowState(window.windowState() & ~Qt.WindowState.WindowMinimized)
        window.show()
        window.raise_()
        window.activateWindow()

    def quit(self) -> None:
        """End the app and the engine."""
        if self.quitting.has_begun:
            return
        if self.window is not None:
            self.window.keep_geometry()
            self.window.hide()
        for window in self._small_windows.values():
            window.hide()
        self.sign.remove()
        # First: the engine would wait for their end.
        self._rescue = self._context.close_chats()
        self.quitting.begin()

    def is_sign_the_only_way(self) -> bool:
        """Whether nothing but the sign leads back to the program."""
        return self.window is None or not self.window.isVisible()

    # -- the window --------------------------------------------------------------------------------

    def _window(self) -> MainWindow:
        if self.window is None:
            self.window = MainWindow(self._context)
            self.window.closing_asked.connect(self._closing_asked)
            self.window.shown_changed.connect(self._window_shown)
        return self.window

    def _window_shown(self, is_shown: bool) -> None:  # a slot
        self._context.supervisor.set_watched(is_watched=is_shown)

    def _closing_asked(self) -> None:
        settings = self._context.app_settings.value
        self.sign.look_again()
        closing = what_closing_does(
            has_sign=self.sign.is_there,
            closes_to_tray=settings.closes_to_tray,
            is_busy=self._context.supervisor.state.phase is Phase.BUSY,
        )
        if closing is Closing.HIDE:
            self._hide_window()
        elif closing is Closing.QUIT:
            self.quit()
        else:
            self._ask_to_quit()

    def _hide_window(self) -> None:
        if self.window is not None:
            self.window.hide()
        store = self._context.app_settings
        if not store.value.has_seen_tray_note:
            store.put(store.value.model_copy(update={"has_seen_tray_note": True}))
            text = self.tr(
                "The model stays ready. Click this sign to have the window back; its menu has "
                "“Quit Stratum”."
            )
            notice = Notice(NoticeKind.NOTE, self.tr("Stratum goes on here"), text)
            self._context.notifier.tell(notice)

    def _ask_to_quit(self) -> None:
        box = QMessageBox(self.window)
        box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        box.setIcon(QMessageBox.Icon.Question)
        box.setWindowTitle("Stratum")
        box.setText(self.tr("The model is answering."))
        quit_button = box.addButton(
            self.tr("Stop and quit"), QMessageBox.ButtonRole.DestructiveRole
        )
        quit_button.clicked.connect(self.quit)
        if self.sign.is_there:
            box.setInformativeText(
                self.tr("It can go on beside the clock while the window is closed.")
            )
            stay = box.addButton(self.tr("Go on beside the clock"), QMessageBox.ButtonRole.YesRole)
            stay.clicked.connect(self._hide_window)
        else:
            box.setInformativeText(self.tr("Closing the window ends Stratum and its answer."))
            stay = box.addButton(self.tr("Keep the window"), QMessageBox.ButtonRole.RejectRole)
        box.setDefaultButton(stay)
        box.open()

    # -- the sign ----------------------------------------------------------------------------------

    def _sign_changed(self, is_there: bool) -> None:  # a slot
        logger.info("a sign beside the clock: %s", "shown" if is_there else "not possible")
        if is_there or self.quitting.has_begun:
            return
        if self._context.app_settings.value.shows_tray:
            QTimer.singleShot(PANEL_GONE_MS, self, self._need_window)
        else:
            self._need_window()

    def _need_window(self) -> None:
        """Never an unseen program: without a sign there is a window."""
        self.sign.look_again()
        if self.sign.is_there or self.quitting.has_begun or not self.is_sign_the_only_way():
            return
        logger.info("no sign is possible here: the window stays in the task bar")
        self._window().showMinimized()

    def _show_notice(self, _notice: Notice) -> None:
        """Where there is no sign, the window's entry in the task bar asks to be looked at."""
        if not self.sign.is_there and self.window is not None:
            self._app.alert(self.window)

    # -- what was asked for ------------------------------------------------------------------------

    def _show_log(self) -> None:
        if "log" not in self._small_windows:
            from app.log_window import LogWindow  # noqa: PLC0415  # seldom opened

            self._small_windows["log"] = LogWindow(self._context.supervisor.log_path)
        self._bring("log")

    def _show_about(self) -> None:
        from app.about import AboutDialog  # noqa: PLC0415  # seldom opened

        before = self._small_windows.pop("about", None)
        if before is not None:
            before.deleteLater()
        self._small_windows["about"] = AboutDialog(self._context)
        self._bring("about")

    def _bring(self, name: str) -> None:
        window = self._small_windows[name]
        window.show()
        window.raise_()
        window.activateWindow()

    def _add_model(self) -> None:
        is_started = QProcess.startDetached(
            sys.executable, ["-m", "installer", "--wizard"], str(PROGRAM_DIR)
        )
        if not is_started[0]:
            self._context.notifier.error(
                self.tr("The installer cannot be started. Run setup again.")
            )

    def _follow_active_config(self) -> None:
        """The installer starts the app when it has made another model the active one."""
        try:
            active = self._context.settings.reread().active_config
        except EngineError as error:
            logger.warning("the settings cannot be read: %s", error)
            return
        supervisor = self._context.supervisor
        if active is not None and active != supervisor.config_path:
            supervisor.choose(active)

    def _settings_changed(self, settings: AppSettings) -> None:
        self._context.look.set_theme(settings.theme)
        self._translations.speak(language_to_speak(self._context))

    def _leave(self) -> None:
        if self.window is not None:
            self.window.let_close()
        if self._rescue is None:
            self._exit()
            return
        logger.warning("what could not be saved is in %s", self._rescue)
        box = QMessageBox()
        box.setIcon(QMessageBox.Icon.Warning)
        box.setWindowTitle("Stratum")
        box.setTextFormat(Qt.TextFormat.PlainText)
        box.setText(
            self.tr(
                "The disk is full: what you wrote last could not be saved with your conversations. "
                "It is in {path}; import it once there is space."
            ).format(path=self._rescue)
        )
        box.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        box.finished.connect(self._exit)
        self._small_windows["rescue"] = box
        box.show()

    def _exit(self) -> None:
        # Not `quit`: it asks every window, and the one that says what is waited for does not close.
        self._app.exit(0)


def language_to_speak(context: AppContext) -> Language:
    """What the person chose here, else in the installer, else the system's language."""
    chosen = context.app_settings.value.language
    if chosen is not None:
        return chosen
    installed = (context.settings.value.model_extra or {}).get("language")
    return language_of(installed) if isinstance(installed, str) else system_language()
