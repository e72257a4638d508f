"""Watches JSON while it is written for what grammars let through: equal keys and endless numbers.

A grammar cannot remember which keys an object has, and lets numbers have any length: `1e999` is
infinite for most readers, and some models write digits for ever. The text is known to be JSON
otherwise, so this looks at strings, brackets and digits only. What follows the value is ignored.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

MAX_NUMBER_CHARS = 40
MAX_EXPONENT_DIGITS = 2

_NUMBER_START = b"-0123456789"
_NUMBER = b"+-.0123456789eE"
_QUOTE, _BACKSLASH = b'"\\'


@dataclass(slots=True)
class JsonWatch:
    """A position in a JSON text. Objects are remembered by their keys, arrays as None."""

    _stack: tuple[frozenset[str] | None, ...] = ()
    _expects_key: bool = False
    _is_in_string: bool = False
    _is_escaped: bool = False
    _key: bytes | None = None  # what of a key has been read, with its escapes
    _number: bytes = b""

    def copy(self) -> JsonWatch:
        """An independent copy."""
        return JsonWatch(  # `dataclasses.replace` takes three times as long
            self._stack,
            self._expects_key,
            self._is_in_string,
            self._is_escaped,
            self._key,
            self._number,
        )

    def after(self, text: bytes) -> JsonWatch | None:
        """The place behind this text; None when it must not come."""
        if self._is_in_string:
            is_plain = not self._is_escaped and self._key is None
            if is_plain and b'"' not in text and b"\\" not in text:
                return self  # most tokens of an answer with long strings
        elif not self._number and text.isspace():
            return self
        watch = self.copy()
        return watch if watch.feed(text) else None

    def feed(self, text: bytes) -> bool:
        """Reads on; False when the text must not go on like this (the watch is of no use then)."""
        for byte in text:
            if not (self._in_string(byte) if self._is_in_string else self._outside(byte)):
                return False
        return True

    def _in_string(self, byte: int) -> bool:
        if self._is_escaped:
            self._is_escaped = False
        elif byte == _BACKSLASH:
            self._is_escaped = True
        elif byte == _QUOTE:
            self._is_in_string = False
            return self._key is None or self._end_key(self._key)
        if self._key is not None:
            self._key += bytes((byte,))
        return True

    def _end_key(self, spelled: bytes) -> bool:
        key = json.loads(b'"' + spelled + b'"')
        keys = self._stack[-1]
        self._key = None
        if keys is None or key in keys:
            return False
        self._stack = (*self._stack[:-1], keys | {key})
        return True

    def _outside(self, byte: int) -> bool:
        if self._number or byte in _NUMBER_START:
            if byte in _NUMBER:
                self._number += bytes((byte,))
                return _is_short(self._number)
            self._number = b""
        match byte:
            case 0x22:  # "
                self._is_in_string = True
                self._key = b"" if self._expects_key else None
            case 0x7B:  # {
                self._stack = (*self._stack, frozenset())
                self._expects_key = True
            case 0x5B:  # [
                self._stack = (*self._stack, None)
                self._expects_key = False
            case 0x7D | 0x5D:  # } ]
                self._stack = self._stack[:-1]
                self._expects_key = False
            case 0x2C:  # ,
                self._expects_key = bool(self._stack) and self._stack[-1] is not None
            case 0x3A:  # :
                self._expects_key = False
        return True


def _is_short(number: bytes) -> bool:
    _, mark, exponent = number.lower().partition(b"e")
    digits = exponent.lstrip(b"+-")
    return len(number) <= MAX_NUMBER_CHARS and (not mark or len(digits) <= MAX_EXPONENT_DIGITS)
