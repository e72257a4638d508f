"""Watches JSON while it is written for what grammars let through: equal keys and endless numbers.

A grammar cannot remember which keys an object has, and lets numbers have any length: `1e999` is
infinite for most readers, and some models write digits for ever. The text is known to be JSON
otherwise, so this looks at strings, brackets and digits only. What follows the value is ignored.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

MAX_NUMBER_CHARS = 40
MAX_EXPONENT_DIGITS = 2

_NUMBER = re.compile(rb"[-+.0-9eE]+")
_NUMBER_START = frozenset(b"-0123456789")
_QUOTE, _BACKSLASH, _COMMA, _COLON = b'"\\,:'
_OBJECT, _ARRAY = b"{["
_MARKS = frozenset(b",:{[]}")


@dataclass(slots=True)
class JsonWatch:
    """A position in a JSON text.

    Attributes:
        stack: what is open here: objects by their keys, arrays as None.
        is_in_string: whether a string is.
        is_escaped: whether a backslash stands directly before.
        number: what has been read of a number that may go on.
    """

    stack: tuple[frozenset[str] | None, ...] = ()
    _expects_key: bool = False
    is_in_string: bool = False
    is_escaped: bool = False
    _key: bytes | None = None  # what of a key has been read, with its escapes
    number: bytes = b""

    @property
    def is_in_key(self) -> bool:
        """Whether the string that is open is a key."""
        return self._key is not None

    def copy(self) -> JsonWatch:
        """An independent copy."""
        return JsonWatch(  # `dataclasses.replace` takes three times as long
            self.stack,
            self._expects_key,
            self.is_in_string,
            self.is_escaped,
            self._key,
            self.number,
        )

    def after(self, text: bytes) -> JsonWatch | None:
        """The place behind this text; None when it must not come."""
        if self.is_in_string:
            is_plain = not self.is_escaped and self._key is None
            if is_plain and b'"' not in text and b"\\" not in text:
                return self  # most tokens of an answer with long strings
        elif not self.number and text.isspace():
            return self
        watch = self.copy()
        return watch if watch.feed(text) else None

    def feed(self, text: bytes) -> bool:
        """Reads on; False when the text must not go on like this (the watch is of no use then)."""
        place, end = 0, len(text)
        while place < end:
            if self.is_in_string:
                place = self._in_string(text, place)
            elif self.number or text[place] in _NUMBER_START:
                place = self._in_number(text, place)
            else:
                byte = text[place]
                place += 1
                if byte == _QUOTE:
                    self.is_in_string = True
                    self._key = b"" if self._expects_key else None
                elif byte in _MARKS:
                    self._outside(byte)
            if place < 0:
                return False
        return True

    def _in_string(self, text: bytes, start: int) -> int:
        """Reads up to a string's end or escape; where it goes on, -1 = it must not."""
        if self.is_escaped:
            self.is_escaped = False
            end = start + 1
        else:
            end = start
            while end < len(text) and text[end] != _QUOTE and text[end] != _BACKSLASH:
                end += 1
            if end < len(text):
                if text[end] == _QUOTE:
                    self.is_in_string = False
                    if self._key is not None and not self._end_key(self._key + text[start:end]):
                        return -1
                    return end + 1
                self.is_escaped = True
                end += 1
        if self._key is not None:
            self._key += text[start:end]
        return end

    def _end_key(self, spelled: bytes) -> bool:
        key = json.loads(b'"' + spelled + b'"') if _BACKSLASH in spelled else spelled.decode()
        keys = self.stack[-1]
        self._key = None
        if keys is None or key in keys:
            return False
        self.stack = (*self.stack[:-1], keys | {key})
        return True

    def _in_number(self, text: bytes, start: int) -> int:
        """Reads up to a number's end; where it goes on, -1 = it must not."""
        read = _NUMBER.match(text, start)
        if read is None:
            self.number = b""
            return start
        self.number += read.group()
        return read.end() if _is_short(self.number) else -1

    def _outside(self, byte: int) -> None:
        if byte == _COMMA:
            self._expects_key = bool(self.stack) and self.stack[-1] is not None
        elif byte == _COLON:
            self._expects_key = False
        elif byte == _OBJECT:
            self.stack = (*self.stack, frozenset())
            self._expects_key = True
        elif byte == _ARRAY:
            self.stack = (*self.stack, None)
            self._expects_key = False
        else:  # } ]
            self.stack = self.stack[:-1]
            self._expects_key = False


def _is_short(number: bytes) -> bool:
    if len(number) > MAX_NUMBER_CHARS:
        return False
    _, mark, exponent = number.lower().partition(b"e")
    return not mark or len(exponent.lstrip(b"+-")) <= MAX_EXPONENT_DIGITS
