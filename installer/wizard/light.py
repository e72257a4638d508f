"""A light in green, amber, red or grey, which also differs by its sign: not everybody sees colours."""

from __future__ import annotations

import enum

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPen, QPolygonF
from PySide6.QtWidgets import QSizePolicy, QWidget


class Light(enum.StrEnum):
    """What a light says."""

    GREEN = "green"
    AMBER = "amber"
    RED = "red"
    GREY = "grey"


# Each stands out from a white and from a nearly black window (contrast 3 : 1 or more).
_COLOURS = {
    Light.GREEN: QColor("#2e9e4f"),
    Light.AMBER: QColor("#c77700"),
    Light.RED: QColor("#d93636"),
    Light.GREY: QColor("#808080"),
}


class LightSign(QWidget):
    """Shows one light."""

    def __init__(self, light: Light, word: str, ems: float = 1.3) -> None:
        """Make it.

        Args:
            light: what it shows.
            word: what a screen reader says.
            ems: its size, in heights of the font.
        """
        super().__init__()
        self._light = light
        self._ems = ems
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self.set_light(light, word)

    @property
    def light(self) -> Light:
        """What it shows."""
        return self._light

    def set_light(self, light: Light, word: str) -> None:
        """Show another light."""
        self._light = light
        self.setAccessibleName(word)
        self.setToolTip(word)
        self.update()

    def sizeHint(self) -> QSize:
        """Square, after the font."""
        side = round(self.fontMetrics().height() * self._ems)
        return QSize(side, side)

    def paintEvent(self, event: QPaintEvent) -> None:  # noqa: ARG002  # Qt's name
        """Paint a disc with a sign."""
        side = min(self.width(), self.height())
        unit = side / 16
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(_COLOURS[self._light])
        painter.drawEllipse(QRectF(unit, unit, side - 2 * unit, side - 2 * unit))
        pen = QPen(QColor("white"), 1.8 * unit)
        pen.setCapStyle(Qt.PenCapStyle.RoundCap)
        painter.setPen(pen)
        painter.setBrush(Qt.BrushStyle.NoBrush)

        def line(*points: tuple[float, float]) -> None:
            painter.drawPolyline(QPolygonF([QPointF(x * unit, y * unit) for x, y in points]))

        if self._light is Light.GREEN:
            line((4.8, 8.3), (7.1, 10.6), (11.3, 5.8))
        elif self._light is Light.RED:
            line((5.5, 5.5), (10.5, 10.5))
            line((10.5, 5.5), (5.5, 10.5))
        elif self._light is Light.AMBER:
            line((8, 4.5), (8, 8.8))
            line((8, 11.4), (8, 11.5))
        else:
            line((5.5, 8), (10.5, 8))
        painter.end()
