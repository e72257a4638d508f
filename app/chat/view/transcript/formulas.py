"""Formulas as pictures: drawn in a thread by ziamath, kept while they are used.

Until a formula is drawn, and when it cannot be, its source is shown.
"""

from __future__ import annotations

import logging
import queue
import threading
import warnings
from collections import OrderedDict
from dataclasses import dataclass

from PySide6.QtCore import QByteArray, QObject, QRectF, Qt, Signal
from PySide6.QtGui import QImage, QPainter
from PySide6.QtSvg import QSvgRenderer

from app.chat.view.markdown.blocks import Formula

logger = logging.getLogger(__name__)

_MAX_KEPT = 2_000
_MAX_SOURCE_CHARS = 2_000

Key = tuple[str, bool, float, str]  # source, display, size in pixels, colour


@dataclass(frozen=True, slots=True)
class Drawing:
    """A drawn formula, in pixels of the page.

    Attributes:
        svg: the picture.
        ascent: above the line that letters stand on.
        descent: below it.
    """

    svg: bytes
    width: float
    ascent: float
    descent: float

    def image(self, x_height: float, ratio: float) -> QImage:
        """A picture whose middle lies where `vertical-align: middle` puts it, at this screen scale.

        Qt puts the middle of a picture half the height of an x above the line.
        """
        half = max(self.ascent - x_height / 2, self.descent + x_height / 2)
        height = max(1.0, 2 * half)
        image = QImage(
            max(1, round(self.width * ratio)),
            max(1, round(height * ratio)),
            QImage.Format.Format_ARGB32_Premultiplied,
        )
        image.setDevicePixelRatio(ratio)
        image.fill(Qt.GlobalColor.transparent)
        painter = QPainter(image)
        top = half + x_height / 2 - self.ascent
        QSvgRenderer(QByteArray(self.svg)).render(
            painter, QRectF(0, top, self.width, self.ascent + self.descent)
        )
        painter.end()
        return image


class Formulas(QObject):
    """Draws formulas in the background.

    Signals:
        drawn: some that were asked for can be had now.
    """

    drawn = Signal()
    _one_done = Signal(object, object)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._known: OrderedDict[Key, Drawing | None] = OrderedDict()
        self._asked: set[Key] = set()
        self._queue: queue.SimpleQueue[Key | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._one_done.connect(self._keep)
        # Another language makes the transcript anew: without this each one left a thread that waited.
        asked = self._queue
        self.destroyed.connect(lambda: asked.put(None))

    def get(self, formula: Formula, size: float, colour: str) -> Drawing | None:
        """The drawing, or None when it is not there yet or cannot be made."""
        if len(formula.source) > _MAX_SOURCE_CHARS or not formula.source:
            return None
        key = (formula.source, formula.is_display, round(size, 1), colour)
        if key in self._known:
            self._known.move_to_end(key)
            return self._known[key]
        if key not in self._asked:
            self._asked.add(key)
            self._queue.put(key)
            if self._thread is None:
                # A daemon: a formula that takes long must not hold up the end of the program.
                self._thread = threading.Thread(target=self._work, name="formulas", daemon=True)
                self._thread.start()
        return None

    @property
    def is_idle(self) -> bool:
        """Whether everything that was asked for is drawn."""
        return not self._asked

    def _work(self) -> None:
        while (key := self._queue.get()) is not None:
            drawing = draw(*key)
            try:
                self._one_done.emit(key, drawing)
            except RuntimeError:  # the window has gone
                return

    def _keep(self, key: Key, drawing: Drawing | None) -> None:
        self._asked.discard(key)
        self._known[key] = drawing
        while len(self._known) > _MAX_KEPT:
            self._known.popitem(last=False)
        if not self._asked:
            self.drawn.emit()


def draw(source: str, is_display: bool, size: float, colour: str) -> Drawing | None:
    """Draw a formula; None when it is no LaTeX that can be drawn."""
    with warnings.catch_warnings():
        # It finds its font in a way that is deprecated in Python 3.11 (and no longer in 3.13).
        warnings.simplefilter("ignore", DeprecationWarning)
        # Imported here: it takes a third of a second, and most conversations have no formula.
        from ziamath import zmath  # noqa: PLC0415
        from ziamath.config import config  # noqa: PLC0415

    # Qt draws SVG 1.1 and Tiny 1.2: no symbols.
    config.svg2 = False
    try:
        made = zmath.Latex(source, size=size, color=colour, inline=not is_display)
        svg = made.svg()
        width, height = made.getsize()
        descent = -made.getyofst()
    except Exception as error:  # noqa: BLE001  # whatever a model writes: the source is shown then
        logger.debug("a formula cannot be drawn: %s", type(error).__name__)
        return None
    if not 0 < width < 20_000 or not 0 < height < 20_000:
        return None
    return Drawing(svg.encode(), width, height - descent, descent)
