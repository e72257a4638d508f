"""Keys of the chat, and the overview of them. Every action is here once, so the overview is complete."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from PySide6.QtCore import Qt
from PySide6.QtGui import QKeySequence, QShortcut
from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QGridLayout,
    QLabel,
    QScrollArea,
    QVBoxLayout,
    QWidget,
)

from app.look.look import enlarge


@dataclass(frozen=True, slots=True)
class Key:
    """A key and what it does.

    Attributes:
        keys: in Qt's portable words, such as `Ctrl+N`; the first is shown.
        words: what it does.
        act: None for keys that a widget handles itself, which are only listed.
    """

    keys: tuple[str, ...]
    words: str
    act: Callable[[], None] | None = None


@dataclass(frozen=True, slots=True)
class KeyGroup:
    """Keys that belong together."""

    title: str
    keys: tuple[Key, ...]


def set_up_keys(widget: QWidget, groups: tuple[KeyGroup, ...]) -> list[QShortcut]:
    """Make the keys work while the focus is in the widget."""
    made = []
    for group in groups:
        for key in group.keys:
            if key.act is None:
                continue
            for keys in key.keys:
                shortcut = QShortcut(QKeySequence(keys), widget)
                shortcut.setContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
                shortcut.activated.connect(key.act)
                made.append(shortcut)
    return made


class KeyOverview(QDialog):
    """A list of all keys."""

    def __init__(self, groups: tuple[KeyGroup, ...], parent: QWidget) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle(self.tr("Keyboard"))
        em = self.fontMetrics().height()
        page = QWidget()
        grid = QGridLayout(page)
        grid.setHorizontalSpacing(em * 2)
        row = 0
        for group in groups:
            title = QLabel(group.title, page)
            enlarge(title, 1.1, is_bold=True)
            grid.addWidget(title, row, 0, 1, 2)
            row += 1
            for key in group.keys:
                shown = QKeySequence(key.keys[0]).toString(QKeySequence.SequenceFormat.NativeText)
                name = QLabel(shown or key.keys[0], page)
                grid.addWidget(name, row, 0)
                grid.addWidget(QLabel(key.words, page), row, 1)
                row += 1
            grid.setRowMinimumHeight(row, round(em * 0.6))
            row += 1
        grid.setColumnStretch(1, 1)
        scroll = QScrollArea(self)
        scroll.setWidget(page)
        scroll.setWidgetResizable(True)
        scroll.setFrameShape(QScrollArea.Shape.NoFrame)
        scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        bar = scroll.verticalScrollBar().sizeHint().width()
        scroll.setMinimumWidth(page.sizeHint().width() + bar + em)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close, self)
        buttons.rejected.connect(self.reject)
        layout = QVBoxLayout(self)
        layout.addWidget(scroll, 1)
        layout.addWidget(buttons)
        self.resize(em * 30, em * 32)
