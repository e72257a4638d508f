"""The one window: a side bar and the views, each built when it is first opened.

The window is on the screen before any view is: a view's packages are imported afterwards. What closing
means is decided by whoever made the window (`closing_asked`).
"""

from __future__ import annotations

import base64
import importlib
import logging

from PySide6.QtCore import QByteArray, QEvent, QSize, Qt, QTimer, Signal
from PySide6.QtGui import (
    QCloseEvent,
    QHideEvent,
    QKeySequence,
    QPaintEvent,
    QResizeEvent,
    QShortcut,
    QShowEvent,
)
from PySide6.QtWidgets import (
    QApplication,
    QHBoxLayout,
    QLabel,
    QStackedWidget,
    QVBoxLayout,
    QWidget,
)

from app.banner import Banner
from app.context import AppContext
from app.look.icons import app_icon
from app.look.look import em
from app.side_bar import SideBar
from app.views import View

logger = logging.getLogger(__name__)

# Where a view is, and its class; it takes the `AppContext`.
_VIEWS = {
    View.CHAT: ("app.chat.view.chat_view", "ChatView"),
    View.MONITOR: ("app.monitor.monitor_view", "MonitorView"),
    View.SETTINGS: ("app.settings.settings_view", "SettingsView"),
}
_WIDTH_EMS = 68
_HEIGHT_EMS = 45
_LEAST_WIDTH_EMS = 26
_LEAST_HEIGHT_EMS = 20
_FOLD_BELOW_EMS = 46


class MainWindow(QWidget):
    """The window.

    Signals:
        closing_asked: the person closes it; nothing has happened yet.
        shown_changed: with whether it is on the screen.
    """

    closing_asked = Signal()
    shown_changed = Signal(bool)

    def __init__(self, context: AppContext) -> None:
        super().__init__()
        self._context = context
        self._built: dict[View, QWidget] = {}
        self._wanted = View.CHAT
        self._may_close = False
        self._is_drawn = False
        self.setWindowTitle("Stratum")
        self.setWindowIcon(app_icon())
        self.side_bar = SideBar()
        self.banner = Banner(context)
        self._stack = QStackedWidget()
        self._stack.addWidget(QWidget())  # until the first view is there
        right = QVBoxLayout()
        right.setSpacing(0)
        right.addWidget(self.banner)
        right.addWidget(self._stack, 1)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(self.side_bar)
        layout.addLayout(right, 1)
        supervisor = context.supervisor
        self.side_bar.view_chosen.connect(self.open_view)
        self.side_bar.start_wanted.connect(supervisor.start)
        self.side_bar.stop_wanted.connect(supervisor.stop)
        self.side_bar.show_state(supervisor.state)
        supervisor.state_changed.connect(self.side_bar.show_state)
        QShortcut(QKeySequence("Ctrl+Q"), self, context.requests.quit.emit)
        QShortcut(QKeySequence("Ctrl+W"), self, self.close)
        self._set_sizes()

    @property
    def view(self) -> View:
        """What is shown."""
        return self._wanted

    def widget(self, view: View) -> QWidget | None:
        """A view that was opened; None while it was not."""
        return self._built.get(view)

    def open_view(self, view: View) -> None:
        """Show a view; when the window is on the screen already, at once."""
        self._wanted = view
        self.side_bar.check(view)
        if self._is_drawn:
            self._show_wanted()

    def let_close(self) -> None:
        """Close without asking: the program ends."""
        self._may_close = True
        self.close()

    def keep_geometry(self) -> None:
        """Remember place and size for the next start."""
        store = self._context.app_settings
        geometry = base64.b64encode(self.saveGeometry().data()).decode()
        store.put(store.value.model_copy(update={"window": geometry}))

    def paintEvent(self, event: QPaintEvent) -> None:  # Qt's name
        """Once the window itself is on the screen its view is built."""
        super().paintEvent(event)
        if not self._is_drawn:
            self._is_drawn = True
            QTimer.singleShot(0, self, self._show_wanted)

    def showEvent(self, event: QShowEvent) -> None:  # Qt's name
        """Show the view that was asked for while the window was hidden."""
        super().showEvent(event)
        self.side_bar.check(self._wanted)
        if self._is_drawn:
            QTimer.singleShot(0, self, self._show_wanted)
        if not event.spontaneous():
            self.shown_changed.emit(True)

    def hideEvent(self, event: QHideEvent) -> None:  # noqa: N802  # Qt's name
        """Tell."""
        super().hideEvent(event)
        if not event.spontaneous():
            self.shown_changed.emit(False)

    def closeEvent(self, event: QCloseEvent) -> None:  # Qt's name
        """Remember the place, and let somebody else decide."""
        self.keep_geometry()
        if self._may_close:
            event.accept()
            return
        event.ignore()
        self.closing_asked.emit()

    def resizeEvent(self, event: QResizeEvent) -> None:  # Qt's name
        """Fold the side bar when there is no room for words."""
        self.side_bar.fold(is_folded=event.size().width() < _FOLD_BELOW_EMS * em(self))
        super().resizeEvent(event)

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802  # Qt's name
        """A minimised window watches nothing."""
        if event.type() is QEvent.Type.WindowStateChange:
            self.shown_changed.emit(self.isVisible() and not self.isMinimized())
        super().changeEvent(event)

    def _show_wanted(self) -> None:
        if not self.isVisible():
            return
        view = self._wanted
        if view not in self._built:
            widget = self._build(view)
            self._built[view] = widget
            self._stack.addWidget(widget)
        self._stack.setCurrentWidget(self._built[view])
        focused = QApplication.focusWidget()
        if focused is None or not self._built[view].isAncestorOf(focused):
            self._built[view].setFocus(Qt.FocusReason.OtherFocusReason)

    def _build(self, view: View) -> QWidget:
        module, name = _VIEWS[view]
        try:
            widget = getattr(importlib.import_module(module), name)(self._context)
        except ImportError as error:  # a package is missing: the other views still work
            logger.exception("the view %s cannot be opened", view.value)
            sentence = self.tr("This view cannot be opened ({reason}). Run setup again.")
            label = QLabel(sentence.format(reason=error))
            label.setTextFormat(Qt.TextFormat.PlainText)
            label.setWordWrap(True)
            label.setAlignment(Qt.AlignmentFlag.AlignCenter)
            return label
        if not isinstance(widget, QWidget):
            raise TypeError(f"{module}.{name} is no widget")
        return widget

    def _set_sizes(self) -> None:
        unit = em(self)
        room = self.screen().availableSize()
        least = QSize(_LEAST_WIDTH_EMS * unit, _LEAST_HEIGHT_EMS * unit)
        self.setMinimumSize(least.boundedTo(room * 0.9))
        self.resize(QSize(_WIDTH_EMS * unit, _HEIGHT_EMS * unit).boundedTo(room * 0.92))
        kept = self._context.app_settings.value.window
        if kept:
            try:
                self.restoreGeometry(QByteArray(base64.b64decode(kept, validate=True)))
            except ValueError:
                logger.warning("the window's place was not kept well; it is forgotten")
