"""Blocks as they are drawn: each with a document of its own, made when it is first seen.

All measures are in pixels of the page. A view knows nothing of scrolling; its `row` places it.
"""

from __future__ import annotations

import html
import math
import re
from abc import ABC, abstractmethod
from dataclasses import dataclass

from PySide6.QtCore import QPointF, QRectF, Qt, QUrl
from PySide6.QtGui import (
    QAbstractTextDocumentLayout,
    QColor,
    QFont,
    QFontMetricsF,
    QPainter,
    QPalette,
    QTextCharFormat,
    QTextCursor,
    QTextDocument,
)

from app.chat.view.markdown.blocks import (
    FORMULA_BEGIN,
    FORMULA_END,
    Block,
    Formula,
    FormulaBlock,
    TextBlock,
)
from app.chat.view.theme import Theme
from app.chat.view.transcript.formulas import Formulas

_MARK = re.compile(f"{FORMULA_BEGIN}(\\d+){FORMULA_END}")
_IMAGE = QTextDocument.ResourceType.ImageResource.value


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


class BlockView(ABC):
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
    @abstractmethod
    def plain(self) -> str:
        """The text, for copying."""

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

    @abstractmethod
    def _make(self, width: float, with_: Surroundings) -> QTextDocument:
        """The block as a document of that width."""

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
