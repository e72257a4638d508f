"""Tables as they are drawn: columns as wide as their words, if there is room."""

from __future__ import annotations

from PySide6.QtGui import QFontMetricsF, QTextDocument

from app.chat.view.markdown.blocks import TableBlock
from app.chat.view.theme import Theme
from app.chat.view.transcript.block_views import BlockView, Surroundings

_MAX_COLUMN_EMS = 30.0


class TableView(BlockView):
    """A table; its columns are as wide as their words, if there is room.

    Attributes:
        head: the first part of a long table, whose columns the later parts take.
    """

    block: TableBlock

    def __init__(self, block: TableBlock) -> None:
        super().__init__(block)
        self.head: TableView = self
        self.naturals: list[float] = []

    @property
    def plain(self) -> str:
        """The text, for copying."""
        return "\n".join("\t".join(cells) for cells in self.block.plain_rows)

    def lay_out(self, width: float, with_: Surroundings) -> None:
        """Make the table, and fit it into a width."""
        # Widths of columns are part of the document.
        if self._document is not None and width != self._width:
            self._document = None
        super().lay_out(width, with_)

    def _extra(self, theme: Theme) -> float:
        return theme.em * 0.7

    def _make(self, width: float, with_: Surroundings) -> QTextDocument:
        theme = with_.theme
        document = self._new_document(theme.font)
        document.setDefaultStyleSheet(theme.muted_css if with_.is_muted else theme.css)
        if not self.head.naturals:
            self.head.naturals = self.head.measured(theme)
        widths = _fitted(self.head.naturals, width - 2)
        rows = []
        for number, cells in enumerate(self.block.rows):
            is_head = number == 0 and self.block.has_head
            tag, ground = ("th", f' bgcolor="{theme.code_head.name()}"') if is_head else ("td", "")
            made = []
            for column, cell in enumerate(cells):
                align = self.block.aligns[column] if column < len(self.block.aligns) else "left"
                size = f' width="{widths[column]:.0f}"' if column < len(widths) else ""
                made.append(f'<{tag}{ground}{size} align="{align}">{cell}</{tag}>')
            rows.append(f"<tr>{''.join(made)}</tr>")
        style = f"border-collapse: collapse; border-style: solid; border-color: {theme.line.name()}"
        markup = self._put_formulas(document, "".join(rows), self.block.formulas, with_)
        document.setHtml(
            f'<body><table border="1" cellspacing="0" cellpadding="{theme.em * 0.28:.0f}" '
            f'width="{sum(widths):.0f}" style="{style}">{markup}</table></body>'
        )
        return document

    def measured(self, theme: Theme) -> list[float]:
        """What each column would take without wrapping."""
        metrics = QFontMetricsF(theme.font)
        count = max((len(cells) for cells in self.block.plain_rows), default=0)
        naturals = [theme.em * 2.0] * count
        for number, cells in enumerate(self.block.plain_rows):
            # The head is bold; code and emphasis in cells take a little more than plain text.
            share = 1.18 if number == 0 and self.block.has_head else 1.06
            for column, cell in enumerate(cells):
                advance = metrics.horizontalAdvance(cell[:200]) * share
                wide = min(advance, theme.em * _MAX_COLUMN_EMS)
                naturals[column] = max(naturals[column], wide + theme.em * 1.4)
        return naturals


def _fitted(naturals: list[float], room: float) -> list[float]:
    """Widths of columns within this room: narrow ones keep theirs, wide ones share the rest."""
    widths = list(naturals)
    if sum(widths) <= room or not widths:
        return widths
    open_columns = set(range(len(widths)))
    left = room
    while open_columns:
        share = left / len(open_columns)
        narrow = [column for column in open_columns if naturals[column] <= share]
        if not narrow:
            total = sum(naturals[column] for column in open_columns)
            for column in open_columns:
                widths[column] = max(1.0, left * naturals[column] / total)
            break
        for column in narrow:
            widths[column] = naturals[column]
            left -= naturals[column]
            open_columns.remove(column)
    return widths
