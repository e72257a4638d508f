"""The engine's log in a window: follows what is written, while somebody looks.

Only the end of a large log is read. The log holds no text of a conversation and no key.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from PySide6.QtCore import Qt, QTimer, QUrl
from PySide6.QtGui import QDesktopServices, QFontDatabase, QGuiApplication, QHideEvent, QShowEvent
from PySide6.QtWidgets import QHBoxLayout, QLabel, QPlainTextEdit, QPushButton, QVBoxLayout, QWidget

from app.look.icons import app_icon, put_icon
from app.look.look import em

FIRST_BYTES = 256 << 10
_MOST_LINES = 20_000
_POLL_MS = 700


class LogTail:
    """Reads what is new at the end of a file that another program writes, and begins anew with it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._position = -1
        self._identity = 0
        self._left = b""

    def read(self) -> tuple[str, bool]:
        """New whole lines, and whether they belong to a new file (what was shown is then old)."""
        try:
            with self.path.open("rb") as file:
                stat = self.path.stat()
                is_new = self._position < 0 or (
                    stat.st_ino != self._identity or stat.st_size < self._position
                )
                if is_new:
                    self._identity = stat.st_ino
                    self._position = max(0, stat.st_size - FIRST_BYTES)
                    self._left = b""
                file.seek(self._position)
                data = self._left + file.read(4 * FIRST_BYTES)
                self._position = file.tell()
        except OSError:
            return "", False
        # A letter may be half written.
        whole, newline, self._left = data.rpartition(b"\n")
        return (whole + newline).decode("utf-8", errors="replace"), is_new


class LogWindow(QWidget):
    """The window."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.setWindowTitle(self.tr("Stratum: log"))
        self.setWindowIcon(app_icon())
        self._tail = LogTail(path)
        self.text = QPlainTextEdit()
        self.text.setReadOnly(True)
        self.text.setMaximumBlockCount(_MOST_LINES)
        self.text.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        self.text.setFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont))
        self.text.setAccessibleName(self.tr("Log"))
        self.text.setPlaceholderText(self.tr("Nothing has been written yet."))
        place = QLabel(str(path))
        place.setTextFormat(Qt.TextFormat.PlainText)
        place.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        copy = QPushButton(self.tr("Copy all"))
        put_icon(copy, "copy")
        copy.clicked.connect(self._copy)
        folder = QPushButton(self.tr("Open folder"))
        put_icon(folder, "folder")
        folder.clicked.connect(self._open_folder)
        below = QHBoxLayout()
        below.addWidget(place, 1)
        below.addWidget(copy)
        below.addWidget(folder)
        layout = QVBoxLayout(self)
        layout.addWidget(self.text)
        layout.addLayout(below)
        unit = em(self)
        self.resize(60 * unit, 30 * unit)
        self._timer = QTimer(self)
        self._timer.timeout.connect(self._follow)

    def showEvent(self, event: QShowEvent) -> None:  # Qt's name
        """Follow."""
        self._follow()
        self._timer.start(_POLL_MS)
        super().showEvent(event)

    def hideEvent(self, event: QHideEvent) -> None:  # noqa: N802  # Qt's name
        """Nobody looks: nothing is read."""
        self._timer.stop()
        super().hideEvent(event)

    def _follow(self) -> None:
        text, is_new = self._tail.read()
        if is_new:
            self.text.clear()
        if not text:
            return
        bar = self.text.verticalScrollBar()
        is_at_end = bar.value() >= bar.maximum() - 2
        self.text.appendPlainText(text.rstrip("\n"))
        if is_at_end or is_new:
            bar.setValue(bar.maximum())

    def _copy(self) -> None:
        QGuiApplication.clipboard().setText(self.text.toPlainText())

    def _open_folder(self) -> None:
        with contextlib.suppress(OSError):
            self._tail.path.parent.mkdir(parents=True, exist_ok=True)
        QDesktopServices.openUrl(QUrl.fromLocalFile(str(self._tail.path.parent)))
