r"""Splits an answer into thinking, content and tool calls while it streams.

Structure is recognised by token id (T1); the text of ordinary tokens may arrive in any division and
gives the same events (T23) at a cost of its own length (T22). Where a call goes on, `call_parser`
knows; calls inside thinking are `stranded`'s. Stop strings and bytes are handled around this parser
(`answer`). Rules T16 to T18 and shapes M1, M7, M16, M17 and M23 of spec/tools_format.md.

Example: a `</think>` id, then "\n\nHi" gives ContentDelta("Hi").
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

from engine.text.call_parser import CallParser, Ending
from engine.text.events import (
    CallEnd,
    ContentDelta,
    Event,
    FinishReason,
    ReasoningDelta,
    StructureIds,
    Tag,
    ToolSpec,
    merge_events,
)
from engine.text.lines import LineTracker
from engine.text.stranded import StrandedCallWatch
from engine.text.tool_table import ToolTable

MAX_NEWLINE_CHARS = 16  # held because a call may follow; older ones of a longer run go out

_NEWLINES = re.compile(r"[\r\n]+")
_SPACE = re.compile(r"[ \t\r\n]*")
_NEWLINES_HERE = re.compile(r"[\r\n]*")


class Phase(Enum):
    """What the model is writing."""

    THINKING = "thinking"
    ANSWERING = "answering"
    TOOL_CALL = "tool_call"


class _Gap(Enum):
    """What may be dropped before content goes on (T17)."""

    NONE = 0
    NEWLINES = 1  # after a thinking tag
    AFTER_CALL = 2  # newlines, and a closing tag too many
    IN_WRAPPER = 3  # any white space: "</function>" was read, </tool_call> not yet


@dataclass(frozen=True, slots=True)
class ParseOutcome:
    """What became of an answer.

    Attributes:
        tool_call_broken: calls that the turn's end cut (M17).
        tool_call_stranded: undeclared calls left in thinking (M5).
        num_complete_calls: calls that were delivered whole.
        has_content: some content was delivered.
        needs_retry: the turn ended in thinking with neither content nor call (M19); the caller may
            push `</think>` and a blank line and go on with the same parser.
    """

    tool_call_broken: int
    tool_call_stranded: int
    num_complete_calls: int
    has_content: bool
    needs_retry: bool

    def finish_reason(self, reason: FinishReason) -> FinishReason:
        """The reason to report: `TOOL_CALLS` if calls came and the turn was not cut."""
        is_call_turn = reason is FinishReason.STOP and self.num_complete_calls > 0
        return FinishReason.TOOL_CALLS if is_call_turn else reason


class AnswerParser:
    """Push tokens with their text, then `finish`; both return events in order.

    Args:
        structure: ids of the tags and of the turn's end.
        tools: the declared tools; none (or tool choice "none") means that call markup is plain
            content (T18).
        starts_in_thinking: the prompt ended inside an open think block (T6).
        new_call_id: gives an id that is unique in the conversation (T21).
    """

    def __init__(
        self,
        structure: StructureIds,
        tools: Sequence[ToolSpec],
        *,
        starts_in_thinking: bool,
        new_call_id: Callable[[], str],
    ) -> None:
        self._tags = structure.tags()
        self._turn_end = structure.turn_end
        self._tools = ToolTable(tools)
        self._new_call_id = new_call_id
        self._events: list[Event] = []
        self._phase = Phase.THINKING if starts_in_thinking else Phase.ANSWERING
        self._watch = self._new_watch(0) if starts_in_thinking else None
        self._call: CallParser | None = None
        self._call_is_wrapped = False
        self._lines = LineTracker()  # of the content
        self._newlines = ""  # content that is dropped if a call follows (T16)
        self._gap = _Gap.NONE
        self._wrapper_is_open = False  # a later </tool_call> id belongs to a call that has ended
        self._is_verbatim = False  # inside the wrapper of an undeclared call
        self._next_index = 0
        self._num_complete = 0
        self._num_broken = 0
        self._num_stranded = 0
        self._has_reasoning = False
        self._has_content = False
        self._needs_retry = False

    @property
    def phase(self) -> Phase:
        """What the model is writing at this moment."""
        return self._phase

    @property
    def held_chars(self) -> int:
        """Characters held back outside values (T16)."""
        return len(self._newlines) + (self._call.held_chars if self._call is not None else 0)

    @property
    def outcome(self) -> ParseOutcome:
        """What became of the answer so far; final after `finish`."""
        return ParseOutcome(
            tool_call_broken=self._num_broken,
            tool_call_stranded=self._num_stranded,
            num_complete_calls=self._num_complete,
            has_content=self._has_content,
            needs_retry=self._needs_retry,
        )

    def push(self, token_id: int, text: str) -> list[Event]:
        """The events of one token.

        Args:
            token_id: decides whether the token is a tag.
            text: what the detokenizer gave for it; for a tag, text before the tag's own counts.
        """
        if token_id in self._turn_end:
            return []
        tag = self._tags.get(token_id)
        if tag is None:
            self._read(text)
        else:
            self._read(text.removesuffix(tag.value))
            self._read_tag(tag)
        return self._drain()

    def finish(self, reason: FinishReason) -> list[Event]:
        """The events that the end of the answer decides: held text, recovered calls."""
        self._needs_retry = False
        if self._watch is not None:
            self._finish_thinking(self._watch, reason)
        elif self._call is not None:
            self._finish_call(self._call, reason)
        if self._newlines:
            self._emit_content("")
        return self._drain()

    def _drain(self) -> list[Event]:
        events, self._events = self._events, []
        self._num_complete += sum(isinstance(event, CallEnd) for event in events)
        return merge_events(events)

    def _read(self, text: str) -> None:
        pos = 0
        while pos < len(text):
            if self._watch is not None:
                pos = self._read_thinking(self._watch, text, pos)
            elif self._call is not None:
                pos = self._read_call(self._call, text, pos)
            else:
                pos = self._read_content(text, pos)

    def _read_tag(self, tag: Tag) -> None:
        if self._watch is not None:
            self._tag_in_thinking(self._watch, tag)
        elif self._call is not None:
            was_read = self._call.feed_tag(tag)
            self._after_step(self._call)
            if not was_read:
                self._read_tag(tag)
        else:
            self._tag_in_content(tag)

    # --- thinking

    def _new_watch(self, first_index: int) -> StrandedCallWatch:
        return StrandedCallWatch(
            self._tools, first_index=first_index, new_call_id=self._new_call_id
        )

    def _read_thinking(self, watch: StrandedCallWatch, text: str, pos: int) -> int:
        pos = self._skip_gap(text, pos)
        if pos < len(text):
            self._emit_reasoning(text[pos:])
            if self._tools:
                watch.feed(text[pos:])
        return len(text)

    def _tag_in_thinking(self, watch: StrandedCallWatch, tag: Tag) -> None:
        if tag is Tag.THINK_CLOSE:
            self._watch, self._lines = None, LineTracker()
            self._phase, self._gap = Phase.ANSWERING, _Gap.NEWLINES
        elif tag is Tag.THINK_OPEN:
            if not self._has_reasoning:
                self._gap = _Gap.NEWLINES
        else:
            self._emit_reasoning(tag.value)
            if self._tools:
                watch.feed_tag(tag)

    def _emit_reasoning(self, text: str) -> None:
        self._has_reasoning, self._gap = True, _Gap.NONE
        self._events.append(ReasoningDelta(text))

    def _finish_thinking(self, watch: StrandedCallWatch, reason: FinishReason) -> None:
        if reason is not FinishReason.STOP:
            return
        recovered = watch.recovered()
        self._num_stranded += watch.num_undeclared
        self._events.extend(recovered)
        if recovered:
            self._watch, self._phase = None, Phase.ANSWERING
        self._needs_retry = not (recovered or self._has_content or self._num_complete)

    # --- content

    def _read_content(self, text: str, pos: int) -> int:
        """Reads up to the next place where something else may start."""
        pos = self._skip_gap(text, pos)
        if pos == len(text):
            return pos
        self._gap = _Gap.NONE
        if not self._tools:
            self._emit_content(text[pos:])
            return len(text)
        if text[pos] == "<" and self._may_start_call():
            self._begin_call(is_wrapped=False)
            return pos
        run = _NEWLINES.search(text, pos)
        stop, after = run.span() if run is not None else (len(text), len(text))
        if stop > pos:
            self._emit_content(text[pos:stop])
        self._hold_newlines(text[stop:after])
        return after

    def _may_start_call(self) -> bool:
        """True where a call without its wrapper is believed (M7)."""
        return self._lines.at_line_start and not self._lines.in_fence and not self._is_verbatim

    def _tag_in_content(self, tag: Tag) -> None:
        if tag is Tag.THINK_CLOSE:  # one too many (T17)
            if self._gap is _Gap.NONE:
                self._gap = _Gap.NEWLINES
        elif tag is Tag.THINK_OPEN:
            if self._newlines:
                self._emit_content("")
            self._watch = self._new_watch(self._next_index)
            self._phase, self._gap, self._has_reasoning = Phase.THINKING, _Gap.NEWLINES, False
        elif self._tools and tag is Tag.CALL_OPEN:
            self._is_verbatim = self._wrapper_is_open = False
            self._begin_call(is_wrapped=True)
        elif self._tools and tag is Tag.CALL_CLOSE and self._is_surplus_close():
            self._wrapper_is_open = False
            self._gap = _Gap.NONE if self._gap is _Gap.NONE else _Gap.AFTER_CALL
        else:
            self._is_verbatim = False
            self._emit_content(tag.value)

    def _is_surplus_close(self) -> bool:
        return self._wrapper_is_open or self._gap in (_Gap.AFTER_CALL, _Gap.IN_WRAPPER)

    def _skip_gap(self, text: str, pos: int) -> int:
        if self._gap is _Gap.NONE:
            return pos
        skipped = (_SPACE if self._gap is _Gap.IN_WRAPPER else _NEWLINES_HERE).match(text, pos)
        return skipped.end() if skipped is not None else pos

    def _hold_newlines(self, newlines: str) -> None:
        self._lines.feed(newlines)
        held = self._newlines + newlines
        excess = max(0, len(held) - MAX_NEWLINE_CHARS)
        if excess:
            self._events.append(ContentDelta(held[:excess]))
            self._has_content = True
        self._newlines = held[excess:]

    def _emit_content(self, text: str) -> None:
        """Content that is certain, after the newlines that were held before it."""
        self._events.append(ContentDelta(self._newlines + text))
        self._lines.feed(text)
        self._newlines, self._gap, self._has_content = "", _Gap.NONE, True

    # --- calls

    def _begin_call(self, *, is_wrapped: bool) -> None:
        self._call = CallParser(
            self._tools,
            is_wrapped=is_wrapped,
            first_index=self._next_index,
            new_call_id=self._new_call_id,
        )
        self._call_is_wrapped = is_wrapped
        self._phase = Phase.TOOL_CALL if is_wrapped else Phase.ANSWERING

    def _read_call(self, call: CallParser, text: str, pos: int) -> int:
        pos = call.feed(text, pos)
        self._after_step(call)
        return pos

    def _after_step(self, call: CallParser) -> None:
        """Passes on what a call gave and, when it has ended, returns to content."""
        # without its wrapper a call may turn out to be text until it is closed (M7)
        if self._call_is_wrapped or call.ending is Ending.CLOSED:
            self._events.extend(call.take())
        if call.is_announced and self._call_is_wrapped:
            self._newlines = ""
        if call.ending is not None:
            self._end_call(call)

    def _end_call(self, call: CallParser) -> None:
        self._call, self._phase = None, Phase.ANSWERING
        if call.ending is Ending.REJECTED:
            self._give_back(call)
            return
        self._gap = _Gap.AFTER_CALL if call.closed_by_tag else _Gap.IN_WRAPPER
        self._wrapper_is_open = not call.closed_by_tag
        if call.ending is Ending.CLOSED:
            self._newlines = ""
            self._next_index += call.num_started
            self._lines = LineTracker()

    def _give_back(self, call: CallParser) -> None:
        """No call: its text is content, and nothing in it is looked at again."""
        text = (Tag.CALL_OPEN.value if self._call_is_wrapped else "") + call.raw
        self._is_verbatim = self._call_is_wrapped and call.is_undeclared
        body = text.rstrip("\r\n")
        if body:
            self._emit_content(body)
        self._hold_newlines(text[len(body) :])

    def _finish_call(self, call: CallParser, reason: FinishReason) -> None:
        if not self._call_is_wrapped:
            self._call = None
            self._give_back(call)
            return
        if reason is FinishReason.STOP:
            call.finish_turn()
            self._events.extend(call.take())
            self._num_broken += call.ending is not Ending.CLOSED
        self._newlines = ""
        self._call = None
