"""What a page of the settings is made of: a column that scrolls, headings, hints, a line for errors."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QGuiApplication, QPalette
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QScrollArea,
    QVBoxLayout,
    QWidget,
)

from app.look.icons import icon, put_icon
from app.look.look import em, enlarge
from app.settings.hub import Hub

_MOST_WIDTH_EMS = 56


class SettingsPage(QWidget):
    """Base of all pages.

    Attributes:
        hub: what the pages share.
        body: the column.
    """

    def __init__(self, hub: Hub) -> None:
        super().__init__()
        self.hub = hub
        column = QWidget()
        column.setMaximumWidth(_MOST_WIDTH_EMS * em(self))
        self.body = QVBoxLayout(column)
        self.body.setContentsMargins(em(self), em(self), em(self), em(self))
        self.body.setSpacing(em(self) // 2)
        holder = QWidget()
        middle = QHBoxLayout(holder)
        middle.setContentsMargins(0, 0, 0, 0)
        middle.addWidget(column, 1)
        middle.addStretch(0)
        scroll = QScrollArea()
        scroll.setWidgetResizable(True)
        scroll.setFrameShape(QFrame.Shape.NoFrame)
        scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        scroll.setWidget(holder)
        self.scroll_area = scroll
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addWidget(scroll)

    def enter(self) -> None:
        """The page is shown; what may have changed meanwhile is read again."""

    def leave(self) -> None:
        """The page is hidden: keys are hidden again."""

    def add_title(self, text: str) -> QLabel:
        """The page's own heading."""
        label = plain_label(text)
        enlarge(label, 1.5, is_bold=True)
        self.body.addWidget(label)
        return label

    def add_heading(self, text: str) -> QLabel:
        """A heading inside the page."""
        label = plain_label(text)
        enlarge(label, 1.1, is_bold=True)
        label.setContentsMargins(0, em(self) // 2, 0, 0)
        self.body.addWidget(label)
        return label

    def add_hint(self, text: str) -> QLabel:
        """A sentence below something, in the colour of things of less weight."""
        label = hint_label(text)
        self.body.addWidget(label)
        return label


class WrappedLabel(QLabel):
    """A label that wraps at any width; Qt's own asks for the width of a well-shaped paragraph."""

    def minimumSizeHint(self) -> QSize:  # Qt's name
        """A few words."""
        unit = self.fontMetrics().height()
        return QSize(min(6 * unit, super().minimumSizeHint().width()), unit)


def plain_label(text: str = "") -> QLabel:
    """A label that wraps, and whose text can be marked."""
    label = WrappedLabel(text)
    label.setTextFormat(Qt.TextFormat.PlainText)
    label.setWordWrap(True)
    label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    return label


def hint_label(text: str = "") -> QLabel:
    """A small label for explanations."""
    label = plain_label(text)
    label.setForegroundRole(QPalette.ColorRole.PlaceholderText)
    enlarge(label, 0.92)
    return label


class Notice(QFrame):
    """A line that says what went wrong, or what was done; hidden while there is nothing to say."""

    def __init__(self) -> None:
        super().__init__()
        self.setFrameShape(QFrame.Shape.StyledPanel)
        self._picture = QLabel()
        self.label = plain_label()
        layout = QHBoxLayout(self)
        layout.setContentsMargins(em(self) // 2, em(self) // 3, em(self) // 2, em(self) // 3)
        layout.addWidget(self._picture, 0, Qt.AlignmentFlag.AlignTop)
        layout.addWidget(self.label, 1)
        self.hide()

    def say(self, text: str, *, is_problem: bool = False) -> None:
        """Show a sentence; an empty one hides the line."""
        name = "warning" if is_problem else "info"
        self._picture.setPixmap(icon(name).pixmap(em(self), em(self)))
        self.label.setText(text)
        self.setVisible(bool(text))

    @property
    def text(self) -> str:
        """What is shown."""
        return self.label.text() if not self.isHidden() else ""


def button(text: str, icon_name: str = "") -> QPushButton:
    """A button, with an icon if one is named."""
    made = QPushButton(text)
    if icon_name:
        put_icon(made, icon_name)
    return made


def row_of(*widgets: QWidget, stretch: bool = True) -> QHBoxLayout:
    """Widgets side by side, at the left."""
    row = QHBoxLayout()
    row.setContentsMargins(0, 0, 0, 0)
    for widget in widgets:
        row.addWidget(widget)
    if stretch:
        row.addStretch(1)
    return row


def copy_text(text: str) -> None:
    """Put a text on the clipboard."""
    QGuiApplication.clipboard().setText(text)
