"""One message of a transcript as rows: built when it is first seen, kept up while it grows."""

from __future__ import annotations

from bisect import bisect_right

from PySide6.QtWidgets import QWidget

from app.chat.activity import Activity, Phase
from app.chat.view import words
from app.chat.view.markdown.blocks import Block
from app.chat.view.markdown.parse import parse, plain_blocks
from app.chat.view.markdown.splitter import Piece, references
from app.chat.view.theme import Theme
from app.chat.view.transcript.host import Host
from app.chat.view.transcript.rows import BodyRow, Row, WidgetRow
from app.chat.view.transcript.segments import Segment
from app.chat.view.transcript.widgets import (
    Chips,
    Footer,
    MoreButton,
    StatusLine,
    ThinkingHead,
    ToolCard,
    note_notice,
    problem_notice,
)
from app.history.records import Message, MessageState, ToolState

# More of a person's message is shown when asked for; pasted texts are long.
_FOLD_CHARS = 2_500
_SHOWN_CHARS = 1_000
_BUBBLE_SHARE = 0.82


class Section:
    """A message.

    Attributes:
        rows: empty until `is_built`.
        height: of all rows; estimated until they are measured.
        index: its place in the transcript.
    """

    def __init__(self, host: Host, message: Message, versions: tuple[str, ...]) -> None:
        self.message = message
        self.versions = versions
        self.rows: list[Row] = []
        self.index = 0
        self.height = 0.0
        self.is_built = False
        self.bubble_width = 0.0
        self._host = host
        self._tops: list[float] = [0.0]
        self._is_dirty = True
        self._is_thinking_open = False
        self._is_unfolded = False
        self._open_tools: set[str] = set()
        self._thinking: Segment | None = None
        self._head_row: WidgetRow | None = None
        self._segments: list[Segment] = []
        self._bounds: list[int] = []
        self._tool_rows: dict[str, tuple[object, WidgetRow]] = {}
        self._status: WidgetRow | None = None
        self._footer: WidgetRow | None = None
        self._references = ""

    # -- content -----------------------------------------------------------------------------------

    @property
    def is_growing(self) -> bool:
        """Whether its text may become longer."""
        return self.message.state is MessageState.GROWING

    def estimate(self, width: float) -> None:
        """Guess the height of a message that nobody has seen yet."""
        with_ = self._host.surroundings
        em = with_.theme.em
        text = self.message.text
        if not self.message.is_answer and len(text) > _FOLD_CHARS:
            text = text[:_SHOWN_CHARS]
        letter = em * (0.85 if text[:40].strip() > "\u2e80" else 0.42)
        lines = len(text) / max(8.0, width / letter) + text.count("\n") * 0.55 + 1
        self.height = (lines + 3) * em + (2 * em if self.message.thinking else 0)

    def build(self) -> None:
        """Make the rows."""
        if not self.is_built:
            self.is_built = True
            if self.is_growing:
                self.message = self._host.latest(self.message)
            # Where there is no answer, the thinking is all that there is to read.
            self._is_thinking_open = "ended_in_thinking" in self.message.notes
            self._compose()

    def update(self, message: Message, versions: tuple[str, ...]) -> None:
        """Anything but the end of the text has changed."""
        was_growing = self.is_growing
        self.message, self.versions = message, versions
        self._footer = self._status = None
        if not self.is_built:
            return
        if was_growing and not self.is_growing:
            self._end_growth()
        self._compose()
        self.show_activity()  # nothing is told of an answer that has ended

    def append(self, text: str) -> None:
        """The answer has become longer."""
        if not self.is_built:
            return
        if not self._segments:
            self._compose()
            return
        count = len(self._segments[-1].rows)
        self._segments[-1].add(text)
        self._after_growth(self._segments[-1], count)

    def append_thinking(self, text: str) -> None:
        """The thinking has become longer."""
        if not self.is_built:
            return
        if self._thinking is None:
            self._compose()
            return
        count = len(self._thinking.rows)
        self._thinking.add(text)
        if self._is_thinking_open:
            self._after_growth(self._thinking, count)

    def _after_growth(self, segment: Segment, num_rows: int) -> None:
        if len(segment.rows) == num_rows:
            self._is_dirty = True
            self._host.rows_changed()
            return
        new = segment.rows[num_rows:]
        place = self.rows.index(segment.rows[num_rows - 1]) + 1 if num_rows else -1
        if place < 0:
            self._compose()
            return
        self._prepare(new)
        self.rows[place:place] = new
        self._renumber(place)

    def _prepare(self, rows: list[BodyRow]) -> None:
        width = self._row_width
        for row in rows:
            row.estimate(width, self._host.surroundings)

    def _end_growth(self) -> None:
        for segment in (*self._segments, *([self._thinking] if self._thinking else [])):
            segment.end()
        found = references(self.message.text)
        if found and found != self._references:
            self._references = found
            for segment in self._segments:
                segment.parse_again(self._parse)

    def _parse(self, piece: Piece) -> list[Block]:
        return parse(piece, self._references)

    # -- rows --------------------------------------------------------------------------------------

    def _compose(self) -> None:
        """Put the rows together; those that stay the same are kept."""
        before = self.rows
        self.rows = self._answer_rows() if self.message.is_answer else self._person_rows()
        kept = set(map(id, self.rows))
        for row in before:
            if id(row) not in kept:
                row.release()
        for row in self.rows:
            if not row.is_measured and not row.height:
                row.estimate(self._row_width, self._host.surroundings)
        self._renumber(0)

    def _renumber(self, begin: int) -> None:
        for place in range(begin, len(self.rows)):
            self.rows[place].index = place
        self._is_dirty = True
        self._host.rows_changed()

    def _person_rows(self) -> list[Row]:
        message, em = self.message, self._host.surroundings.theme.em
        rows: list[Row] = []
        if message.attachments:
            rows.append(
                WidgetRow(lambda parent: Chips(parent, self._theme, message.attachments), lines=2.0)
            )
        if not self._segments and message.text.strip():
            segment = Segment(plain_blocks, self._host.copy_button)
            segment.add(self._shown_text())
            self._segments = [segment]
        for segment in self._segments:
            for row in segment.rows:
                row.is_in_bubble = True
            rows += segment.rows
        if message.attachments and len(rows) > 1:
            rows[1].gap = em * 0.3
        if len(message.text) > _FOLD_CHARS:
            rows.append(WidgetRow(self._make_more, lines=1.6))
            rows[-1].is_in_bubble = True
        if self._footer is None:
            self._footer = WidgetRow(self._make_footer, lines=1.7)
            self._footer.gap = em * 0.2
        rows.append(self._footer)
        return rows

    def _shown_text(self) -> str:
        text = self.message.text
        if self._is_unfolded or len(text) <= _FOLD_CHARS:
            return text
        cut = text[:_SHOWN_CHARS]
        return cut[: cut.rfind("\n")] if "\n" in cut[_SHOWN_CHARS // 2 :] else cut

    def _make_more(self, parent: QWidget) -> QWidget:
        text = words.fold_words(len(self.message.text), is_unfolded=self._is_unfolded)
        return MoreButton(parent, self._theme, text, self._toggle_text)

    def _toggle_text(self) -> None:
        self._is_unfolded = not self._is_unfolded
        for segment in self._segments:
            for row in segment.rows:
                row.release()
        self._segments = []
        self._compose()

    def _answer_rows(self) -> list[Row]:
        message = self.message
        rows: list[Row] = []
        if message.thinking:
            rows += self._thinking_rows()
        self._fit_segments()
        calls = list(message.tool_calls)
        for number, segment in enumerate(self._segments):
            if rows and number == 0 and segment.rows:
                segment.rows[0].gap = self._theme.em * 0.2
            rows += segment.rows
            if number < len(calls):
                rows.append(self._tool_row(number))
        if message.problem is not None:
            problem = message.problem
            rows.append(
                self._spaced(WidgetRow(lambda p: problem_notice(p, self._theme, problem), lines=2))
            )
        for note in message.notes:
            rows.append(
                self._spaced(WidgetRow(lambda p, n=note: note_notice(p, self._theme, n), lines=2))  # type: ignore[misc]
            )
        if self.is_growing:
            if self._status is None:
                self._status = WidgetRow(self._make_status, lines=1.6)
            rows.append(self._status)
        else:
            if self._footer is None:
                self._footer = WidgetRow(self._make_footer, lines=1.7)
            rows.append(self._footer)
        return rows

    def _spaced(self, row: WidgetRow) -> WidgetRow:
        row.gap = self._host.surroundings.theme.em * 0.3
        return row

    def _thinking_rows(self) -> list[Row]:
        thinking = self.message.thinking
        if self._thinking is None:
            self._thinking = Segment(parse, self._host.copy_button, is_muted=True)
            self._thinking.is_growing = self.is_growing
            self._head_row = WidgetRow(self._make_head, lines=1.7)
        if self._thinking.size < len(thinking):
            self._thinking.add(thinking[self._thinking.size :])
        rows: list[Row] = [self._head_row] if self._head_row is not None else []
        if self._is_thinking_open:
            rows += self._thinking.rows
        for row in self._thinking.rows[:1]:
            row.gap = self._theme.em * 0.3
        return rows

    def _fit_segments(self) -> None:
        """One segment before each tool call and one behind the last."""
        text = self.message.text
        offsets = [min(call.text_offset, len(text)) for call in self.message.tool_calls]
        bounds = [0, *offsets]
        if self._bounds != bounds[: len(self._bounds)] or len(self._segments) > len(bounds):
            for segment in self._segments:
                for row in segment.rows:
                    row.release()
            self._segments, self._bounds = [], []
        if not self._references and not self.is_growing:
            self._references = references(text)
        for number, begin in enumerate(bounds):
            end = bounds[number + 1] if number + 1 < len(bounds) else len(text)
            is_last = number == len(bounds) - 1
            if number == len(self._segments):
                if number:
                    self._segments[-1].end()
                segment = Segment(self._parse, self._host.copy_button)
                segment.is_growing = self.is_growing and is_last
                self._segments.append(segment)
                self._bounds.append(begin)
            segment = self._segments[number]
            if is_last and self.is_growing:
                segment.is_growing = True  # an ended answer may be continued
            if begin + segment.size < end:
                segment.add(text[begin + segment.size : end])

    def _tool_row(self, number: int) -> WidgetRow:
        call = self.message.tool_calls[number]
        key = (call, call.id in self._open_tools)
        known = self._tool_rows.get(call.id)
        if known is not None and known[0] == key:
            return known[1]
        row = WidgetRow(
            lambda parent: ToolCard(
                parent,
                self._theme,
                call,
                is_open=call.id in self._open_tools,
                toggle=lambda: self.toggle_tool(call.id),
                answer=lambda allow, always: self._host.answer_tool(
                    call.id, allow=allow, always=always
                ),
            ),
            lines=2.6 if call.state is not ToolState.ASKING else 8,
        )
        row.gap = self._host.surroundings.theme.em * 0.3
        self._tool_rows[call.id] = (key, row)
        return row

    @property
    def _theme(self) -> Theme:
        return self._host.surroundings.theme

    def _make_head(self, parent: QWidget) -> QWidget:
        head = ThinkingHead(
            parent,
            self._theme,
            is_open=self._is_thinking_open,
            toggle=self.toggle_thinking,
            answer_now=self._host.answer_now,
        )
        self._tell_head(head)
        return head

    def _make_status(self, parent: QWidget) -> QWidget:
        line = StatusLine(parent, self._theme)
        self._tell_status(line)
        return line

    def _make_footer(self, parent: QWidget) -> QWidget:
        return Footer(
            parent,
            self.message,
            self.versions,
            self._theme,
            lambda action: self._host.act(action, self.message.id),
        )

    # -- what changes while it is shown ------------------------------------------------------------

    def show_activity(self) -> None:
        """Say what happens now; only in widgets that are seen."""
        if self._status is not None and isinstance(self._status.widget, StatusLine):
            self._tell_status(self._status.widget)
        if self._head_row is not None and isinstance(self._head_row.widget, ThinkingHead):
            self._tell_head(self._head_row.widget)

    def _is_active(self) -> bool:
        return self.is_growing and self._host.activity.message_id == self.message.id

    def _tell_status(self, line: StatusLine) -> None:
        calls = self.message.tool_calls
        activity = self._host.activity if self._is_active() else Activity()
        line.show_activity(activity, calls[-1] if calls else None)

    def _tell_head(self, head: ThinkingHead) -> None:
        activity = self._host.activity
        is_live = self._is_active() and activity.phase is Phase.THINKING
        seconds = activity.thinking_s if is_live else self.message.thinking_s
        if self._is_active() and not is_live:
            seconds = max(seconds, activity.thinking_s)
        head.show_time(seconds, is_live=is_live, can_answer_now=is_live)

    def toggle_thinking(self) -> None:
        """Fold or unfold the thinking."""
        if self._head_row is None:
            return
        self._is_thinking_open = not self._is_thinking_open
        self._head_row.release()
        self._head_row.is_measured = False
        if self._thinking is not None and not self._is_thinking_open:
            for row in self._thinking.rows:
                row.release()
        self._compose()

    def toggle_tool(self, call_id: str) -> None:
        """Fold or unfold a tool call."""
        self._open_tools ^= {call_id}
        self._compose()

    @property
    def is_thinking_open(self) -> bool:
        """Whether the thinking is shown."""
        return self._is_thinking_open

    # -- layout ------------------------------------------------------------------------------------

    def set_width(self, width: float) -> None:
        """Another width: all heights are guesses again, in proportion."""
        before, self._width = self._row_width, width
        if not self.is_built:
            self.estimate(width)
            return
        for row in self.rows:
            row.forget()
            if isinstance(row, BodyRow) and before > 0 and self._row_width > 0:
                row.height *= min(4.0, max(0.25, before / self._row_width))
        self._is_dirty = True

    _width = 0.0

    @property
    def _row_width(self) -> float:
        if self.message.is_answer:
            return self._width
        return self._width * _BUBBLE_SHARE - 2 * self._theme.em * 0.8

    def row_width(self, row: Row) -> float:
        """The width that a row is measured for."""
        return self._row_width if row.is_in_bubble else self._width

    @property
    def tops(self) -> list[float]:
        """Where each row begins, and at the end the height of all."""
        if self._is_dirty:
            self._is_dirty = False
            padding = 0.0 if self.message.is_answer else self._theme.em * 0.55
            tops, y = [], 0.0
            before: Row | None = None
            for row in self.rows:
                if row.is_in_bubble and not (before is not None and before.is_in_bubble):
                    y += padding
                elif before is not None and before.is_in_bubble and not row.is_in_bubble:
                    y += padding * 0.6
                y += row.gap
                tops.append(y)
                y += row.height
                before = row
            tops.append(y)
            self._tops = tops
            self.height = y
        return self._tops

    def heights_changed(self) -> None:
        """Rows were measured."""
        self._is_dirty = True

    def row_at(self, y: float) -> int:
        """The row at a height, the nearest one if there is none."""
        return max(0, min(len(self.rows) - 1, bisect_right(self.tops, y) - 1))

    def bubble(self) -> tuple[float, float] | None:
        """Top and bottom of the ground behind a person's message."""
        rows = [row for row in self.rows if row.is_in_bubble]
        if not rows:
            return None
        padding = self._theme.em * 0.55
        tops = self.tops
        bottom = tops[rows[-1].index] + rows[-1].height
        is_widget = isinstance(rows[-1], WidgetRow)
        # Text has its distance to what follows below it already; a widget has none.
        return tops[rows[0].index] - padding, bottom + (padding if is_widget else 0)

    def body_rows(self) -> list[BodyRow]:
        """Rows with text."""
        return [row for row in self.rows if isinstance(row, BodyRow)]
