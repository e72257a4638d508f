"""The list of steps at the window's left side. For the eyes only: the window says it to others."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QColor, QFont, QPainter, QPaintEvent, QPalette
from PySide6.QtWidgets import QSizePolicy, QWidget

_ROW_EMS = 2.0


class StepList(QWidget):
    """Names of the steps, with a mark at the current one."""

    def __init__(self) -> None:
        super().__init__()
        self._names: list[str] = []
        self._current = 0
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Expanding)
        self.setAccessibleName("")

    def show_steps(self, names: list[str], current: int) -> None:
        """Show these names; `current` counts from 0."""
        self._names, self._current = names, current
        self.updateGeometry()
        self.update()

    def sizeHint(self) -> QSize:
        """As wide as the longest name."""
        em = self.fontMetrics().height()
        bold = QFont(self.font())
        bold.setBold(True)
        widest = max(
            (self.fontMetrics().horizontalAdvance(name) for name in self._names), default=0
        )
        return QSize(round(widest * 1.15 + 3.6 * em), round(len(self._names) * _ROW_EMS * em))

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: ARG002  # Qt's name
        """Paint the names; steps that lie behind have a tick."""
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        palette = self.palette()
        painter.fillRect(self.rect(), palette.color(QPalette.ColorRole.AlternateBase))
        em = self.fontMetrics().height()
        text = palette.color(QPalette.ColorRole.WindowText)
        dim = QColor(text)
        dim.setAlphaF(0.62)
        accent = palette.color(QPalette.ColorRole.Highlight)
        for number, name in enumerate(self._names):
            top = round((0.8 + number * _ROW_EMS) * em)
            row = round(_ROW_EMS * em)
            is_current = number == self._current
            font = QFont(self.font())
            font.setBold(is_current)
            painter.setFont(font)
            painter.setPen(text if is_current else dim)
            painter.drawText(
                round(2.4 * em),
                top,
                self.width() - round(2.4 * em),
                row,
                int(Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft),
                name,
            )
            if is_current:
                painter.fillRect(0, top, round(0.25 * em), row, accent)
            mark = "✓" if number < self._current else "•"
            painter.drawText(
                round(0.9 * em), top, round(1.2 * em), row, int(Qt.AlignmentFlag.AlignVCenter), mark
            )
        painter.end()
