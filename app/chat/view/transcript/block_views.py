"""Blocks as they are drawn: each with a document of its own, made when it is first seen.

All measures are in pixels of the page. A view knows nothing of scrolling; its `row` places it.
"""

from __future__ import annotations

import html
import math
import re
from dataclasses import dataclass, field

from PySide6.QtCore import QPointF, QRectF, Qt, QUrl
from PySide6.QtGui import (
    QAbstractTextDocumentLayout,
    QColor,
    QFont,
    QFontMetricsF,
    QPainter,
    QPainterPath,
    QPalette,
    QTextCharFormat,
    QTextCursor,
    QTextDocument,
    QTextLayout,
    QTextOption,
)

from app.chat.view.markdown.blocks import (
    FORMULA_BEGIN,
    FORMULA_END,
    Block,
    CodeBlock,
    Formula,
    FormulaBlock,
    TableBlock,
    TextBlock,
)
from app.chat.view.markdown.highlight import Span
from app.chat.view.theme import Theme
from app.chat.view.transcript.formulas import Formulas

_MARK = re.compile(f"{FORMULA_BEGIN}(\\d+){FORMULA_END}")
_IMAGE = QTextDocument.ResourceType.ImageResource.value
_MAX_COLUMN_EMS = 30.0


@dataclass(slots=True)
class Surroundings:
    """What views are drawn with.

    Attributes:
        ratio: pixels of the screen for one of the page.
        is_muted: thinking is shown less strongly than the answer.
        are_formulas_drawn: false while a block grows.
    """

    theme: Theme
    formulas: Formulas
    ratio: float = 1.0
    is_muted: bool = False
    are_formulas_drawn: bool = True

    @property
    def text_colour(self) -> QColor:
        """Of plain text."""
        return self.theme.muted if self.is_muted else self.theme.text


class BlockView:
    """Base of all views.

    Attributes:
        height: at the width of the last `lay_out`.
        ideal_width: what it would take without wrapping, at most that width.
        waits_for_formulas: some are not drawn yet.
    """

    def __init__(self, block: Block) -> None:
        self.block = block
        self.height = 0.0
        self.ideal_width = 0.0
        self.waits_for_formulas = False
        self._document: QTextDocument | None = None
        self._width = -1.0
        self._formulas: tuple[Formula, ...] = ()

    def lay_out(self, width: float, with_: Surroundings) -> None:
        """Make the document, if there is none, and fit it into a width."""
        if self._document is None:
            self._document = self._make(width, with_)
            self._width = -1.0
        if width != self._width:
            self._width = width
            self._document.setTextWidth(self._inner_width(width, with_))
            self.height = math.ceil(self._document.size().height() + self._extra(with_.theme))
            self.ideal_width = math.ceil(self._document.idealWidth()) + 1

    @property
    def is_laid_out(self) -> bool:
        """Whether it could be drawn now."""
        return self._document is not None

    def drop(self) -> None:
        """Free the document; it can be made again."""
        self._document = None

    @property
    def has_formulas(self) -> bool:
        """Whether there is something that is drawn only once it is final."""
        return bool(getattr(self.block, "formulas", ())) or isinstance(self.block, FormulaBlock)

    @property
    def plain(self) -> str:
        """The text, for copying."""
        raise NotImplementedError

    @property
    def length(self) -> int:
        """Positions of a cursor in it; 0 when it is not laid out."""
        return self._document.characterCount() - 1 if self._document is not None else 0

    def paint(
        self, painter: QPainter, x: float, y: float, with_: Surroundings, chosen: tuple[int, int]
    ) -> None:
        """Draw it; `chosen` is the selected part (begin, end)."""
        if self._document is None:
            return
        origin = self._origin(with_.theme)
        painter.save()
        painter.translate(x + origin.x(), y + origin.y())
        context = QAbstractTextDocumentLayout.PaintContext()
        context.palette.setColor(QPalette.ColorRole.Text, with_.text_colour)
        context.clip = QRectF(0, 0, self._document.size().width(), self._document.size().height())
        begin, end = max(chosen[0], 0), min(chosen[1], self.length)
        if begin < end:
            context.selections = [self._selection(begin, end, with_.theme)]
        self._document.documentLayout().draw(painter, context)
        painter.restore()

    def _selection(
        self, begin: int, end: int, theme: Theme
    ) -> QAbstractTextDocumentLayout.Selection:
        selection = QAbstractTextDocumentLayout.Selection()
        if self._document is None:
            return selection
        cursor = QTextCursor(self._document)
        cursor.setPosition(begin)
        cursor.setPosition(end, QTextCursor.MoveMode.KeepAnchor)
        look = QTextCharFormat()
        look.setBackground(theme.highlight)
        look.setForeground(theme.highlighted_text)
        selection.cursor = cursor
        selection.format = look
        return selection

    def hit(self, x: float, y: float, theme: Theme) -> int:
        """The position nearest to a point of the view."""
        if self._document is None:
            return 0
        point = QPointF(x, y) - self._origin(theme)
        found = self._document.documentLayout().hitTest(point, Qt.HitTestAccuracy.FuzzyHit)
        return max(0, found)

    def link_at(self, x: float, y: float, theme: Theme) -> str:
        """The address at a point of the view, or nothing."""
        if self._document is None:
            return ""
        return self._document.documentLayout().anchorAt(QPointF(x, y) - self._origin(theme))

    def word_at(self, position: int, kind: QTextCursor.SelectionType) -> tuple[int, int]:
        """Begin and end of the word or the paragraph at a position."""
        if self._document is None:
            return position, position
        cursor = QTextCursor(self._document)
        cursor.setPosition(min(position, self.length))
        cursor.select(kind)
        return cursor.selectionStart(), cursor.selectionEnd()

    def text(self, begin: int, end: int) -> str:
        """A part as plain text."""
        if self._document is None or (begin <= 0 and end >= self.length):
            return self.plain
        cursor = QTextCursor(self._document)
        cursor.setPosition(max(0, min(begin, self.length)))
        skipped = self._document.toPlainText()[: cursor.position()].count("\ufffc")
        cursor.setPosition(max(0, min(end, self.length)), QTextCursor.MoveMode.KeepAnchor)
        text = cursor.selectedText().replace("\u2029", "\n").replace("\u2028", "\n")
        for formula in self._formulas[skipped:]:
            text = text.replace("\ufffc", formula.marked, 1)
        return text.replace("\xa0", " ")

    # -- what kinds differ in ----------------------------------------------------------------------

    def _make(self, width: float, with_: Surroundings) -> QTextDocument:
        raise NotImplementedError

    def _inner_width(self, width: float, with_: Surroundings) -> float:  # noqa: ARG002
        return width

    def _extra(self, theme: Theme) -> float:
        """Height beside that of the document; by itself the distance to what follows."""
        return theme.em * 0.55

    def _origin(self, theme: Theme) -> QPointF:  # noqa: ARG002
        """Where the document is within the view."""
        return QPointF(0, 0)

    def _new_document(self, font: QFont) -> QTextDocument:
        document = QTextDocument()
        document.setUndoRedoEnabled(False)
        document.setDocumentMargin(0)
        document.setDefaultFont(font)
        return document

    def _put_formulas(
        self,
        document: QTextDocument,
        markup: str,
        formulas: tuple[Formula, ...],
        with_: Surroundings,
    ) -> str:
        """Markup with pictures, or sources, where formulas stand."""
        if not formulas:
            return markup
        theme = with_.theme
        x_height = QFontMetricsF(theme.font).xHeight()
        shown: list[Formula] = []
        self.waits_for_formulas = False

        def put(found: re.Match[str]) -> str:
            number = int(found[1])
            formula = formulas[number]
            drawing = None
            if with_.are_formulas_drawn:
                drawing = with_.formulas.get(formula, theme.em * 0.98, with_.text_colour.name())
                self.waits_for_formulas |= drawing is None
            if drawing is None:
                return f"<code>{html.escape(formula.source, quote=False)}</code>"
            shown.append(formula)
            name = f"formula:{number}"
            document.addResource(_IMAGE, QUrl(name), drawing.image(x_height, with_.ratio))
            return f'<img src="{name}" style="vertical-align: middle"/>'

        markup = _MARK.sub(put, markup)
        self._formulas = tuple(shown)
        return markup


class TextView(BlockView):
    """Flowing text."""

    block: TextBlock

    @property
    def plain(self) -> str:
        """The text, for copying."""
        return self.block.plain

    def _make(self, width: float, with_: Surroundings) -> QTextDocument:  # noqa: ARG002
        theme = with_.theme
        document = self._new_document(theme.font)
        document.setDefaultStyleSheet(theme.muted_css if with_.is_muted else theme.css)
        document.setIndentWidth(theme.em * 1.5)
        markup = self._put_formulas(document, self.block.html, self.block.formulas, with_)
        document.setHtml(f"<body>{markup}</body>")
        return document


@dataclass(slots=True)
class CodeGroup:
    """The pieces of one code block, which is cut when it is long.

    Attributes:
        views: in their order.
        is_complete: the end has come; only then colours are worth the time.
        is_coloured: the spans are there, or there is nothing to colour.
    """

    views: list[CodeView] = field(default_factory=list)
    is_complete: bool = True
    is_coloured: bool = False

    @property
    def code(self) -> str:
        """All of the code."""
        return "\n".join(view.block.code for view in self.views)

    @property
    def is_seen(self) -> bool:
        """Whether a part of it is on the screen, or near it."""
        return any(view.is_laid_out for view in self.views)

    @property
    def language(self) -> str:
        """As it was written behind the fence."""
        return self.views[0].block.language if self.views else ""

    def put_spans(self, spans: list[Span]) -> None:
        """Give each view its part of the colours."""
        self.is_coloured = True
        offset, place = 0, 0
        for view in self.views:
            size = len(view.block.code)
            own: list[Span] = []
            while place < len(spans) and spans[place][0] < offset + size:
                begin, length, kind = spans[place]
                first, last = max(begin, offset), min(begin + length, offset + size)
                if first < last:
                    own.append((first - offset, last - first, kind))
                if begin + length > offset + size:
                    break  # it goes on in the next view
                place += 1
            view.spans = own
            view.colour()
            offset += size + 1


class CodeView(BlockView):
    """Code on its own ground, under a head with its language.

    Attributes:
        group: the code block that it is a part of.
        spans: colours.
    """

    block: CodeBlock

    def __init__(self, block: CodeBlock) -> None:
        super().__init__(block)
        self.group = CodeGroup([self])
        self.spans: list[Span] = []
        self._theme: Theme | None = None

    @property
    def plain(self) -> str:
        """The text, for copying."""
        return self.block.code

    @property
    def is_first(self) -> bool:
        """Whether the head stands above it."""
        return self.group.views[0] is self

    @property
    def is_last(self) -> bool:
        """Whether the ground ends below it."""
        return self.group.views[-1] is self

    def _make(self, width: float, with_: Surroundings) -> QTextDocument:  # noqa: ARG002
        theme = self._theme = with_.theme
        document = self._new_document(theme.mono)
        option = QTextOption()
        option.setWrapMode(QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere)
        option.setTabStopDistance(QFontMetricsF(theme.mono).horizontalAdvance(" ") * 4)
        # Code is read from the left, whatever letters its comments have.
        option.setTextDirection(Qt.LayoutDirection.LeftToRight)
        document.setDefaultTextOption(option)
        document.setPlainText(self.block.code)
        self._document = document
        self.colour()
        return document

    def colour(self) -> None:
        """Put the colours on the document; this lays nothing out again."""
        if self._document is None or self._theme is None or not self.spans:
            return
        colours = self._theme.code_colours
        looks: dict[str, QTextCharFormat] = {}
        place = 0
        block = self._document.begin()
        while block.isValid():
            begin, end = block.position(), block.position() + block.length()
            ranges: list[QTextLayout.FormatRange] = []
            while place < len(self.spans) and self.spans[place][0] < end:
                start, length, kind = self.spans[place]
                piece = QTextLayout.FormatRange()
                piece.start = max(start, begin) - begin
                piece.length = min(start + length, end) - max(start, begin)
                if kind not in looks:
                    looks[kind] = QTextCharFormat()
                    looks[kind].setForeground(QColor(colours[kind]))
                piece.format = looks[kind]
                ranges.append(piece)
                if start + length > end:
                    break
                place += 1
            block.layout().setFormats(ranges)
            block = block.next()
        self._document.markContentsDirty(0, self._document.characterCount())

    def head_height(self, theme: Theme) -> float:
        """Height of the head; 0 for the later parts of long code."""
        return round(theme.em * 1.75) if self.is_first else 0.0

    def _inner_width(self, width: float, with_: Surroundings) -> float:
        return max(width - 2 * _padding(with_.theme), 1.0)

    def _extra(self, theme: Theme) -> float:
        # The distance to what follows is the last view's; an inner edge has none.
        top = self.head_height(theme) + (_padding(theme) * 0.7 if self.is_first else 0)
        return top + (_padding(theme) * 0.7 + theme.em * 0.7 if self.is_last else 0)

    def _origin(self, theme: Theme) -> QPointF:
        top = self.head_height(theme) + (_padding(theme) * 0.7 if self.is_first else 0)
        return QPointF(_padding(theme), top)

    def refit(self, with_: Surroundings) -> None:
        """Its neighbours have changed, and with them the edges."""
        width, self._width = self._width, -1.0
        if width >= 0:
            self.lay_out(width, with_)

    def paint(
        self, painter: QPainter, x: float, y: float, with_: Surroundings, chosen: tuple[int, int]
    ) -> None:
        """Draw the ground, the head and the code."""
        theme = with_.theme
        bottom = self.height - (theme.em * 0.7 if self.is_last else 0)
        rect = QRectF(x, y, self._width, bottom)
        radius = theme.em * 0.4
        painter.setPen(Qt.PenStyle.NoPen)
        painter.fillPath(
            _rounded(rect, radius, top=self.is_first, bottom=self.is_last), theme.code_background
        )
        if self.is_first:
            head = QRectF(x, y, self._width, self.head_height(theme))
            painter.fillPath(_rounded(head, radius, top=True, bottom=False), theme.code_head)
            painter.setFont(theme.font)
            painter.setPen(theme.muted)
            painter.drawText(
                head.adjusted(_padding(theme), 0, -theme.em * 4, 0),
                Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft,
                self.block.language or "text",
            )
        super().paint(painter, x, y, with_, chosen)


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


class FormulaView(BlockView):
    """A formula on its own, in the middle."""

    block: FormulaBlock

    @property
    def plain(self) -> str:
        """The text, for copying."""
        return self.block.formula.marked

    def _make(self, width: float, with_: Surroundings) -> QTextDocument:  # noqa: ARG002
        theme = with_.theme
        document = self._new_document(theme.font)
        document.setDefaultStyleSheet(theme.muted_css if with_.is_muted else theme.css)
        mark = f"{FORMULA_BEGIN}0{FORMULA_END}"
        markup = self._put_formulas(document, mark, (self.block.formula,), with_)
        document.setHtml(f'<body><p align="center">{markup}</p></body>')
        return document


def view_of(block: Block) -> BlockView:
    """A view for a block."""
    if isinstance(block, CodeBlock):
        return CodeView(block)
    if isinstance(block, TableBlock):
        return TableView(block)
    if isinstance(block, FormulaBlock):
        return FormulaView(block)
    return TextView(block)


def _padding(theme: Theme) -> float:
    return round(theme.em * 0.7)


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


def _rounded(rect: QRectF, radius: float, *, top: bool, bottom: bool) -> QPainterPath:
    """A rectangle whose upper or lower corners are round."""
    path = QPainterPath()
    path.setFillRule(Qt.FillRule.WindingFill)
    path.addRoundedRect(rect, radius, radius)
    if not top:
        path.addRect(QRectF(rect.left(), rect.top(), rect.width(), min(radius, rect.height())))
    if not bottom:
        height = min(radius, rect.height())
        path.addRect(QRectF(rect.left(), rect.bottom() - height, rect.width(), height))
    return path
