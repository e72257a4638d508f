"""Makes Windows' icon file from the SVG: `python tools/make_icons.py`, after a change of the drawing.

An icon file holds pictures of several sizes, each a PNG (Windows reads those since Vista). All numbers
are little endian: 6 bytes `0, 1, number of pictures`; for each picture 16 bytes `width, height (0 means
256), 0, 0, planes, bits, size, offset`; then the pictures.
"""

from __future__ import annotations

import os
import struct
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SIDES = (16, 20, 24, 32, 40, 48, 64, 128, 256)


def ico_of(svg: Path, sides: Sequence[int] = SIDES) -> bytes:
    """An icon file's content, drawn from an SVG file."""
    pictures = [_png(svg, side) for side in sides]
    parts = [struct.pack("<HHH", 0, 1, len(pictures))]
    offset = 6 + 16 * len(pictures)
    for side, picture in zip(sides, pictures, strict=True):
        shown = side % 256
        parts.append(struct.pack("<BBBBHHII", shown, shown, 0, 0, 1, 32, len(picture), offset))
        offset += len(picture)
    return b"".join([*parts, *pictures])


def _png(svg: Path, side: int) -> bytes:
    from PySide6.QtCore import QBuffer, QIODevice  # noqa: PLC0415  # after the platform is chosen

    from app.look.icons import render  # noqa: PLC0415  # the same

    buffer = QBuffer()
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    render(svg, side).save(buffer, "PNG")
    return bytes(buffer.data().data())


def main() -> int:
    """Make them; the exit status."""
    sys.path.insert(0, str(ROOT))
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    from PySide6.QtGui import QGuiApplication  # noqa: PLC0415  # after the platform is chosen

    app = QGuiApplication(sys.argv[:1])
    icons = ROOT / "assets" / "icons"
    content = ico_of(icons / "stratum.svg")
    (icons / "stratum.ico").write_bytes(content)
    print(f"{icons / 'stratum.ico'}: {len(content)} bytes")
    del app
    return 0


if __name__ == "__main__":
    sys.exit(main())
