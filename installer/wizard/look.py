"""Icon and general look: the system's colours, dark or light, at any scale."""

from __future__ import annotations

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFont, QIcon, QPainter, QPalette, QPixmap, QPolygonF
from PySide6.QtWidgets import QApplication, QLabel

_LAYERS = ("#1d6f8a", "#2f93a8", "#58b7b4")  # the lowest first


def set_up_look(app: QApplication) -> None:
    """Choose the style: Fusion follows the system's light or dark colours everywhere."""
    app.setStyle("Fusion")
    app.setWindowIcon(app_icon())
    _follow_scheme(app)


def dark_palette() -> QPalette:
    """Dark colours, for systems that say "dark" and give no colours themselves."""
    palette = QPalette()
    role = QPalette.ColorRole
    for names, colour in (
        ((role.Window,), "#26282b"),
        ((role.Button,), "#35383c"),
        ((role.Base,), "#3a3d42"),
        ((role.AlternateBase, role.ToolTipBase), "#1e2022"),
        ((role.WindowText, role.Text, role.ButtonText, role.ToolTipText), "#e6e6e6"),
        ((role.BrightText, role.HighlightedText), "#ffffff"),
        ((role.Link,), "#6cb2eb"),
        ((role.Highlight, role.Accent), "#2f7fc1"),
        ((role.PlaceholderText,), "#9a9a9a"),
        ((role.Light,), "#3f4245"),
        ((role.Midlight,), "#36383b"),
        ((role.Mid,), "#202224"),
        ((role.Dark,), "#18191b"),
        ((role.Shadow,), "#0e0e0f"),
    ):
        for name in names:
            palette.setColor(name, QColor(colour))
    for name in (role.WindowText, role.Text, role.ButtonText):
        palette.setColor(QPalette.ColorGroup.Disabled, name, QColor("#808080"))
    return palette


def _follow_scheme(app: QApplication) -> None:
    is_dark = app.styleHints().colorScheme() is Qt.ColorScheme.Dark
    window = app.palette().color(QPalette.ColorRole.Window)
    if is_dark and window.lightness() > 128:
        app.setPalette(dark_palette())


def app_icon() -> QIcon:
    """Three layers of stone."""
    icon = QIcon()
    for side in (16, 24, 32, 48, 64, 128, 256):
        icon.addPixmap(_draw(side))
    return icon


def heading(label: QLabel, factor: float) -> None:
    """Make a label's font larger and bold."""
    font = QFont(label.font())
    font.setPointSizeF(font.pointSizeF() * factor)
    font.setBold(True)
    label.setFont(font)


def _draw(side: int) -> QPixmap:
    pixmap = QPixmap(side, side)
    pixmap.fill(Qt.GlobalColor.transparent)
    painter = QPainter(pixmap)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setPen(Qt.PenStyle.NoPen)
    unit = side / 16
    for number, colour in enumerate(_LAYERS):
        top = (9.2 - 3.6 * number) * unit
        painter.setBrush(QColor(colour))
        centre = QRectF(1 * unit, top - 0.6 * unit, 14 * unit, 6.2 * unit)
        painter.drawPolygon(
            QPolygonF(
                [
                    QPointF(centre.left(), centre.center().y()),
                    QPointF(centre.center().x(), centre.top()),
                    QPointF(centre.right(), centre.center().y()),
                    QPointF(centre.center().x(), centre.bottom()),
                ]
            )
        )
    painter.end()
    return pixmap
