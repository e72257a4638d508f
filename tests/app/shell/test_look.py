"""Colours and icons: readable in both themes, every icon drawable, Windows' file as the drawing is."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from PySide6.QtCore import QSize
from PySide6.QtGui import QAction, QColor, QIcon, QImage, QImageReader, QPalette
from PySide6.QtWidgets import QApplication, QCheckBox, QPushButton

from app.app_settings import Theme
from app.look.icons import ICONS_DIR, icon, names, put_icon, render
from app.look.look import Look, palette_of
from tools.make_icons import SIDES, ico_of

ROOT = Path(__file__).resolve().parents[3]
ROLE = QPalette.ColorRole
TEXTS = [
    (ROLE.WindowText, ROLE.Window),
    (ROLE.Text, ROLE.Base),
    (ROLE.Text, ROLE.AlternateBase),
    (ROLE.ButtonText, ROLE.Button),
    (ROLE.ToolTipText, ROLE.ToolTipBase),
    (ROLE.HighlightedText, ROLE.Highlight),
    (ROLE.PlaceholderText, ROLE.Base),
    (ROLE.Link, ROLE.Base),
    (ROLE.Link, ROLE.Window),
]


def luminance(colour: QColor) -> float:
    """Relative luminance (WCAG 2.2)."""

    def linear(value: float) -> float:
        return value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4

    red, green, blue = (linear(v) for v in (colour.redF(), colour.greenF(), colour.blueF()))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: QColor, other: QColor) -> float:
    bright, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("is_dark", [False, True])
@pytest.mark.parametrize(("text", "ground"), TEXTS)
def test_every_text_can_be_read(qapp, is_dark, text, ground):
    palette = palette_of(is_dark=is_dark)
    assert contrast(palette.color(text), palette.color(ground)) >= 4.5


def test_the_theme_changes_all_windows_and_their_icons(qtbot, qapp):
    look = Look(qapp, Theme.LIGHT)
    button, action = QPushButton(), QAction()
    qtbot.addWidget(button)
    for target in (button, action):
        put_icon(target, "send")

    def darkness(target: QPushButton | QAction) -> int:
        image = target.icon().pixmap(QSize(24, 24)).toImage()
        return min(
            image.pixelColor(x, y).lightness()
            for x in range(24)
            for y in range(24)
            if image.pixelColor(x, y).alpha() == 255
        )

    assert max(darkness(button), darkness(action)) < 80
    with qtbot.waitSignal(look.changed):
        look.set_theme(Theme.DARK)
    assert look.is_dark
    assert QApplication.palette().color(ROLE.Window).lightness() < 80
    assert min(darkness(button), darkness(action)) > 150
    look.set_theme(Theme.LIGHT)


def test_an_icon_can_be_replaced_by_another(qtbot, qapp):
    button = QPushButton()
    qtbot.addWidget(button)
    put_icon(button, "start")
    put_icon(button, "stop")
    assert len(button.children()) == 1
    assert button.icon().pixmap(24).toImage() == icon("stop").pixmap(24).toImage()


@pytest.mark.parametrize("path", sorted(ICONS_DIR.rglob("*.svg")), ids=lambda path: path.stem)
def test_every_drawing_is_clean_and_shows_something(qapp, path):
    root = ET.parse(path).getroot()  # noqa: S314  # our own file
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    text = path.read_text("utf-8")
    assert not re.search(r"<script|<image|href|<style", text)
    if path.parent.name == "ui":
        assert set(re.findall(r'(?:stroke|fill)="([^"]+)"', text)) <= {"none", "currentColor"}
    image = render(path, 32, "#ff0000").toImage()
    drawn = sum(image.pixelColor(x, y).alpha() > 128 for x in range(32) for y in range(32))
    assert drawn > 4


def test_every_icon_that_the_code_names_is_drawn():
    known = set(names())
    for path in (ROOT / "app").rglob("*.py"):
        text = path.read_text("utf-8")
        used = re.findall(r'put_icon\([^,()]+(?:\([^)]*\))?,\s*"([^"]+)"', text)
        assert set(used) <= known, path


def test_windows_icon_file_holds_all_sizes_of_the_drawing(qapp):
    reader = QImageReader(str(ICONS_DIR / "stratum.ico"))
    assert reader.imageCount() == len(SIDES)
    for number, side in enumerate(SIDES):
        assert reader.jumpToImage(number)
        image = reader.read()
        assert (image.width(), image.height()) == (side, side)
        assert difference(image, render(ICONS_DIR / "stratum.svg", side).toImage()) < 4


def test_the_icon_file_is_made_as_its_format_says(qapp):
    content = ico_of(ICONS_DIR / "stratum.svg", (16, 256))
    assert content[:6] == bytes([0, 0, 1, 0, 2, 0])
    assert content[6:8] == bytes([16, 16])
    assert content[22:24] == bytes([0, 0])  # 256 is written as 0
    offset = int.from_bytes(content[18:22], "little")
    assert content[offset : offset + 4] == b"\x89PNG"


def difference(one: QImage, other: QImage) -> float:
    """Mean difference of all values; another version of Qt may round edges differently."""
    total = 0
    for y in range(one.height()):
        for x in range(one.width()):
            a, b = one.pixelColor(x, y), other.pixelColor(x, y)
            total += abs(a.alpha() - b.alpha())
            if min(a.alpha(), b.alpha()) > 200:
                total += abs(a.red() - b.red()) + abs(a.blue() - b.blue())
    return total / (one.width() * one.height())


def test_an_empty_check_box_is_seen_in_the_dark(qtbot, qapp):
    look = Look(qapp, Theme.DARK)
    box = QCheckBox()
    qtbot.addWidget(box)
    box.resize(60, 30)
    picture = box.grab().toImage()
    ground = picture.pixelColor(picture.width() - 2, 2)
    seen = [
        contrast(picture.pixelColor(x, y), ground)
        for x in range(picture.width())
        for y in range(picture.height())
    ]
    assert max(seen) >= 3
    look.set_theme(Theme.LIGHT)
    assert qapp.palette("QCheckBox").color(ROLE.Window) == qapp.palette().color(ROLE.Window)


def test_an_icon_in_a_selected_row_has_the_colour_of_its_text(qtbot, qapp):
    Look(qapp, Theme.LIGHT)
    pixmap = icon("chat").pixmap(QSize(32, 32), QIcon.Mode.Selected).toImage()
    colours = {
        pixmap.pixelColor(x, y).name()
        for x in range(32)
        for y in range(32)
        if pixmap.pixelColor(x, y).alpha() == 255
    }
    assert colours == {qapp.palette().color(QPalette.ColorRole.HighlightedText).name()}
