"""Rows of a transcript: what is placed, measured and drawn one below the other.

A row's height is estimated until it is first seen. `BodyRow` draws a piece of Markdown; `WidgetRow` is
a widget that exists only while it is seen.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

from PySide6.QtCore import QRectF
from PySide6.QtGui import QPainter, QTextCursor
from PySide6.QtWidgets import QWidget

from app.chat.view.markdown.blocks import Block
from app.chat.view.markdown.splitter import Piece, mended
from app.chat.view.transcript.block_views import BlockView, Surroundings
from app.chat.view.transcript.code_view import CodeView
from app.chat.view.transcript.table_view import TableView
from app.chat.view.transcript.views import view_of

END = 1 << 30  # a position behind everything in a row


@dataclass(frozen=True, slots=True)
class Control:
    """A widget over a drawn row, such as the button that copies code.

    Attributes:
        key: unique within the row.
        rect: where, from the row's own corner; of its size only the height counts, its right edge
            is where the widget ends.
    """

    key: str
    rect: QRectF
    make: Callable[[QWidget], QWidget]


class Row(ABC):
    """Base of all rows.

    Attributes:
        index: its place in the section.
        height: estimated until `is_measured`.
        gap: empty space above it.
        is_in_bubble: it is drawn on the ground of the person's message.
    """

    def __init__(self) -> None:
        self.index = 0
        self.height = 0.0
        self.gap = 0.0
        self.is_measured = False
        self.is_in_bubble = False

    @abstractmethod
    def estimate(self, width: float, with_: Surroundings) -> None:
        """Guess the height."""

    @abstractmethod
    def measure(self, width: float, with_: Surroundings) -> None:
        """Find out the height."""

    def forget(self) -> None:
        """The width or the colours changed: measure and draw anew."""
        self.is_measured = False

    def release(self) -> None:  # noqa: B027  # most rows have nothing to free
        """It is no longer seen: keep the height, free the rest."""

    @property
    def is_laid_out(self) -> bool:
        """Whether it could be drawn now."""
        return self.is_measured


class WidgetRow(Row):
    """A row that is one widget.

    Attributes:
        widget: while it is seen, else None.
        indent: empty space at its left, in lines of text.
    """

    def __init__(
        self, make: Callable[[QWidget], QWidget], *, lines: float = 1.4, indent: float = 0.0
    ) -> None:
        super().__init__()
        self._make = make
        self._lines = lines
        self.indent = indent
        self.widget: QWidget | None = None
        self.parent: QWidget | None = None

    def estimate(self, width: float, with_: Surroundings) -> None:  # noqa: ARG002
        """Guess the height."""
        self.height = with_.theme.em * self._lines

    def measure(self, width: float, with_: Surroundings) -> None:
        """Guess the height."""
        """Find out the height."""
        if self.widget is None:
            if self.parent is None:
                raise RuntimeError("a row with a widget has no parent for it")
            self.widget = self._make(self.parent)
            self.widget.ensurePolished()
        room = max(1, int(width - self.indent * with_.theme.em))
        layout = self.widget.layout()
        if layout is not None:
            layout.activate()
        if self.widget.hasHeightForWidth():
            self.height = self.widget.heightForWidth(room)
        else:
            self.height = self.widget.sizeHint().height()
        self.is_measured = True

    @property
    def is_laid_out(self) -> bool:
        """Whether it could be drawn now."""
        return self.is_measured and self.widget is not None

    def release(self) -> None:
        """Free what is not seen."""
        if self.widget is not None:
            self.widget.hide()
            self.widget.deleteLater()
            self.widget = None

    def forget(self) -> None:
        """Measure and draw anew."""
        super().forget()
        if self.widget is None:
            return
        self.widget.updateGeometry()


class BodyRow(Row):
    """A piece of Markdown.

    Attributes:
        piece: its text.
        views: its blocks, from when they are first needed.
    """

    def __init__(
        self, piece: Piece, parse: Callable[[Piece], list[Block]], *, is_muted: bool = False
    ) -> None:
        super().__init__()
        self.piece = piece
        self.views: list[BlockView] = []
        self._parse = parse
        self._is_parsed = False
        self.is_muted = is_muted
        self.is_growing = False
        self.before: BodyRow | None = None  # the row that this one's piece continues
        self.copy_button: Callable[[QWidget, CodeView], QWidget] | None = None
        self._tops: list[float] = []

    # -- content -----------------------------------------------------------------------------------

    def grow(self) -> None:
        """The piece has got longer: its blocks are made anew."""
        self._leave_groups()
        self.views = []
        self._is_parsed = False
        self.is_measured = False

    def parse_with(self, parse: Callable[[Piece], list[Block]]) -> None:
        """Make the blocks anew with another parser."""
        self._parse = parse
        self.grow()

    def parsed(self) -> list[BlockView]:
        """The views of its blocks."""
        chain = [self]
        # From the first of a block that was cut on, as the later parts join it.
        while not chain[-1]._is_parsed and chain[-1].piece.prefix and chain[-1].before is not None:
            chain.append(chain[-1].before)
        for row in reversed(chain):
            if not row._is_parsed:
                row._is_parsed = True
                piece = mended(row.piece) if row.is_growing else row.piece
                row.views = [view_of(block) for block in row._parse(piece)]
                row._join()
        return self.views

    def _join(self) -> None:
        """Code and tables that were cut are one block for the eye."""
        if not self.piece.prefix or self.before is None or not self.views:
            return
        earlier = self.before.views
        if not earlier:
            return
        last, first = earlier[-1], self.views[0]
        if isinstance(last, CodeView) and isinstance(first, CodeView):
            group = last.group
            group.views.append(first)
            group.is_coloured = False
            first.group = group
            self.before.is_measured = False  # its lower edge has gone
        elif isinstance(last, TableView) and isinstance(first, TableView):
            first.head = last.head

    def _leave_groups(self) -> None:
        for view in self.views:
            if isinstance(view, CodeView) and view in view.group.views[1:]:
                view.group.views.remove(view)

    @property
    def plain(self) -> str:
        """The text, for copying."""
        return "\n".join(view.plain for view in self.parsed())

    def freeze(self) -> None:
        """The piece is final: formulas and colours are worth their time now."""
        if self.is_growing and self._is_parsed and mended(self.piece) is not self.piece:
            self.grow()  # what was closed for the time being stays open
        self.is_growing = False
        for view in self.views:
            if isinstance(view, CodeView):
                view.group.is_complete = True
            if view.has_formulas:
                view.drop()
                self.is_measured = False

    # -- layout ------------------------------------------------------------------------------------

    def estimate(self, width: float, with_: Surroundings) -> None:
        """Guess the height."""
        text = self.piece.text
        em = with_.theme.em
        # Chinese letters are twice as wide as others.
        letter = em * (0.85 if text[:40].strip() > "\u2e80" else 0.42)
        per_line = max(8.0, width / letter)
        lines = len(text) / per_line + text.count("\n") * 0.5
        self.height = math.ceil(max(1.0, lines) * em)

    def measure(self, width: float, with_: Surroundings) -> None:
        """Find out the height."""
        with_.is_muted = self.is_muted
        with_.are_formulas_drawn = not self.is_growing
        y = 0.0
        self._tops = []
        for view in self.parsed():
            self._tops.append(y)
            if isinstance(view, CodeView):
                view.group.is_complete = not self.is_growing
                view.refit(with_)
            view.lay_out(max(1.0, width - self._indent(view, with_)), with_)
            y += view.height
        self.height = y
        self.is_measured = True

    def forget(self) -> None:
        """Measure and draw anew."""
        super().forget()
        for view in self.views:
            view.drop()
            if isinstance(view, TableView):
                view.naturals = []

    def release(self) -> None:
        """Free what is not seen."""
        for view in self.views:
            view.drop()

    @property
    def is_laid_out(self) -> bool:
        """Whether it could be drawn now."""
        return self.is_measured and all(view.is_laid_out for view in self.views)

    @property
    def ideal_width(self) -> float:
        """What it would take without wrapping."""
        return max((view.ideal_width for view in self.views), default=0.0)

    @property
    def waits_for_formulas(self) -> bool:
        """Whether formulas of it are being drawn."""
        return any(view.waits_for_formulas for view in self.views)

    def _indent(self, view: BlockView, with_: Surroundings) -> float:
        em = with_.theme.em
        return view.block.indent * em * 1.5 + view.block.quote * em * 0.9

    # -- drawing -----------------------------------------------------------------------------------

    def paint(
        self, painter: QPainter, x: float, y: float, with_: Surroundings, chosen: tuple[int, int]
    ) -> None:
        """Draw it; `chosen` is the selected part of its text."""
        with_.is_muted = self.is_muted
        em = with_.theme.em
        if self.is_muted:
            bar = QRectF(x - em * 0.6, y, em * 0.15, self.height)
            painter.fillRect(bar, with_.theme.line)
        begin = 0
        for view, top in zip(self.views, self._tops, strict=False):
            indent = self._indent(view, with_)
            for level in range(view.block.quote):
                left = x + view.block.indent * em * 1.5 + level * em * 0.9
                bar = QRectF(left, y + top, em * 0.18, view.height - em * 0.3)
                painter.fillRect(bar, with_.theme.line)
            part = (chosen[0] - begin, chosen[1] - begin)
            view.paint(painter, x + indent, y + top, with_, part)
            begin += view.length + 1

    def controls(self, with_: Surroundings, width: float) -> list[Control]:
        """Buttons over it."""
        found: list[Control] = []
        make_button = self.copy_button
        if make_button is None:
            return found
        for number, view in enumerate(self.views):
            if not isinstance(view, CodeView) or not view.is_first or number >= len(self._tops):
                continue
            rect = QRectF(0, self._tops[number], width, view.head_height(with_.theme))
            found.append(
                Control(f"copy {number}", rect, lambda parent, v=view: make_button(parent, v))  # type: ignore[misc]
            )
        return found

    # -- positions ---------------------------------------------------------------------------------

    def _view_at(self, y: float) -> tuple[int, int]:
        """Number of the view at a height, and the position where it begins."""
        begin = 0
        for number, view in enumerate(self.views):
            is_last = number == len(self.views) - 1
            if is_last or y < self._tops[number] + view.height:
                return number, begin
            begin += view.length + 1
        return -1, 0

    def hit(self, x: float, y: float, with_: Surroundings) -> int:
        """The position nearest to a point of the row."""
        number, begin = self._view_at(y)
        if number < 0 or number >= len(self._tops):
            return 0
        view = self.views[number]
        local = view.hit(x - self._indent(view, with_), y - self._tops[number], with_.theme)
        return begin + local

    def link_at(self, x: float, y: float, with_: Surroundings) -> str:
        """The address at a point of the row, or nothing."""
        number, _begin = self._view_at(y)
        if number < 0 or number >= len(self._tops):
            return ""
        view = self.views[number]
        return view.link_at(x - self._indent(view, with_), y - self._tops[number], with_.theme)

    def word_at(self, position: int, kind: QTextCursor.SelectionType) -> tuple[int, int]:
        """Begin and end of the word or the paragraph at a position."""
        begin = 0
        for view in self.views:
            if position <= begin + view.length:
                first, last = view.word_at(position - begin, kind)
                return begin + first, begin + last
            begin += view.length + 1
        return position, position

    def text(self, begin: int, end: int) -> str:
        """A part of its text."""
        if begin <= 0 and end >= END:
            return self.plain
        parts: list[str] = []
        start = 0
        for view in self.parsed():
            size = view.length
            if begin < start + size and end > start:
                parts.append(view.text(begin - start, end - start))
            start += size + 1
        return "\n".join(parts)
