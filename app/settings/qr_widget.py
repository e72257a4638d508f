"""A QR code as a widget: dark on white in both colour schemes, because phones want it so."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QColor, QImage, QPixmap
from PySide6.QtWidgets import QLabel, QSizePolicy

from app.look.look import em
from app.settings.network import qr_rows


class QrLabel(QLabel):
    """Shows a text as a code."""

    def __init__(self) -> None:
        super().__init__()
        self._text = ""
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)

    @property
    def encoded(self) -> str:
        """What the code says."""
        return self._text

    def show_text(self, text: str) -> None:
        """Show another text; an empty one shows nothing."""
        self._text = text
        self.setVisible(bool(text))
        if not text:
            self.clear()
            return
        rows = qr_rows(text)
        image = QImage(QSize(len(rows), len(rows)), QImage.Format.Format_RGB32)
        for y, row in enumerate(rows):
            for x, is_dark in enumerate(row):
                image.setPixelColor(x, y, QColor("black" if is_dark else "white"))
        ratio = self.devicePixelRatioF()
        side = max(1, round(11 * em(self) * ratio) // len(rows)) * len(rows)
        scaled = image.scaled(
            side,
            side,
            Qt.AspectRatioMode.KeepAspectRatio,
            Qt.TransformationMode.FastTransformation,
        )
        pixmap = QPixmap.fromImage(scaled)
        pixmap.setDevicePixelRatio(ratio)
        self.setPixmap(pixmap)
