"""The column of messages: where each of them and each row is, and how high what is seen is.

Heights of what nobody has seen are guesses. All places are pixels from the top of the content, which
starts above the first message; the view shows a part of it. It does not know how far it is scrolled.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Iterator

from PySide6.QtCore import QPointF
from PySide6.QtWidgets import QWidget

from app.chat.view.transcript.block_views import Surroundings
from app.chat.view.transcript.code_view import CodeView
from app.chat.view.transcript.rows import BodyRow, Row, WidgetRow
from app.chat.view.transcript.sections import Section
from app.chat.view.transcript.selection import Position

_WIDTH_EMS = 50.0
_LEAST_WIDTH = 60.0
_MARGIN_EMS = 1.2
_TOP_EMS = 0.8
_GAP_EMS = 0.9
_BUBBLE_MARGIN_EMS = 0.8
_MOST_BUBBLE_ROWS = 8  # of a longer message the ground is as wide as the column


class Column:
    """See the module.

    Attributes:
        sections: the messages, first to last.
        x: left edge of the text in the view.
        width: of the text.
    """

    def __init__(self, surroundings: Surroundings) -> None:
        self.sections: list[Section] = []
        self.x = 0.0
        self.width = 0.0
        self._surroundings = surroundings
        self._tops: list[float] = [0.0]  # one more than sections: the end of the content

    def fit(self, room: int, ratio: float) -> None:
        """Take a view of this width, on a screen of this device pixel ratio."""
        em = self._surroundings.theme.em
        wanted = min(room - 2 * em * _MARGIN_EMS, em * _WIDTH_EMS)
        width = float(max(_LEAST_WIDTH, wanted))
        self.x = round((room - width) / 2)
        if width == self.width and ratio == self._surroundings.ratio:
            return
        self.width = width
        self._surroundings.ratio = ratio
        for section in self.sections:
            section.set_width(width)

    def place(self) -> None:
        """Put the messages below each other, by the heights that are known or guessed now."""
        em = self._surroundings.theme.em
        tops, y = [], em * _TOP_EMS
        for section in self.sections:
            tops.append(y)
            if section.is_built:
                section.tops  # noqa: B018  # sets the height anew
            y += section.height + em * _GAP_EMS
        tops.append(y)
        self._tops = tops

    # -- where things are --------------------------------------------------------------------------

    @property
    def height(self) -> float:
        """Of the content."""
        return self._tops[-1]

    def top_of(self, section: Section) -> float:
        """Of a message."""
        return self._tops[section.index]

    def place_at(self, y: float) -> int:
        """Index of the message at a height; of the nearest one outside."""
        place = bisect_right(self._tops, y) - 1
        return min(max(0, place), max(0, len(self.sections) - 1))

    def section_at(self, y: float) -> Section | None:
        """The message at a height."""
        place = bisect_right(self._tops, y) - 1
        return self.sections[place] if 0 <= place < len(self.sections) else None

    def seen(self, begin: float, end: float) -> Iterator[tuple[Section, Row, float]]:
        """Rows between two heights, with their tops."""
        first = max(0, bisect_right(self._tops, begin) - 1)
        for section in itertools.islice(self.sections, first, None):
            top = self._tops[section.index]
            if top > end:
                return
            if not section.is_built:
                continue
            tops = section.tops
            for place in range(section.row_at(begin - top), len(section.rows)):
                y = top + tops[place]
                if y > end:
                    break
                yield section, section.rows[place], y

    def row_width(self, section: Section, row: Row) -> float:
        """Of a row's content."""
        if row.is_in_bubble and section.bubble_width:
            return section.bubble_width
        return section.row_width(row)

    def row_x(self, section: Section, row: Row) -> float:
        """Left edge of a row's content in the view."""
        if not row.is_in_bubble:
            return self.x
        width = section.bubble_width or section.row_width(row)
        return self.x + self.width - width - self.bubble_margin

    @property
    def bubble_margin(self) -> float:
        """Between the edge of a message's ground and its text."""
        return self._surroundings.theme.em * _BUBBLE_MARGIN_EMS

    # -- how high it is ----------------------------------------------------------------------------

    def measure(self, begin: float, end: float, parent: QWidget, *, is_at_end: bool) -> bool:
        """Build and measure what is seen between two heights; whether a height has changed.

        `parent` is for rows that are widgets. From the end upwards, what is above needs no look.
        """
        if self._build(begin, end):
            return True
        has_changed = False
        seen = list(self.seen(begin, end))
        if is_at_end:
            seen.reverse()
        for section, row, _y in seen:
            if row.is_laid_out:
                continue
            before = row.height
            if isinstance(row, WidgetRow):
                row.parent = parent
            row.measure(self.row_width(section, row), self._surroundings)
            if row.height != before:
                section.heights_changed()
                has_changed = True
        return has_changed

    def _build(self, begin: float, end: float) -> bool:
        has_built = False
        first = max(0, bisect_right(self._tops, begin) - 1)
        for section in itertools.islice(self.sections, first, None):
            if self._tops[section.index] > end:
                break
            if not section.is_built:
                section.build()
                has_built = True
            self._fit_bubble(section)
        return has_built

    def _fit_bubble(self, section: Section) -> None:
        """The ground of a short message is only as wide as its text."""
        if section.message.is_answer or section.bubble_width:
            return
        rows = [row for row in section.rows if row.is_in_bubble]
        width = section.row_width(rows[0]) if rows else 0.0
        section.bubble_width = width
        texts = [row for row in rows if isinstance(row, BodyRow)]
        if len(texts) != len(rows) or not 0 < len(rows) <= _MOST_BUBBLE_ROWS:
            return
        ideal = self._surroundings.theme.em
        for row in texts:
            row.measure(width, self._surroundings)
            ideal = max(ideal, row.ideal_width)
        if not any(isinstance(view, CodeView) for row in texts for view in row.views):
            section.bubble_width = min(width, ideal)
            for row in texts:
                row.measure(section.bubble_width, self._surroundings)
        section.heights_changed()

    # -- what is at a point ------------------------------------------------------------------------

    def position_at(self, point: QPointF, begin: float, end: float) -> Position | None:
        """The place in the text that is seen between two heights nearest to a point of the content."""
        best: Position | None = None
        distance = float("inf")
        for section, row, top in self.seen(begin, end):
            if not isinstance(row, BodyRow) or not row.is_laid_out:
                continue
            away = max(top - point.y(), point.y() - top - row.height, 0.0)
            if away < distance:
                distance = away
                local_y = min(max(point.y() - top, 0.0), max(row.height - 1, 0.0))
                x = point.x() - self.row_x(section, row)
                best = Position(section, row, row.hit(x, local_y, self._surroundings))
        return best

    def link_at(self, point: QPointF) -> str:
        """The address under a point of the content."""
        for section, row, y in self.seen(point.y(), point.y()):
            if isinstance(row, BodyRow) and row.is_laid_out:
                x = point.x() - self.row_x(section, row)
                return row.link_at(x, point.y() - y, self._surroundings)
        return ""
