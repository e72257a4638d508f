"""Parses one tool call while it streams: from the opening tag to the function's or wrapper's close.

The caller decides where a call may start (a `<tool_call>` id, or `<function=` at a line start) and
what becomes of text that is no call after all; `parser` and `stranded` are the two callers. What is
inside a function whose name is known, `call_body` reads.

Malformed shapes handled here: M10, M12, M13, M15, M17, M18 and M22 of spec/tools_format.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum, auto

from engine.core.strict_json import parse_json
from engine.text.call_body import CallBody
from engine.text.events import CallDelta, CallEnd, CallStart, Event, Tag
from engine.text.tool_table import ToolShape, ToolTable
from engine.text.value_reader import FUNCTION_OPEN, NAME_ENDS, SPACE
from engine.text.values import to_json

MAX_SPACE_CHARS = 8  # white space between <tool_call> and what it opens


class Ending(Enum):
    """How a call parser ended."""

    CLOSED = auto()  # the call is complete
    EMPTY = auto()  # a wrapper with nothing inside (M15)
    REJECTED = auto()  # no call: `raw` is plain text


class _Head(Enum):
    """What is being read while no function is known."""

    OPEN = auto()  # before "<function=" or "{"
    NAME = auto()
    JSON = auto()  # the older body: {"name": ..., "arguments": ...} (M18)


class CallParser:
    """One call, or several when the model forgets to close them (M12).

    Attributes:
        ending: None while the call goes on.
        is_announced: a `CallStart` was given.
        is_repaired: something was missing and was put right.
        is_undeclared: rejected because no tool has this name.
        closed_by_tag: the `</tool_call>` id was read, so none is to be expected any more.
        num_started: calls announced by this parser.
    """

    def __init__(
        self,
        tools: ToolTable,
        *,
        is_wrapped: bool,
        first_index: int,
        new_call_id: Callable[[], str],
    ) -> None:
        self._tools = tools
        self._is_wrapped = is_wrapped
        self._first_index = first_index
        self._new_call_id = new_call_id
        self._head = _Head.OPEN
        self._candidate = ""  # "<function=" while it arrives
        self._num_spaces = 0
        self._name = ""
        self._body: CallBody | None = None
        self._events: list[Event] = []
        self._raw: list[str] | None = []  # the text so far, while it may be plain text after all
        self.ending: Ending | None = None
        self.is_repaired = False
        self.is_undeclared = False
        self.closed_by_tag = False
        self.num_started = 0

    @property
    def is_announced(self) -> bool:
        """True once a function was named and a `CallStart` given."""
        return self.num_started > 0

    @property
    def raw(self) -> str:
        """The text of a rejected call, without the wrapper's opening tag."""
        return "".join(self._raw or ())

    @property
    def held_chars(self) -> int:
        """Characters held outside values and JSON bodies."""
        if self._head is _Head.JSON or (self._body is not None and self._body.is_in_value):
            return 0
        if self._body is not None and self._is_wrapped:
            return self._body.held_chars
        return sum(len(piece) for piece in self._raw or ())

    def feed(self, text: str, pos: int) -> int:
        """Reads `text` from `pos` on; returns where it stopped (the end, unless it has ended)."""
        start = pos
        while pos < len(text) and self.ending is None:
            if self._body is not None:
                pos = self._feed_body(self._body, text, pos)
            elif self._head is _Head.OPEN:
                pos = self._open(text, pos)
            elif self._head is _Head.NAME:
                pos = self._read_name(text, pos)
            else:
                pos = len(text)  # a JSON body ends at the tag only; its text is in `raw`
        if self._raw is not None:
            self._raw.append(text[start:pos])
        return pos

    def feed_tag(self, tag: Tag) -> bool:
        """Reads a structural tag; False when the call ended before it and it is still unread."""
        if self._body is None and self._head is _Head.NAME:
            self._name_before_tag()
        if self.ending is not None:
            was_read = False
        elif self._body is not None:
            was_read = self._tag_in_body(self._body, tag)
        elif self._head is _Head.JSON:
            was_read = self._tag_in_json(tag)
        else:
            was_read = self._tag_before_function(tag)
        if self._raw is not None and was_read:
            self._raw.append(tag.value)
        return was_read

    def finish_turn(self) -> None:
        """The turn ended by itself: closes the call if nothing that matters is missing (M17).

        `ending` stays None when the call is broken.
        """
        if self._body is not None:
            self._body.finish_turn()
            if self._body.is_closed:
                self._close(self._body)
        elif self._head is _Head.JSON:
            self._try_json()

    def take(self) -> list[Event]:
        """The events since the last call."""
        if self._body is not None:
            self._events.extend(self._body.take())
        events, self._events = self._events, []
        return events

    # --- before the function is known

    def _open(self, text: str, pos: int) -> int:
        char = text[pos]
        if self._candidate:
            self._candidate += char
            if not FUNCTION_OPEN.startswith(self._candidate):
                return self._reject(pos)
            if self._candidate == FUNCTION_OPEN:
                self._head = _Head.NAME
        elif char == "<":
            self._candidate = char
        elif char == "{" and self._is_wrapped:
            self._head = _Head.JSON
        elif char in SPACE and self._is_wrapped and self._num_spaces < MAX_SPACE_CHARS:
            self._num_spaces += 1
        else:
            return self._reject(pos)
        return pos + 1

    def _read_name(self, text: str, pos: int) -> int:
        char = text[pos]
        tool = self._tools.lookup(self._name) if char in NAME_ENDS else None
        if tool is not None:
            self.is_repaired = char != ">"
            self._start(tool)
            return pos if char == "<" else pos + 1
        if not self._tools.may_become_name(self._name + char):
            self.is_undeclared = True
            return self._reject(pos)
        self._name += char
        return pos + 1

    def _reject(self, pos: int) -> int:
        self.ending = Ending.REJECTED
        return pos

    def _name_before_tag(self) -> None:
        """A tag ends an unfinished function line (M13)."""
        tool = self._tools.lookup(self._name)
        if tool is not None:
            self.is_repaired = True
            self._start(tool)
        else:
            self.is_undeclared = True
            self.ending = Ending.REJECTED

    def _tag_before_function(self, tag: Tag) -> bool:
        is_wrapper_tag = tag in (Tag.CALL_OPEN, Tag.CALL_CLOSE)
        if self._is_wrapped and not self._candidate and is_wrapper_tag:
            self.ending = Ending.EMPTY
            self.closed_by_tag = tag is Tag.CALL_CLOSE
            return self.closed_by_tag
        self.ending = Ending.REJECTED
        return False

    # --- inside a function

    def _start(self, tool: ToolShape) -> None:
        index = self._first_index + self.num_started
        self._body = CallBody(self._tools, tool, CallStart(index, self._new_call_id(), tool.name))
        self.num_started += 1
        if self._is_wrapped:
            self._raw = None  # it can no longer become plain text

    def _feed_body(self, body: CallBody, text: str, pos: int) -> int:
        pos = body.feed(text, pos)
        if not body.is_closed:
            return pos
        if body.next_tool is None:
            self._close(body)
            return pos
        self._events.extend(body.take())
        self.is_repaired = True
        self._start(body.next_tool)
        return pos

    def _tag_in_body(self, body: CallBody, tag: Tag) -> bool:
        if body.feed_tag(tag, may_close=self._is_wrapped):
            return True
        if not body.is_closed:  # without wrapper and "</function>" it is no call (M7)
            self.ending = Ending.REJECTED
            return False
        self._close(body)
        self.closed_by_tag = tag is Tag.CALL_CLOSE
        return self.closed_by_tag

    def _close(self, body: CallBody) -> None:
        self.is_repaired = self.is_repaired or body.is_repaired
        self.ending = Ending.CLOSED

    # --- the older JSON body

    def _tag_in_json(self, tag: Tag) -> bool:
        if tag is not Tag.CALL_CLOSE:
            return True
        if self._try_json():
            self.closed_by_tag = True
            return True
        self.ending = Ending.REJECTED
        return False

    def _try_json(self) -> bool:
        """Delivers the call that the body spells, if it is one of a declared tool (M18)."""
        call = _decode_json_call(self.raw)
        tool = self._tools.lookup(call[0]) if call is not None else None
        if call is None or tool is None:
            self.is_undeclared = call is not None
            return False
        index = self._first_index + self.num_started
        self._events.append(CallStart(index, self._new_call_id(), tool.name))
        self._events.append(CallDelta(index, call[1]))
        self._events.append(CallEnd(index))
        self.num_started += 1
        self.ending = Ending.CLOSED
        return True


def _decode_json_call(body: str) -> tuple[str, str] | None:
    """Name and arguments (as JSON) of a JSON call, None when the body is not one."""
    try:
        call = parse_json(body)
        if not isinstance(call, Mapping) or not isinstance(call.get("name"), str):
            return None
        arguments = call.get("arguments", {})
        if isinstance(arguments, str):
            arguments = parse_json(arguments)
        if not isinstance(arguments, Mapping):
            return None
        return call["name"], to_json(arguments)
    except ValueError:
        return None
