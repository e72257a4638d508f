"""The sign itself: shows state and notices where the desktop has a place for it, and says where not.

Some desktops show no such signs, a panel may start later than we do or crash, and the person may not
want one: `is_there` answers for all of it, and `is_there_changed` says when the answer is another.
"""

from __future__ import annotations

from PySide6.QtCore import QObject, QTimer, Signal
from PySide6.QtWidgets import QSystemTrayIcon

from app.app_settings import AppSettings
from app.context import AppContext
from app.look.icons import app_icon
from app.state_words import tooltip_of
from app.supervisor.state import EngineState
from app.tray.menu import TrayMenu
from app.tray.notifications import Notice, NoticeKind
from app.tray.state_icon import state_icon
from app.views import View

LOOK_AGAIN_MS = 3000
_NOTICE_MS = 8000


class TraySign(QObject):
    """The sign and its menu.

    Signals:
        is_there_changed: with whether there is a sign now.
        clicked: the person wants the window.
    """

    is_there_changed = Signal(bool)
    clicked = Signal()

    def __init__(self, context: AppContext, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._context = context
        self.menu = TrayMenu(context)
        self._icon = QSystemTrayIcon(self)
        self._icon.setContextMenu(self.menu)
        self._icon.activated.connect(self._activated)
        self._icon.messageClicked.connect(self._notice_clicked)
        self._notice_view = View.CHAT
        self._is_there = False
        context.supervisor.state_changed.connect(self._show_state)
        context.notifier.shown.connect(self.show_notice)
        context.app_settings.changed.connect(self._settings_changed)
        self._show_state(context.supervisor.state)
        self.look_again()
        # A panel that comes or goes sends no signal on every desktop; asking costs microseconds.
        self._timer = QTimer(self)
        self._timer.timeout.connect(self.look_again)
        self._timer.start(LOOK_AGAIN_MS)

    @property
    def is_there(self) -> bool:
        """Whether the person can see the sign."""
        return self._is_there

    def look_again(self) -> None:
        """Show the sign where it can be shown, and take note when that is different from before."""
        is_wanted = self._context.app_settings.value.shows_tray
        is_there = is_wanted and QSystemTrayIcon.isSystemTrayAvailable()
        # Shown on a desktop without a panel, it would pop up unasked when a panel comes.
        if is_there != self._icon.isVisible():
            self._icon.setVisible(is_there)
        if is_there != self._is_there:
            self._is_there = is_there
            self.is_there_changed.emit(is_there)

    def remove(self) -> None:
        """Take the sign away: the program ends."""
        self._timer.stop()
        self._icon.hide()

    def show_notice(self, notice: Notice) -> None:
        """Show a notice beside the clock; without a sign nothing happens."""
        if not self._is_there or not self._icon.supportsMessages():
            return
        self._notice_view = notice.view
        if notice.kind is NoticeKind.ERROR:
            warning = QSystemTrayIcon.MessageIcon.Warning
            self._icon.showMessage(notice.title, notice.text, warning, _NOTICE_MS)
        else:
            self._icon.showMessage(notice.title, notice.text, app_icon(), _NOTICE_MS)

    def _show_state(self, state: EngineState) -> None:
        self._icon.setIcon(state_icon(state))
        self._icon.setToolTip(tooltip_of(state))

    def _settings_changed(self, _settings: AppSettings) -> None:
        self.look_again()
        self._show_state(self._context.supervisor.state)  # the language may be another

    def _activated(self, reason: QSystemTrayIcon.ActivationReason) -> None:
        if reason is not QSystemTrayIcon.ActivationReason.Context:
            self.clicked.emit()

    def _notice_clicked(self) -> None:
        self._context.requests.open_view.emit(self._notice_view)
