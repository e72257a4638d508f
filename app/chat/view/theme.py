"""Colours, fonts and distances of the chat, made from the palette and the font of a widget."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtGui import QColor, QFont, QFontDatabase, QFontMetricsF, QPalette
from PySide6.QtWidgets import QWidget

_Words = dict[str, str]

# Colours of code by kind of word; each has a contrast of 4.5 : 1 or more on its background.
_CODE_LIGHT: _Words = {
    "keyword": "#8b2a9b",
    "string": "#1d6b2f",
    "number": "#9a4b00",
    "comment": "#5f6a72",
    "function": "#1b5fae",
    "class": "#8a5300",
    "builtin": "#0f6b7d",
    "operator": "#4a5560",
    "tag": "#a3262f",
    "inserted": "#1d6b2f",
    "deleted": "#a3262f",
}
_CODE_DARK: _Words = {
    "keyword": "#d79bea",
    "string": "#9fd28f",
    "number": "#f0b27a",
    "comment": "#98a3ab",
    "function": "#82b9f5",
    "class": "#f2cf85",
    "builtin": "#74cfdb",
    "operator": "#b9c3cb",
    "tag": "#f08a92",
    "inserted": "#9fd28f",
    "deleted": "#f08a92",
}


@dataclass(frozen=True, slots=True)
class Theme:
    """What everything in the chat is drawn with.

    Attributes:
        em: height of a line of text, the unit of all distances.
        code_colours: by kind of word (`keyword`, `string`, ...).
        css: style sheet of the documents.
    """

    font: QFont
    mono: QFont
    em: float
    is_dark: bool
    base: QColor
    text: QColor
    muted: QColor
    link: QColor
    accent: QColor
    line: QColor
    bubble: QColor
    code_background: QColor
    code_head: QColor
    inline_code: QColor
    highlight: QColor
    highlighted_text: QColor
    warning: QColor
    danger: QColor
    code_colours: _Words
    css: str
    muted_css: str

    @property
    def key(self) -> tuple[str, float, bool, str]:
        """Equal for two themes that lay out alike and have the same colours."""
        return (self.font.toString(), self.em, self.is_dark, self.base.name() + self.text.name())


def theme_of(widget: QWidget) -> Theme:
    """The theme that fits a widget."""
    palette = widget.palette()
    role = QPalette.ColorRole
    base, text = palette.color(role.Base), palette.color(role.Text)
    is_dark = base.lightness() < 128
    font = QFont(widget.font())
    mono = QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont)
    # Letters of fixed width look larger than others of the same size.
    if font.pointSizeF() > 0:
        mono.setPointSizeF(font.pointSizeF() * 0.98)
    else:
        mono.setPixelSize(max(1, round(font.pixelSize() * 0.98)))
    em = QFontMetricsF(font).height()
    muted = _mixed(text, base, 0.34)
    code = _mixed(base, text, 0.045 if not is_dark else 0.06)
    if is_dark:
        code = base.darker(122)
    link = palette.color(role.Link)
    inline = _mixed(base, text, 0.075 if not is_dark else 0.11)
    return Theme(
        font=font,
        mono=mono,
        em=em,
        is_dark=is_dark,
        base=base,
        text=text,
        muted=muted,
        link=link,
        accent=palette.color(role.Accent),
        line=_mixed(base, text, 0.16),
        bubble=_mixed(base, palette.color(role.Accent), 0.13 if not is_dark else 0.26),
        code_background=code,
        code_head=_mixed(code, text, 0.05),
        inline_code=inline,
        highlight=palette.color(role.Highlight),
        highlighted_text=palette.color(role.HighlightedText),
        warning=QColor("#8a5a00") if not is_dark else QColor("#f0c36d"),
        danger=QColor("#b3261e") if not is_dark else QColor("#f2938c"),
        code_colours=_CODE_DARK if is_dark else _CODE_LIGHT,
        css=_css(text, link, inline, mono, em),
        muted_css=_css(muted, link, inline, mono, em),
    )


def _mixed(first: QColor, second: QColor, share: float) -> QColor:
    """The first colour with this share of the second."""

    def mix(one: int, other: int) -> int:
        return round(one + (other - one) * share)

    return QColor(
        mix(first.red(), second.red()),
        mix(first.green(), second.green()),
        mix(first.blue(), second.blue()),
    )


def _css(text: QColor, link: QColor, inline: QColor, mono: QFont, em: float) -> str:
    gap = round(em * 0.45)
    size = f"{mono.pointSizeF()}pt" if mono.pointSizeF() > 0 else f"{mono.pixelSize()}px"
    return f"""
        body {{ color: {text.name()}; }}
        p {{ margin: 0 0 {gap}px 0; line-height: 122%; }}
        h1 {{ font-size: x-large; font-weight: 600; margin: {gap}px 0 {gap}px 0; }}
        h2 {{ font-size: large; font-weight: 600; margin: {gap}px 0 {gap}px 0; }}
        h3, h4 {{ font-size: medium; font-weight: 600; margin: {gap}px 0 0 0; }}
        a {{ color: {link.name()}; text-decoration: underline; }}
        code {{ font-family: '{mono.family()}'; font-size: {size};
                background-color: {inline.name()}; }}
        ul, ol {{ margin: 0; }}
        li {{ margin: 0 0 {round(gap * 0.6)}px 0; line-height: 122%; }}
        td, th {{ padding: {round(em * 0.25)}px {round(em * 0.5)}px; }}
    """
