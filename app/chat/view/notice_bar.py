"""A line above the composer, or below the list: something was not done, or can be undone."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import Qt, QTimer
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QToolButton, QWidget

from app.chat.view.theme import theme_of
from app.look.icons import put_icon


class NoticeBar(QFrame):
    """Hidden until there is something to say."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._label = QLabel(self)
        self._label.setTextFormat(Qt.TextFormat.PlainText)
        self._label.setWordWrap(True)
        self.button = QToolButton(self)
        self.close_button = QToolButton(self)
        self.close_button.setAutoRaise(True)
        self.close_button.setAccessibleName(self.tr("Close this notice"))
        put_icon(self.close_button, "close")
        self._action: Callable[[], None] | None = None
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.timeout.connect(self.hide)
        em = self.fontMetrics().height()
        layout = QHBoxLayout(self)
        layout.setContentsMargins(
            round(em * 0.6), round(em * 0.3), round(em * 0.3), round(em * 0.3)
        )
        layout.addWidget(self._label, 1)
        layout.addWidget(self.button)
        layout.addWidget(self.close_button)
        self.button.clicked.connect(lambda _checked=False: self._act())
        self.close_button.clicked.connect(lambda _checked=False: self.hide())
        self.hide()

    @property
    def text(self) -> str:
        """What it says."""
        return self._label.text()

    def say(
        self,
        text: str,
        *,
        seconds: float = 0.0,
        action: str = "",
        on_action: Callable[[], None] | None = None,
    ) -> None:
        """Show a sentence, with a button if an action is given; 0 seconds = until it is closed."""
        self._label.setText(text)
        self._label.setToolTip(text)
        self.setAccessibleName(text)
        self._action = on_action
        self.button.setText(action)
        self.button.setVisible(bool(action))
        self.show()
        if seconds:
            self._timer.start(round(seconds * 1000))
        else:
            self._timer.stop()

    def _act(self) -> None:
        self.hide()
        if self._action is not None:
            self._action()

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: ARG002
        """A rounded ground."""
        theme = theme_of(self)
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(theme.line)
        painter.setBrush(theme.code_head)
        painter.drawRoundedRect(self.rect().adjusted(0, 0, -1, -1), theme.em * 0.4, theme.em * 0.4)
