r"""Finds where the raw value of a parameter ends, while it streams (T11, T20, M8, M9, M12).

A value is raw text that may itself hold every tag of the format, so a closing tag ends it only when
what follows agrees. Until that is known everything from the tag on is held; all else goes out at
once, except one trailing newline. Each character is looked at once.

Example: after `<parameter=path>`, feeding "\na.txt\n</parameter>\n</function>" gives the value
"a.txt" and the end FUNCTION_CLOSE.
"""

from __future__ import annotations

import copy
from enum import Enum, auto

from engine.text.events import Tag
from engine.text.tool_table import NameSet, ToolTable

PARAMETER_OPEN = "<parameter="
PARAMETER_CLOSE = "</parameter>"
FUNCTION_OPEN = "<function="
FUNCTION_CLOSE = "</function>"
SPACE = " \t\r\n"
NAME_ENDS = (">", "\r", "\n", "<")  # what ends a function's name (M13); only ">" is well-formed


class ValueEnd(Enum):
    """What ended a value; the named text has been read, except for TAG."""

    PARAMETER_OPEN = auto()  # "</parameter>", then "<parameter=": a name follows (T20)
    DECLARED_PARAMETER = auto()  # "<parameter=NAME>" without a closing tag (M8)
    FUNCTION_CLOSE = auto()  # "</parameter>", then "</function>" (T20)
    FUNCTION_OPEN = auto()  # "</parameter>", then "<function=NAME" (M12)
    TAG = auto()  # the structural tag just fed, which the caller handles next
    TURN = auto()  # the end of the turn


class _Closer(Enum):
    """A closing tag that was read and waits for what follows."""

    NONE = auto()
    PARAMETER = auto()
    FUNCTION = auto()  # "</function>" without "</parameter>" (M9)
    CALL = auto()  # the </tool_call> id without either


class ValueReader:
    """Reads one value; feed it until `end` is set, and `take` the text that is certain.

    Attributes:
        end: what ended the value, None while it goes on.
        name: the parameter or function name that was read at the end, where there is one.
        is_repaired: the value's own closing tag is missing.
        closed_function: "</function>" was read too.
    """

    def __init__(self, parameters: NameSet, tools: ToolTable) -> None:
        self._parameters = parameters
        self._tools = tools
        self._out: list[str] = []
        self._lead: str | None = ""  # start of the value while its first newline is undecided
        self._newline = ""  # trailing "\r", "\n" or "\r\n": trimmed if the value ends here
        self._at_line_start = False
        self._candidate = ""  # a tag that may still become complete
        self._closer = _Closer.NONE
        self._closed: list[str] = []  # the closer and the white space after it
        self.end: ValueEnd | None = None
        self.name = ""
        self.is_repaired = False
        self.closed_function = False

    @property
    def after_close(self) -> str | None:
        """What may become a tag behind a "</parameter>"; None while none was read."""
        return self._candidate if self._closer is _Closer.PARAMETER else None

    def copy(self) -> ValueReader:
        """An independent copy."""
        other = copy.copy(self)
        other._out, other._closed = self._out[:], self._closed[:]
        return other

    def feed(self, text: str, pos: int) -> int:
        """Reads `text` from `pos` on; returns where it stopped (the end, unless `end` is set)."""
        while pos < len(text) and self.end is None:
            if self._candidate:
                pos = self._extend_candidate(text, pos)
            elif self._closer is not _Closer.NONE:
                pos = self._after_closer(text, pos)
            else:
                pos = self._plain(text, pos)
        return pos

    def feed_tag(self, tag: Tag) -> None:
        """Reads a structural tag: it ends the value (`end` is TAG then) or belongs to it."""
        if self._candidate:
            self._give_up()
        if self._tag_ends(tag):
            self.is_repaired = self._closer is not _Closer.PARAMETER
            self.closed_function = self._closer is _Closer.FUNCTION
            self._finish(ValueEnd.TAG)
            return
        self._give_up()
        if tag is Tag.CALL_CLOSE:
            self._closer = _Closer.CALL
            self._closed.append(tag.value)
        else:
            self._put(tag.value)

    def finish_turn(self) -> bool:
        """Ends the value at the turn's end; True when it was visibly complete by then."""
        is_complete = self._closer is not _Closer.NONE
        if not is_complete:
            self._give_up()
        self._finish(ValueEnd.TURN)
        return is_complete

    def take(self) -> str:
        """The value's text that became certain since the last call."""
        text = "".join(self._out)
        self._out.clear()
        return text

    def _tag_ends(self, tag: Tag) -> bool:
        if tag is Tag.CALL_OPEN:
            return self._closer is not _Closer.NONE
        return tag is Tag.CALL_CLOSE and self._closer in (_Closer.PARAMETER, _Closer.FUNCTION)

    def _plain(self, text: str, pos: int) -> int:
        """Passes text on up to the next possible tag."""
        start = text.find("<", pos)
        stop = len(text) if start < 0 else start
        if stop > pos:
            self._put(text[pos:stop])
        if start < 0:
            return stop
        self._candidate = "<"
        return start + 1

    def _after_closer(self, text: str, pos: int) -> int:
        """Holds white space after a closing tag; anything else decides about the tag."""
        stop = pos
        while stop < len(text) and text[stop] in SPACE:
            stop += 1
        if stop > pos:
            self._closed.append(text[pos:stop])
        if stop == len(text):
            return stop
        if text[stop] == "<" and self._closer is _Closer.PARAMETER:
            self._candidate = "<"
            return stop + 1
        self._give_up()
        return stop

    def _extend_candidate(self, text: str, pos: int) -> int:
        """Adds one character to the possible tag; returns `pos` itself when it does not fit."""
        candidate = self._candidate + text[pos]
        if self._closer is _Closer.PARAMETER:
            fits = self._fits_after_parameter(candidate)
        else:
            fits = self._fits_in_value(candidate)
        if self.end is not None:
            # a name that a tag follows (M13) leaves that tag's first character unread
            return pos if text[pos] == "<" else pos + 1
        if not fits:
            self._give_up()
            return pos
        return pos + 1

    def _fits_in_value(self, candidate: str) -> bool:
        """Inside the value: a closing tag, or a declared parameter's opening at a line start."""
        if candidate == PARAMETER_CLOSE:
            self._wait_after(_Closer.PARAMETER, candidate)
            return True
        if candidate == FUNCTION_CLOSE:
            self._wait_after(_Closer.FUNCTION, candidate)
            return True
        if PARAMETER_CLOSE.startswith(candidate) or FUNCTION_CLOSE.startswith(candidate):
            self._candidate = candidate
            return True
        if not self._at_line_start:
            return False
        if candidate.startswith(PARAMETER_OPEN):
            name = candidate[len(PARAMETER_OPEN) :]
            if name.endswith(">") and name[:-1] in self._parameters:
                self.name, self.is_repaired = name[:-1], True
                self._finish(ValueEnd.DECLARED_PARAMETER)
                return True
            if not self._parameters.may_start(name):
                return False
        elif not PARAMETER_OPEN.startswith(candidate):
            return False
        self._candidate = candidate
        return True

    def _fits_after_parameter(self, candidate: str) -> bool:
        """After "</parameter>": whatever proves that the tag did end the value."""
        if candidate == PARAMETER_CLOSE:  # the first one was text; this one may end the value
            self._candidate = ""
            self._give_up()
            self._wait_after(_Closer.PARAMETER, candidate)
            return True
        if candidate == PARAMETER_OPEN:
            self._finish(ValueEnd.PARAMETER_OPEN)
            return True
        if candidate == FUNCTION_CLOSE:
            self.closed_function = True
            self._finish(ValueEnd.FUNCTION_CLOSE)
            return True
        if candidate.startswith(FUNCTION_OPEN):
            written = candidate[len(FUNCTION_OPEN) :]
            if written[-1:] in NAME_ENDS and self._tools.lookup(written[:-1]) is not None:
                self.name = written[:-1]
                self._finish(ValueEnd.FUNCTION_OPEN)
                return True
            if not self._tools.may_become_name(written):
                return False
        elif not any(
            tag.startswith(candidate)
            for tag in (PARAMETER_OPEN, PARAMETER_CLOSE, FUNCTION_OPEN, FUNCTION_CLOSE)
        ):
            return False
        self._candidate = candidate
        return True

    def _wait_after(self, closer: _Closer, tag: str) -> None:
        self._closer = closer
        self._closed = [tag]
        self._candidate = ""

    def _give_up(self) -> None:
        """What was held is part of the value after all."""
        held = "".join(self._closed) + self._candidate
        self._closer, self._closed, self._candidate = _Closer.NONE, [], ""
        if held:
            self._put(held)

    def _put(self, text: str) -> None:
        """Adds text to the value, without its first newline and holding its last (T11)."""
        if self._lead is not None:
            text = self._lead + text
            if text == "\r":
                self._lead = text
                return
            self._lead = None
            trimmed = text[2:] if text.startswith("\r\n") else text.removeprefix("\n")
            if trimmed != text:
                self._at_line_start = True
            text = trimmed
            if not text:
                return
        self._at_line_start = text[-1] == "\n"
        text = self._newline + text
        kept = 2 if text.endswith("\r\n") else int(text[-1] in "\r\n")
        self._newline = text[len(text) - kept :] if kept else ""
        self._out.append(text[: len(text) - kept])

    def _finish(self, end: ValueEnd) -> None:
        self.end = end
        if self._lead == "\r" or self._newline == "\r":  # not a newline by itself
            self._out.append("\r")
        self._closed, self._candidate, self._newline = [], "", ""
