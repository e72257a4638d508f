"""Reads the inside of one call whose function is known: parameters, until something ends it.

Where a value ends is `value_reader`'s knowledge, what its JSON is `arguments`'. What may open a call
and what follows it, `call_parser` knows.

Malformed shapes handled here: M8 to M10, M12, M14 and M17 of spec/tools_format.md.
"""

from __future__ import annotations

from engine.text.arguments import ArgumentWriter
from engine.text.events import CallDelta, CallEnd, CallStart, Event, Tag
from engine.text.tool_table import ToolShape, ToolTable
from engine.text.value_reader import (
    FUNCTION_CLOSE,
    FUNCTION_OPEN,
    NAME_ENDS,
    PARAMETER_OPEN,
    ValueEnd,
    ValueReader,
)

MAX_PARAMETER_NAME_CHARS = 256
_TAGS_BETWEEN = (FUNCTION_CLOSE, PARAMETER_OPEN, FUNCTION_OPEN)
_NOT_IN_A_NAME = frozenset(" \t=:<>[]{}\"'`,;")  # of an undeclared parameter: a broken tag (M14)


class CallBody:
    """One announced call; feed it until `is_closed`, then look at `next_tool`.

    Attributes:
        is_closed: the arguments object is complete and `CallEnd` was given.
        next_tool: the tool of a call that began without closing this one (M12).
        has_function_close: "</function>" was read.
        is_repaired: something was missing and was put right.
    """

    def __init__(self, tools: ToolTable, tool: ToolShape, start: CallStart) -> None:
        self._tools = tools
        self._tool = tool
        self._index = start.index
        self._events: list[Event] = [start]
        self._writer = ArgumentWriter(tool)
        self._reader: ValueReader | None = None  # inside a value
        self._name: str | None = None  # inside a parameter's or the next function's opening tag
        self._is_function_name = False
        self._candidate = ""  # a tag between parameters that may still become complete
        self.is_closed = False
        self.next_tool: ToolShape | None = None
        self.has_function_close = False
        self.is_repaired = False

    @property
    def held_chars(self) -> int:
        """Characters held outside a value."""
        return len(self._candidate) + len(self._name or "")

    @property
    def is_in_value(self) -> bool:
        """True between a parameter's opening tag and what ends its value."""
        return self._reader is not None

    def take(self) -> list[Event]:
        """The events since the last call."""
        self._pass_on_arguments()
        events, self._events = self._events, []
        return events

    def feed(self, text: str, pos: int) -> int:
        """Reads `text` from `pos` on; returns where it stopped (the end, unless closed)."""
        while pos < len(text) and not self.is_closed:
            if self._reader is not None:
                pos = self._read_value(self._reader, text, pos)
            elif self._name is None:
                pos = self._between(text, pos)
            elif self._is_function_name:
                pos = self._read_function_name(self._name, text, pos)
            else:
                pos = self._read_parameter_name(self._name, text, pos)
        return pos

    def feed_tag(self, tag: Tag, *, may_close: bool) -> bool:
        """Reads a structural tag; False when it ends the body and is still to be handled.

        Args:
            tag: any tag; thinking tags between parameters are dropped.
            may_close: the tag may stand for a missing "</function>" (M10).
        """
        if self._reader is not None:
            self._reader.feed_tag(tag)
            self._writer.add(self._reader.take())
            if self._reader.end is None:
                return True
            self.has_function_close = self._reader.closed_function
            self._end_value(self._reader)
        elif tag not in (Tag.CALL_OPEN, Tag.CALL_CLOSE):
            return True
        if self.has_function_close or may_close:
            self.is_repaired = True
            self._close()
        return False

    def finish_turn(self) -> None:
        """The turn ended by itself: closes the call unless a required parameter is missing (M17).

        A value that was not visibly complete does not count as a complete parameter, but goes into
        the object as it stands when all required ones are there.
        """
        if self._reader is not None:
            is_complete = self._reader.finish_turn()
            self._writer.add(self._reader.take())
            if is_complete or self._writer.has_all(self._tool.required):
                self._end_value(self._reader)
        if self._reader is None and self._writer.has_all(self._tool.required):
            self.is_repaired = True
            self._close()

    def _between(self, text: str, pos: int) -> int:
        """Waits for a tag of the format; everything else between two parameters is dropped."""
        if not self._candidate:
            start = text.find("<", pos)
            if start < 0:
                return len(text)
            self._candidate = "<"
            return start + 1
        candidate = self._candidate + text[pos]
        self._candidate = ""
        if candidate == FUNCTION_CLOSE:
            self.has_function_close = True
            self._close()
        elif candidate in (PARAMETER_OPEN, FUNCTION_OPEN):
            self._name, self._is_function_name = "", candidate == FUNCTION_OPEN
        elif any(tag.startswith(candidate) for tag in _TAGS_BETWEEN):
            self._candidate = candidate
        else:
            return pos
        return pos + 1

    def _read_function_name(self, name: str, text: str, pos: int) -> int:
        char = text[pos]
        tool = self._tools.lookup(name) if char in NAME_ENDS else None
        if tool is not None:
            self._close_before(tool)
            return pos if char == "<" else pos + 1
        may_grow = self._tools.may_become_name(name + char)
        self._name = name + char if may_grow else None
        return pos + 1 if may_grow else pos

    def _read_parameter_name(self, name: str, text: str, pos: int) -> int:
        """Reads up to ">"; a tag without a usable name is dropped with its value (M14)."""
        char = text[pos]
        if char in "\r\n<" or len(name) == MAX_PARAMETER_NAME_CHARS:
            self._name, self.is_repaired = None, True
            return pos
        if char != ">":
            self._name = name + char
        elif self._is_usable(name):
            self._begin_value(name)
        else:
            self._name, self.is_repaired = None, True
        return pos + 1

    def _is_usable(self, name: str) -> bool:
        return name in self._tool.parameters or (bool(name) and _NOT_IN_A_NAME.isdisjoint(name))

    def _begin_value(self, name: str) -> None:
        self._name = None
        self._writer.begin(name)
        self._reader = ValueReader(self._tool.parameters, self._tools)

    def _read_value(self, reader: ValueReader, text: str, pos: int) -> int:
        pos = reader.feed(text, pos)
        self._writer.add(reader.take())
        if reader.end is None:
            return pos
        self._end_value(reader)
        if reader.end is ValueEnd.PARAMETER_OPEN:
            self._name, self._is_function_name = "", False
        elif reader.end is ValueEnd.DECLARED_PARAMETER:
            self._begin_value(reader.name)
        elif reader.end is ValueEnd.FUNCTION_CLOSE:
            self.has_function_close = True
            self._close()
        else:
            self._close_before(self._tools.lookup(reader.name))
        return pos

    def _end_value(self, reader: ValueReader) -> None:
        self._writer.end()
        self.is_repaired = self.is_repaired or reader.is_repaired
        self._reader = None

    def _close_before(self, next_tool: ToolShape | None) -> None:
        self.next_tool, self.is_repaired = next_tool, True
        self._close()

    def _close(self) -> None:
        self._writer.close()
        self._pass_on_arguments()
        self._events.append(CallEnd(self._index))
        self.is_closed = True

    def _pass_on_arguments(self) -> None:
        fragment = self._writer.take()
        if fragment:
            self._events.append(CallDelta(self._index, fragment))
