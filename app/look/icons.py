"""Icons: drawn for this project as SVG in `assets/icons`, coloured as the text beside them.

    put_icon(button, "send")        # and again by itself when light becomes dark

`ui/NAME.svg` has strokes in `currentColor` only. State icons of the tray are in `app/tray/state_icon.py`.
"""

from __future__ import annotations

import weakref
from functools import lru_cache
from pathlib import Path
from typing import cast

import shiboken6
from PySide6.QtCore import QByteArray, QObject, QRectF, Qt
from PySide6.QtGui import QAction, QColor, QGuiApplication, QIcon, QPainter, QPalette, QPixmap
from PySide6.QtSvg import QSvgRenderer
from PySide6.QtWidgets import QAbstractButton, QToolButton, QWidget

from app.program_folder import PROGRAM_DIR

ICONS_DIR = PROGRAM_DIR / "assets" / "icons"
_SIDES = (16, 20, 24, 32, 48, 64)


@lru_cache(maxsize=1)
def app_icon() -> QIcon:
    """Three layers of stone."""
    icon = QIcon()
    for side in (16, 24, 32, 48, 64, 128, 256):
        icon.addPixmap(render(ICONS_DIR / "stratum.svg", side))
    return icon


def names() -> list[str]:
    """All icons that there are for buttons and menus."""
    return sorted(path.stem for path in (ICONS_DIR / "ui").glob("*.svg"))


def icon(name: str, colour: QColor | None = None) -> QIcon:
    """An icon for a button or a menu.

    Args:
        name: a file in `assets/icons/ui`.
        colour: None for that of a button's text.
    """
    palette = QGuiApplication.palette()
    role = QPalette.ColorRole.ButtonText
    normal = colour or palette.color(QPalette.ColorGroup.Active, role)
    disabled = palette.color(QPalette.ColorGroup.Disabled, role)
    selected = palette.color(QPalette.ColorGroup.Active, QPalette.ColorRole.HighlightedText)
    return _coloured(name, normal.name(), disabled.name(), selected.name())


def put_icon(target: QAbstractButton | QAction, name: str) -> None:
    """Give a button or an action an icon that follows the colours of the windows."""
    before = target.findChild(_Follower, options=Qt.FindChildOption.FindDirectChildrenOnly)
    if before is not None:
        before.set_name(name)
    else:
        _Follower(target, name)


def icon_button(parent: QWidget, name: str, text: str) -> QToolButton:
    """A flat button with an icon alone; the text is its hint and its name for screen readers."""
    button = QToolButton(parent)
    button.setAutoRaise(True)
    put_icon(button, name)
    button.setToolTip(text)
    button.setAccessibleName(text)
    return button


def render(path: Path, side: int, colour: str = "") -> QPixmap:
    """A square picture of an SVG file, `currentColor` replaced when a colour is given."""
    data = path.read_bytes()
    if colour:
        data = data.replace(b"currentColor", colour.encode())
    return render_svg(data, side)


def render_svg(data: bytes, side: int) -> QPixmap:
    """A square picture of an SVG."""
    pixmap = QPixmap(side, side)
    pixmap.fill(Qt.GlobalColor.transparent)
    painter = QPainter(pixmap)
    QSvgRenderer(QByteArray(data)).render(painter, QRectF(0, 0, side, side))
    painter.end()
    return pixmap


class _Follower(QObject):
    """Draws its parent's icon anew when the colours of the application change."""

    def __init__(self, target: QAbstractButton | QAction, name: str) -> None:
        super().__init__(target)
        self._name = name
        _followers.add(self)
        self.draw()

    def set_name(self, name: str) -> None:
        """Another icon."""
        self._name = name
        self.draw()

    def draw(self) -> None:
        """Give the parent its icon in the colours of now."""
        cast("QAbstractButton | QAction", self.parent()).setIcon(icon(self._name))


# An event filter on the application would cost each icon a call for every event of the program.
_followers: weakref.WeakSet[_Follower] = weakref.WeakSet()


def recolour() -> None:
    """Draw all icons anew; called when the colours of the application have changed."""
    for follower in list(_followers):
        if shiboken6.isValid(follower):
            follower.draw()


@lru_cache(maxsize=256)
def _coloured(name: str, normal: str, disabled: str, selected: str) -> QIcon:
    path = ICONS_DIR / "ui" / f"{name}.svg"
    made = QIcon()
    for side in _SIDES:
        made.addPixmap(render(path, side, normal), QIcon.Mode.Normal)
        made.addPixmap(render(path, side, disabled), QIcon.Mode.Disabled)
        made.addPixmap(render(path, side, selected), QIcon.Mode.Selected)
    return made
