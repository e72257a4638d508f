"""The sign for each state, told apart by shape as well as by colour: not everybody sees colours.

The shapes are files in `assets/icons/tray`; only the arc that shows how far loading is, is drawn here.
"""

from __future__ import annotations

import enum
from functools import lru_cache

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QColor, QIcon, QPainter, QPen, QPixmap

from app.look.icons import ICONS_DIR, render
from app.supervisor.state import EngineState, Phase

_SIDES = (16, 20, 22, 24, 32, 40, 48, 64)
_ARC = QColor("#2f9db3")
# The ring in `loading.svg`, in 64ths of the icon.
_RING_RADIUS = 27.5
_RING_WIDTH = 7.0
# So many steps of the arc; each is a picture that the panel has to take over.
ARC_STEPS = 24


class Sign(enum.StrEnum):
    """What the icon says; the name of its file."""

    STOPPED = "stopped"
    LOADING = "loading"
    UNLOADED = "unloaded"  # it answers, and loads the model for that
    READY = "ready"
    ANSWERING = "answering"
    ERROR = "error"


_SIGNS = {
    Phase.STOPPED: Sign.STOPPED,
    Phase.STARTING: Sign.LOADING,
    Phase.LOADING: Sign.LOADING,
    Phase.READY: Sign.READY,
    Phase.BUSY: Sign.ANSWERING,
    Phase.STOPPING: Sign.LOADING,
    Phase.FAILED: Sign.ERROR,
}


def sign_of(state: EngineState) -> Sign:
    """What the icon says about a state."""
    if state.phase is Phase.READY and not state.is_loaded:
        return Sign.UNLOADED
    return _SIGNS[state.phase]


def arc_step_of(state: EngineState) -> int:
    """How far loading is, in steps of the arc; 0 when nobody knows."""
    if state.phase is not Phase.LOADING or state.progress is None:
        return 0
    return round(state.progress.share * ARC_STEPS)


def state_icon(state: EngineState) -> QIcon:
    """The icon for a state, the same object for the same picture."""
    return sign_icon(sign_of(state), arc_step_of(state))


@lru_cache(maxsize=64)
def sign_icon(sign: Sign, arc_step: int = 0) -> QIcon:
    """The icon of a sign, with an arc of so many steps."""
    icon = QIcon()
    for side in _SIDES:
        pixmap = render(ICONS_DIR / "tray" / f"{sign.value}.svg", side)
        if arc_step > 0:
            _draw_arc(pixmap, arc_step / ARC_STEPS)
        icon.addPixmap(pixmap)
    return icon


def _draw_arc(pixmap: QPixmap, share: float) -> None:
    """A part of the ring, clockwise from the top."""
    unit = pixmap.width() / 64
    radius = _RING_RADIUS * unit
    middle = pixmap.width() / 2
    painter = QPainter(pixmap)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    pen = QPen(_ARC, _RING_WIDTH * unit)
    pen.setCapStyle(Qt.PenCapStyle.FlatCap)
    painter.setPen(pen)
    square = QRectF(middle - radius, middle - radius, 2 * radius, 2 * radius)
    painter.drawArc(square, 90 * 16, round(-360 * 16 * min(share, 1.0)))
    painter.end()
