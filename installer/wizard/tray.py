"""The sign beside the clock while a download goes on without a window."""

from __future__ import annotations

from PySide6.QtCore import QObject, Signal
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QMenu, QSystemTrayIcon, QWidget

from installer.steps import Step
from installer.wizard.look import app_icon
from installer.wizard.page import Page
from installer.wizard.pages.download import DownloadPage
from installer.wizard.session import Session


class DownloadTray(QObject):
    """The sign and its menu.

    Signals:
        show_window: the person wants the window back.
        pause: pause, or go on.
        quit: stop the download and quit.
    """

    show_window = Signal()
    pause = Signal()
    quit = Signal()

    def __init__(self, session: Session, parent: QWidget) -> None:
        super().__init__(parent)
        self._session = session
        texts = session.texts
        self._menu = QMenu(parent)
        self._menu.addAction(texts.say("tray.show"), self.show_window.emit)
        self._pause_action: QAction = self._menu.addAction(texts.say("tray.pause"), self.pause.emit)
        self._menu.addSeparator()
        self._menu.addAction(texts.say("tray.quit"), self.quit.emit)
        self._icon = QSystemTrayIcon(app_icon(), self)
        self._icon.setContextMenu(self._menu)
        self._icon.activated.connect(self._activated)

    @staticmethod
    def is_possible() -> bool:
        """Whether this desktop shows such signs; some do not, and a hidden program would be lost."""
        return QSystemTrayIcon.isSystemTrayAvailable()

    def show(self, page: DownloadPage) -> None:
        """Take the window's place."""
        self._icon.show()
        self.refresh(page)
        self._say("tray.goes_on")

    def hide(self) -> None:
        """The window is back."""
        self._icon.hide()

    def refresh(self, page: Page) -> None:
        """Show the state of the download."""
        if isinstance(page, DownloadPage) and self._icon.isVisible():
            self._icon.setToolTip(f"Stratum\n{page.status_line}")
            key = "tray.resume" if page.is_paused else "tray.pause"
            self._pause_action.setText(self._session.texts.say(key))

    def tell_end(self, page: Page) -> None:
        """Notify of the download's end, if it has ended."""
        if page.is_busy():
            return
        is_ready = page.step is not Step.DOWNLOAD or page.can_go_on()
        self._say("tray.ready" if is_ready else "tray.failed")

    def _say(self, key: str) -> None:
        if self._icon.supportsMessages():
            self._icon.showMessage("Stratum", self._session.texts.say(key), app_icon())

    def _activated(self, reason: QSystemTrayIcon.ActivationReason) -> None:
        if reason is not QSystemTrayIcon.ActivationReason.Context:
            self.show_window.emit()
