"""Code as it is drawn: on its own ground, under a head, cut into parts when it is long."""

from __future__ import annotations

from dataclasses import dataclass, field

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import (
    QColor,
    QFontMetricsF,
    QPainter,
    QPainterPath,
    QTextCharFormat,
    QTextDocument,
    QTextLayout,
    QTextOption,
)

from app.chat.view.markdown.blocks import CodeBlock
from app.chat.view.markdown.highlight import Span
from app.chat.view.theme import Theme
from app.chat.view.transcript.block_views import BlockView, Surroundings


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


def _padding(theme: Theme) -> float:
    return round(theme.em * 0.7)


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
