"""Calls that the model wrote inside its thinking, and whether they may be delivered (M1 to M6).

Thinking goes out as reasoning while it streams. If the turn ends in thinking, a call that stands at
its very end, complete, declared and well-formed, was meant; everything else was only talked about.
A wrong guess would run what the model only considered, so nothing is repaired here. Nor did anything
hold the thinking to the tools while it was written, so a call must have what its tool requires.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from enum import Enum, auto

from engine.text.call_parser import CallParser, Ending
from engine.text.events import CallDelta, CallStart, Event, Tag
from engine.text.lines import LineTracker
from engine.text.tool_table import ToolTable


class _Watch(Enum):
    PROSE = auto()
    CALL = auto()  # reading a call
    CLOSING = auto()  # after "</function>", before the </tool_call> id
    UNDECLARED = auto()  # reading a call of no tool
    AFTER = auto()  # after a complete call, only white space so far
    OFF = auto()  # prose followed a complete call: all of it is talk (M3)


class StrandedCallWatch:
    """Follows one span of thinking; ask `recovered` when the turn ends in it.

    Attributes:
        num_undeclared: complete calls of no tool at the end of thinking (M5).
    """

    def __init__(
        self, tools: ToolTable, *, first_index: int, new_call_id: Callable[[], str]
    ) -> None:
        self._tools = tools
        self._first_index = first_index
        self._new_call_id = new_call_id
        self._lines = LineTracker()
        self._state = _Watch.PROSE
        self._call: CallParser | None = None
        self._depth = 0  # of wrappers inside an undeclared call
        self._events: list[Event] = []  # of the complete calls at the end so far
        self._num_calls = 0
        self._num_undeclared = 0

    @property
    def num_undeclared(self) -> int:
        """Complete calls of no tool that end the thinking."""
        return self._num_undeclared if self._state is _Watch.AFTER else 0

    def recovered(self) -> list[Event]:
        """The events of the calls that end the thinking; none unless all of them may be run."""
        if self._state is not _Watch.AFTER or self._num_undeclared:
            return []
        return self._events if self._are_sound() else []

    def _are_sound(self) -> bool:
        """Whether every call has what its tool requires, in types and choices that it allows."""
        written: dict[int, list[str]] = {}
        for event in self._events:
            if isinstance(event, CallDelta):
                written.setdefault(event.index, []).append(event.arguments)
        for event in self._events:
            if isinstance(event, CallStart):
                tool = self._tools.lookup(event.name)
                arguments = json.loads("".join(written.get(event.index, ())) or "{}")
                if tool is None or not tool.may_take(arguments):
                    return False
        return True

    def feed(self, text: str) -> None:
        """Reads reasoning text."""
        pos = 0
        if self._call is not None and self._state is _Watch.CALL:
            pos = self._feed_call(self._call, text)
        # only white space may follow a call, or stand before its wrapper's close
        if pos < len(text) and not text[pos:].isspace():
            if self._state is _Watch.CLOSING:
                self._forget()
            elif self._state is _Watch.AFTER:
                self._after_call_comes_prose()
        self._lines.feed(text)

    def feed_tag(self, tag: Tag) -> None:
        """Reads a call tag that stands in the reasoning."""
        if self._state is _Watch.CALL and self._call is not None:
            if not self._tag_in_call(self._call, tag):
                self._tag_outside(tag)
        elif self._state is _Watch.UNDECLARED:
            self._tag_in_undeclared(tag)
        elif self._state is _Watch.CLOSING and tag is Tag.CALL_CLOSE:
            self._keep_call()
        else:
            self._tag_outside(tag)
        self._lines.feed(tag.value)

    def _tag_outside(self, tag: Tag) -> None:
        if self._state is _Watch.CLOSING:
            self._forget()
        if self._state is _Watch.OFF:
            return
        is_start = tag is Tag.CALL_OPEN and not self._lines.in_fence
        if self._state is _Watch.AFTER and not is_start:
            self._after_call_comes_prose()
        elif is_start and (self._state is _Watch.AFTER or self._lines.at_line_start):
            self._state = _Watch.CALL
            self._call = CallParser(
                self._tools,
                is_wrapped=True,
                first_index=self._first_index + self._num_calls,
                new_call_id=self._new_call_id,
            )

    def _feed_call(self, call: CallParser, text: str) -> int:
        pos = call.feed(text, 0)
        if call.ending is Ending.CLOSED:
            self._state = _Watch.CLOSING
        elif call.ending is not None:
            self._rejected(call)
        return pos

    def _tag_in_call(self, call: CallParser, tag: Tag) -> bool:
        was_read = call.feed_tag(tag)
        if call.ending is Ending.CLOSED:
            if was_read:
                self._keep_call()
            else:
                self._forget()
        elif call.ending is not None:
            self._rejected(call)
            if self._state is _Watch.UNDECLARED:
                self._tag_in_undeclared(tag)
                return True
        return was_read

    def _tag_in_undeclared(self, tag: Tag) -> None:
        self._depth += 1 if tag is Tag.CALL_OPEN else -1
        if self._depth == 0:
            self._num_undeclared += 1
            self._state = _Watch.AFTER

    def _rejected(self, call: CallParser) -> None:
        if call.is_undeclared:
            self._state, self._call, self._depth = _Watch.UNDECLARED, None, 1
        else:
            self._forget()

    def _keep_call(self) -> None:
        """A call was closed by its tag; it counts if nothing had to be put right."""
        call = self._call
        if call is None or call.is_repaired:
            self._forget()
            return
        self._events.extend(call.take())
        self._num_calls += call.num_started
        self._state, self._call = _Watch.AFTER, None

    def _after_call_comes_prose(self) -> None:
        """What was read is a mention; after a complete call of a tool no later one counts (M3)."""
        had_call = self._num_calls > 0
        self._forget()
        if had_call:
            self._state = _Watch.OFF

    def _forget(self) -> None:
        self._state, self._call = _Watch.PROSE, None
        self._events, self._num_calls, self._num_undeclared = [], 0, 0
