"""Writes the arguments of one call as JSON fragments while the values arrive (T19).

All fragments joined are one JSON object. A string goes out as it is written; any other value goes
out when it is complete. It does not know how values are delimited in the model's text.
"""

from __future__ import annotations

from engine.text.schema_kinds import Kinds
from engine.text.tool_table import ToolShape
from engine.text.values import (
    DECISION_CHARS,
    argument_json,
    string_fragment,
    string_json,
    surely_string,
)


class ArgumentWriter:
    """Call `begin`, `add`, `end` for each parameter, then `close`; `take` hands out the JSON.

    Attributes:
        complete: names of the parameters that have ended.
    """

    def __init__(self, tool: ToolShape) -> None:
        self._tool = tool
        self._seen: set[str] = set()
        self._out: list[str] = []
        self._name = ""
        self._kinds: Kinds | None = None
        self._value: list[str] | None = None  # a value that goes out when complete
        self._head = ""  # first characters of a value that may turn out to be a string
        self._is_duplicate = False
        self.complete: set[str] = set()

    def begin(self, name: str) -> None:
        """A value for this parameter follows. A repeated parameter is read and dropped (T14)."""
        self._name = name
        self._is_duplicate = name in self._seen
        if self._is_duplicate:
            return
        self._kinds = self._tool.kinds(name)
        self._value, self._head = [], ""
        if self._kinds is not None and surely_string("", self._kinds):
            self._stream_string()

    def add(self, text: str) -> None:
        """More of the current value, as the model wrote it."""
        if self._is_duplicate or not text:
            return
        if self._value is None:
            self._out.append(string_fragment(text))
            return
        self._value.append(text)
        if len(self._head) < DECISION_CHARS:
            self._head = (self._head + text)[:DECISION_CHARS]
            if surely_string(self._head, self._kinds):
                self._stream_string()

    def end(self) -> None:
        """The current value is complete."""
        if self._is_duplicate:
            return
        if self._value is None:
            self._out.append('"')
        else:
            self._open_member()
            self._out.append(argument_json("".join(self._value), self._kinds))
        self.complete.add(self._name)

    def close(self) -> None:
        """The object is complete."""
        self._out.append("}" if self._seen else "{}")

    def take(self) -> str:
        """The JSON written since the last call."""
        fragment = "".join(self._out)
        self._out.clear()
        return fragment

    def has_all(self, names: frozenset[str]) -> bool:
        """True when each of these parameters is complete."""
        return names <= self.complete

    def _stream_string(self) -> None:
        """Turns the current value into one that goes out as it is written."""
        self._open_member()
        self._out.append('"')
        self._out.extend(string_fragment(text) for text in self._value or ())
        self._value = None

    def _open_member(self) -> None:
        self._out.append(("," if self._seen else "{") + string_json(self._name) + ":")
        self._seen.add(self._name)
