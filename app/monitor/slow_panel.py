"""The panel "Why is it slow?": the reasons that were measured, and a button that looks closer."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QPalette
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QPushButton, QVBoxLayout

from app.look.icons import icon, put_icon
from app.look.layouts import clear
from app.look.look import em, enlarge
from app.monitor.slow_words import FOR_YOUR_INFORMATION, sentence
from engine.core.note import Note


class SlowPanel(QFrame):
    """The panel.

    Signals:
        look_wanted: the person asks.
    """

    look_wanted = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.setFrameShape(QFrame.Shape.StyledPanel)
        self.setBackgroundRole(QPalette.ColorRole.Base)
        self.setAutoFillBackground(True)
        title = QLabel(self.tr("Why is it slow?"))
        enlarge(title, 1.1, is_bold=True)
        self.button = QPushButton(self.tr("Look closer"))
        self.button.setToolTip(
            self.tr("Measures memory and looks at other programs; takes some seconds.")
        )
        put_icon(self.button, "search")
        self.button.clicked.connect(self.look_wanted)
        head = QHBoxLayout()
        head.addWidget(title, 1)
        head.addWidget(self.button)
        self._intro = QLabel()
        self._intro.setWordWrap(True)
        self._rows = QVBoxLayout()
        self._rows.setSpacing(em(self) // 2)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(em(self), em(self) // 2, em(self), em(self) // 2)
        layout.addLayout(head)
        layout.addWidget(self._intro)
        layout.addLayout(self._rows)
        layout.addStretch(1)
        self._shown: tuple[Note, ...] | None = None
        self._has_looked = False
        self._is_looking = False
        self.show_reasons(())

    def begin_look(self) -> None:
        """The closer look has begun."""
        self._is_looking = True
        self.button.setEnabled(False)
        self._say_intro()

    def end_look(self, *, has_looked: bool) -> None:
        """The closer look is over."""
        self._is_looking = False
        self._has_looked = self._has_looked or has_looked
        self.button.setEnabled(True)
        self._say_intro()

    def show_reasons(self, notes: Sequence[Note]) -> None:
        """Show what was found; the same as before costs nothing."""
        found = tuple(notes)
        if found == self._shown:
            return
        self._shown = found
        clear(self._rows)
        for note in found:
            self._rows.addWidget(self._row(note))
        self._say_intro()

    @property
    def sentences(self) -> tuple[str, ...]:
        """What is shown."""
        return tuple(sentence(note) for note in self._shown or ())

    def _row(self, note: Note) -> QFrame:
        row = QFrame()
        picture = QLabel()
        name = "info" if note.code in FOR_YOUR_INFORMATION else "warning"
        picture.setPixmap(icon(name).pixmap(em(self), em(self)))
        text = QLabel(sentence(note))
        text.setTextFormat(Qt.TextFormat.PlainText)
        text.setWordWrap(True)
        text.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        layout = QHBoxLayout(row)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(picture, 0, Qt.AlignmentFlag.AlignTop)
        layout.addWidget(text, 1)
        return row

    def _say_intro(self) -> None:
        if self._is_looking:
            self._intro.setText(self.tr("Looking…"))
        elif self._shown:
            self._intro.setText(self.tr("Measured on this PC, the gravest first:"))
        elif self._has_looked:
            self._intro.setText(self.tr("Nothing unusual was measured."))
        else:
            self._intro.setText(self.tr("Nothing unusual so far. A closer look measures more."))
        self._intro.setVisible(True)
