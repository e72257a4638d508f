"""Small plots of the last minutes.

pyqtgraph takes a second to import: that is done in steps when the monitor is first opened, after it has
been drawn, and the plots are made when it is there.

A plot draws one or two lines without axes; what they show stands beside it as a number. Ranges move
in steps, so that a new sample moves the line and nothing else is computed.
"""

from __future__ import annotations

import importlib
import math
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QPalette
from PySide6.QtWidgets import QFrame, QGridLayout, QHBoxLayout, QLabel, QVBoxLayout, QWidget

from app.look.look import em, enlarge
from app.monitor.series import Series

if TYPE_CHECKING:
    import pyqtgraph

# Two minutes at one sample a second.
SAMPLES = 120
_COLOURS = {False: ("#1f7a93", "#b0652a"), True: ("#58b7cf", "#e0a060")}
_FILL_ALPHA = 48
_TILE_EMS = 15
_MOST_COLUMNS = 4


# numpy, what pyqtgraph imports of Qt, and it itself: each for one turn of the event loop. Not in a thread:
# PySide 6.12 has a hand in every import, and crashed when one ran there while the window drew.
IMPORTS = (
    *("numpy", "PySide6.QtSvg", "PySide6.QtTest", "PySide6.QtOpenGL", "PySide6.QtOpenGLWidgets"),
    "pyqtgraph",
)


def load_step(name: str) -> None:
    """Import one of `IMPORTS`, on the main thread."""
    hook = sys.excepthook
    importlib.import_module(name)
    sys.excepthook = hook  # pyqtgraph puts one of its own there, for its console


class Tile(QFrame):
    """A figure with its plot.

    Attributes:
        title: what it is.
        series: the lines; the first is filled.
    """

    def __init__(self, title: str, *, lines: int = 1, top: float | None = None) -> None:
        """Make it; the plot comes with `add_plot`.

        Args:
            title: what it is.
            lines: how many lines are drawn.
            top: the upper end of the plot; None to follow the values.
        """
        super().__init__()
        self.title = title
        self.series = tuple(Series(SAMPLES) for _ in range(lines))
        self._top = top
        self._shown_top = 0.0
        self._plot: pyqtgraph.PlotWidget | None = None
        self._curves: list[pyqtgraph.PlotCurveItem] = []
        self.setFrameShape(QFrame.Shape.StyledPanel)
        self.setBackgroundRole(QPalette.ColorRole.Base)
        self.setAutoFillBackground(True)
        self._name = QLabel(title)
        self._value = QLabel("")
        enlarge(self._value, 1.15, is_bold=True)
        self._value.setAlignment(Qt.AlignmentFlag.AlignRight)
        for label in (self._name, self._value):
            label.setTextFormat(Qt.TextFormat.PlainText)
        head = QHBoxLayout()
        head.addWidget(self._name, 1)
        head.addWidget(self._value)
        self._layout = QVBoxLayout(self)
        self._layout.setContentsMargins(em(self) // 2, em(self) // 3, em(self) // 2, em(self) // 3)
        self._layout.setSpacing(em(self) // 5)
        self._layout.addLayout(head)
        self._room = QWidget()
        self._room.setFixedHeight(3 * em(self))
        self._layout.addWidget(self._room)
        self.setAccessibleName(title)

    @property
    def has_plot(self) -> bool:
        """Whether something is drawn."""
        return self._plot is not None

    def add_plot(self, *, is_dark: bool) -> None:
        """Begin to draw; all of `IMPORTS` must be there."""
        import pyqtgraph  # noqa: PLC0415  # heavy: only when the monitor is open

        plot = pyqtgraph.PlotWidget(background=None, enableMenu=False)
        plot.setFixedHeight(self._room.height())
        plot.setFrameShape(QFrame.Shape.NoFrame)
        plot.setMouseEnabled(x=False, y=False)
        plot.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        plot.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        plot.hideButtons()
        plot.hideAxis("left")
        plot.hideAxis("bottom")
        plot.getPlotItem().getViewBox().setDefaultPadding(0)
        plot.setXRange(0, SAMPLES - 1, padding=0)
        self._plot = plot
        for number in range(len(self.series)):
            curve = pyqtgraph.PlotCurveItem(
                connect="finite",
                skipFiniteCheck=True,
                fillLevel=0 if number == 0 else None,
            )
            plot.addItem(curve)
            self._curves.append(curve)
        self._layout.replaceWidget(self._room, plot)
        self._room.hide()
        self.set_colours(is_dark=is_dark)
        self._set_top()
        self.draw()

    def set_colours(self, *, is_dark: bool) -> None:
        """Take the colours of light or dark windows."""
        for curve, colour in zip(self._curves, _COLOURS[is_dark], strict=False):
            curve.setPen(colour)
            fill = QColor(colour)
            fill.setAlpha(_FILL_ALPHA)
            curve.setBrush(fill)

    def add(self, *values: float | None) -> None:
        """The newest values, one for each line."""
        for series, value in zip(self.series, values, strict=True):
            series.add(value)

    def show_value(self, text: str) -> None:
        """The number beside the plot."""
        if text != self._value.text():
            self._value.setText(text)
            self.setAccessibleDescription(text)

    def draw(self) -> None:
        """Bring the lines up to date."""
        if self._plot is None:
            return
        import numpy  # noqa: PLC0415  # as above

        self._set_top()
        for series, curve in zip(self.series, self._curves, strict=True):
            curve.setData(numpy.asarray(series.values()))

    def _set_top(self) -> None:
        if self._plot is None:
            return
        top = self._top or step_above(max(series.largest for series in self.series))
        if top != self._shown_top:
            self._shown_top = top
            self._plot.setYRange(0, top * 1.04, padding=0)


def step_above(value: float) -> float:
    """The next of 1, 2, 5, 10, 20, ... above a value; 1 for nothing at all.

    >>> step_above(0.0), step_above(3.0), step_above(700.0)
    (1.0, 5.0, 1000.0)
    """
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(power * step for step in (1, 2, 5, 10) if value <= power * step)


class TileGrid(QWidget):
    """Tiles in as many columns as there is room for."""

    def __init__(self) -> None:
        super().__init__()
        self._columns = 1
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._tiles: list[Tile] = []
        self._placed: list[Tile] = []

    @property
    def tiles(self) -> tuple[Tile, ...]:
        """All of them."""
        return tuple(self._tiles)

    def put(self, tiles: Sequence[Tile]) -> None:
        """Show these."""
        for tile in self._tiles:
            if tile not in tiles:
                tile.hide()
        self._tiles = list(tiles)
        self._arrange()

    def use_width(self, width: int) -> None:
        """Take as many columns as fit into a width."""
        columns = max(1, min(_MOST_COLUMNS, width // (_TILE_EMS * em(self))))
        if columns != self._columns:
            self._columns = columns
            self._arrange()

    def _arrange(self) -> None:
        for tile in self._placed:
            self._grid.removeWidget(tile)
        self._placed = list(self._tiles)
        for column in range(_MOST_COLUMNS):
            self._grid.setColumnStretch(column, 1 if column < self._columns else 0)
        for number, tile in enumerate(self._tiles):
            self._grid.addWidget(tile, number // self._columns, number % self._columns)
            tile.show()
