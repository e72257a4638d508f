"""Light or dark: the colours of all windows, by the person's choice or by the system's.

The style is Fusion everywhere: it looks the same on both systems and takes every colour of a palette.
The palettes are ours too, because a desktop may say "dark" and bring light colours. Only a person who
has asked the system for more contrast gets the system's own colours.
"""

from __future__ import annotations

import logging

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtGui import QColor, QFont, QPalette
from PySide6.QtWidgets import QApplication, QWidget

from app.app_settings import Theme
from app.look.icons import recolour

logger = logging.getLogger(__name__)

_ROLE = QPalette.ColorRole
_Roles = tuple[QPalette.ColorRole, ...]

_DARK: tuple[tuple[_Roles, str], ...] = (
    ((_ROLE.Window,), "#26282b"),
    ((_ROLE.Button,), "#35383c"),
    ((_ROLE.Base,), "#2d3034"),
    ((_ROLE.AlternateBase, _ROLE.ToolTipBase), "#1e2022"),
    ((_ROLE.WindowText, _ROLE.Text, _ROLE.ButtonText, _ROLE.ToolTipText), "#e6e6e6"),
    ((_ROLE.BrightText, _ROLE.HighlightedText), "#ffffff"),
    ((_ROLE.Link,), "#6cb2eb"),
    ((_ROLE.LinkVisited,), "#b79ee8"),
    ((_ROLE.Highlight, _ROLE.Accent), "#2a7a94"),
    ((_ROLE.PlaceholderText,), "#9a9a9a"),
    ((_ROLE.Light,), "#3f4245"),
    ((_ROLE.Midlight,), "#36383b"),
    ((_ROLE.Mid,), "#4a4d51"),
    ((_ROLE.Dark,), "#18191b"),
    ((_ROLE.Shadow,), "#0e0e0f"),
)
_LIGHT: tuple[tuple[_Roles, str], ...] = (
    ((_ROLE.Window,), "#f4f5f6"),
    ((_ROLE.Button,), "#eceef0"),
    ((_ROLE.Base,), "#ffffff"),
    ((_ROLE.AlternateBase,), "#f0f2f3"),
    ((_ROLE.ToolTipBase,), "#ffffff"),
    ((_ROLE.WindowText, _ROLE.Text, _ROLE.ButtonText, _ROLE.ToolTipText), "#1c1f21"),
    ((_ROLE.BrightText, _ROLE.HighlightedText), "#ffffff"),
    ((_ROLE.Link,), "#1a6a86"),
    ((_ROLE.LinkVisited,), "#6a4a9c"),
    ((_ROLE.Highlight, _ROLE.Accent), "#1f7a93"),
    ((_ROLE.PlaceholderText,), "#6b7176"),
    ((_ROLE.Light,), "#ffffff"),
    ((_ROLE.Midlight,), "#e4e7e9"),
    ((_ROLE.Mid,), "#c3c8cc"),
    ((_ROLE.Dark,), "#9aa0a5"),
    ((_ROLE.Shadow,), "#6b7074"),
)
# Fusion draws edges in a darker shade of the window's colour: in the dark nobody sees an empty check box
# (2026-11-30). These classes use that colour for nothing else, so they are told of a lighter window.
_EDGED = ("QCheckBox", "QRadioButton", "QLineEdit", "QAbstractSpinBox")
_EDGE_SOURCE = "#b4b8be"
_DISABLED = {True: "#808080", False: "#8a8f93"}


def palette_of(*, is_dark: bool) -> QPalette:
    """Our own colours; every text has a contrast of 4.5 : 1 or more."""
    palette = QPalette()
    for roles, colour in _DARK if is_dark else _LIGHT:
        for role in roles:
            palette.setColor(role, QColor(colour))
    for role in (_ROLE.WindowText, _ROLE.Text, _ROLE.ButtonText):
        palette.setColor(QPalette.ColorGroup.Disabled, role, QColor(_DISABLED[is_dark]))
    return palette


def edged(palette: QPalette) -> QPalette:
    """The same colours with edges that are seen in the dark."""
    made = QPalette(palette)
    made.setColor(_ROLE.Window, QColor(_EDGE_SOURCE))
    return made


class Look(QObject):
    """The colours that hold now.

    Signals:
        changed: light has become dark, or the other way round; icons must be drawn anew.
    """

    changed = Signal()

    def __init__(self, app: QApplication, theme: Theme) -> None:
        super().__init__(app)
        self._app = app
        self._theme = theme
        app.setStyle("Fusion")
        self._system_palette = QPalette(app.palette())
        self._is_dark = False
        app.styleHints().colorSchemeChanged.connect(self._apply)
        self._apply()

    @property
    def is_dark(self) -> bool:
        """Whether windows are dark."""
        return self._is_dark

    def set_theme(self, theme: Theme) -> None:
        """Take other colours from now on."""
        if theme is not self._theme:
            self._theme = theme
            self._apply()

    def _apply(self) -> None:
        hints = self._app.styleHints()
        was_dark = self._is_dark
        if self._theme is not Theme.SYSTEM:
            self._is_dark = self._theme is Theme.DARK
            palette = palette_of(is_dark=self._is_dark)
        elif hints.accessibility().contrastPreference() is Qt.ContrastPreference.HighContrast:
            palette = self._system_palette
            self._is_dark = palette.color(_ROLE.Window).lightness() < 128
        else:
            self._is_dark = hints.colorScheme() is Qt.ColorScheme.Dark
            palette = palette_of(is_dark=self._is_dark)
        if palette != self._app.palette():
            self._app.setPalette(palette)
            has_edges = not self._is_dark or palette == self._system_palette
            for name in _EDGED:
                colours = palette if has_edges else edged(palette)
                # PySide takes text alone, its stubs know bytes alone.
                self._app.setPalette(colours, name)  # type: ignore[arg-type]
            recolour()
        if was_dark != self._is_dark:
            self.changed.emit()


def enlarge(widget: QWidget, factor: float, *, is_bold: bool = False) -> None:
    """Make a widget's font larger, whatever unit the system gave it in."""
    font = QFont(widget.font())
    if font.pointSizeF() > 0:
        font.setPointSizeF(font.pointSizeF() * factor)
    else:
        font.setPixelSize(round(font.pixelSize() * factor))
    font.setBold(is_bold)
    widget.setFont(font)


def em(widget: QWidget) -> int:
    """The height of a line: the unit for margins and sizes, so that they grow with font and scale."""
    return widget.fontMetrics().height()
