"""What a page is: a widget that asks something, and tells the window when it may be left."""

from __future__ import annotations

from typing import ClassVar

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtWidgets import QLabel, QPlainTextEdit, QToolButton, QVBoxLayout, QWidget

from engine.core.errors import ParameterValue
from installer.steps import Step
from installer.wizard.session import Session


class Page(QWidget):
    """Base of all pages.

    Attributes:
        step: the step that it is.

    Signals:
        changed: what it shows or needs has changed; the window looks at its buttons again.
        advance: the person did on the page what Next does.
        go_to: the person wants another step.
        relabel: the language was changed.
    """

    step: ClassVar[Step]
    changed = Signal()
    advance = Signal()
    go_to = Signal(object)
    relabel = Signal(object)

    def __init__(self, session: Session) -> None:
        super().__init__()
        self.session = session
        self.body = QVBoxLayout(self)
        self.body.setContentsMargins(0, 0, self.fontMetrics().height() // 2, 0)

    def say(self, key: str, **params: ParameterValue) -> str:
        """A text of this page: `title` is `welcome.title` on the welcome page."""
        return self.session.texts.say(f"{self.step.value}.{key}", **params)

    @property
    def intro(self) -> str:
        """The sentence below the title."""
        return self.say("intro")

    def enter(self) -> None:
        """The page is shown from now on."""

    def leave(self) -> None:
        """The page is left, in whatever direction; work that it alone needs ends."""

    def can_go_on(self) -> bool:
        """Whether Next does something."""
        return self.session.installation.problem is None

    def is_busy(self) -> bool:
        """Whether closing the window would stop something that the person waits for."""
        return False


class WrappedLabel(QLabel):
    """A label that wraps at any width; Qt's own asks for the width of a well-shaped paragraph."""

    def minimumSizeHint(self) -> QSize:  # Qt's name
        """A few words."""
        em = self.fontMetrics().height()
        return QSize(min(6 * em, super().minimumSizeHint().width()), em)


def text_label(text: str = "", *, is_small: bool = False) -> QLabel:
    """A label that wraps, and whose text can be marked with mouse and keyboard."""
    label = WrappedLabel(text)
    label.setWordWrap(True)
    label.setTextFormat(Qt.TextFormat.PlainText)
    label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    if is_small:
        font = label.font()
        font.setPointSizeF(font.pointSizeF() * 0.9)
        label.setFont(font)
    return label


class Details(QWidget):
    """Text that is shown when the person asks for it."""

    def __init__(self, title: str) -> None:
        super().__init__()
        self.button = QToolButton()
        self.button.setText(title)
        self.button.setCheckable(True)
        self.button.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self.button.setArrowType(Qt.ArrowType.RightArrow)
        self.button.setAutoRaise(True)
        self.text = QPlainTextEdit()
        self.text.setReadOnly(True)
        self.text.setTabChangesFocus(True)
        self.text.setAccessibleName(title.replace("&", ""))
        self.text.setMaximumBlockCount(1000)
        self.text.setMinimumHeight(self.fontMetrics().height() * 8)
        self.text.hide()
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.button)
        layout.addWidget(self.text)
        self.button.toggled.connect(self._toggle)

    def set_lines(self, lines: list[str]) -> None:
        """Replace the text."""
        self.text.setPlainText("\n".join(lines))

    def add_line(self, line: str) -> None:
        """Add a line at the end."""
        self.text.appendPlainText(line)

    def _toggle(self, is_open: bool) -> None:  # Qt's signal
        self.text.setVisible(is_open)
        arrow = Qt.ArrowType.DownArrow if is_open else Qt.ArrowType.RightArrow
        self.button.setArrowType(arrow)
