"""Limits of raw strings (a call's string parameters) as terminals of a Lark grammar.

A raw string has no quotes and no escapes, so a schema's limits are said about the text itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

STRING_LIMITS = frozenset({"pattern", "minLength", "maxLength", "format"})
MAX_LENGTH = 100_000  # a longer one is as good as none

# The text must not hold what ends it.
_NO_END = r"~/(?s:.*)<\/parameter>(?s:.*)/"
_DATE = r"[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
_TIME = (
    r"([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])"
)
_BYTE = r"(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_FORMATS = {
    "date": _DATE,
    "time": _TIME,
    "date-time": f"{_DATE}T{_TIME}",
    "uuid": r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}",
    "ipv4": rf"{_BYTE}(\.{_BYTE}){{3}}",
    "email": r"[A-Za-z0-9_+-]+(\.[A-Za-z0-9_+-]+)*@[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
    r"(\.[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)+",
}


class NotEnforceableError(ValueError):
    """A keyword cannot be enforced; its name is the message."""


def raw_string_terminal(schema: Mapping[str, object]) -> str:
    """The terminal of the raw texts that a string schema allows; empty = any text.

    Raises:
        NotEnforceableError: a limit is of a form that is not known.
    """
    parts = [*_pattern(schema), *_length(schema), *_format(schema)]
    return " & ".join([*parts, _NO_END]) if parts else ""


def _pattern(schema: Mapping[str, object]) -> list[str]:
    pattern = schema.get("pattern")
    if pattern is None:
        return []
    if not isinstance(pattern, str):
        raise NotEnforceableError("pattern")
    # A pattern may match anywhere in the text unless it is anchored.
    start = "" if pattern.startswith("^") else "(?s:.*)"
    is_anchored = pattern.endswith("$") and not pattern.endswith("\\$")
    end = "" if is_anchored else "(?s:.*)"
    inner = pattern[len("^") if not start else 0 : -1 if is_anchored else None]
    if re.search(r"(?<!\\)(?<!\[)[\^$]", inner) and "|" in inner:
        raise NotEnforceableError("pattern")  # anchors of single branches
    return [f"/{start}({_escaped(inner)}){end}/"]


def _escaped(pattern: str) -> str:
    """The pattern between the slashes of a terminal."""
    return re.sub(r"(\\.)|/", lambda match: match[1] or r"\/", pattern).replace("\n", r"\n")


def _length(schema: Mapping[str, object]) -> list[str]:
    shortest, longest = schema.get("minLength", 0), schema.get("maxLength")
    for name, value in (("minLength", shortest), ("maxLength", longest)):
        if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
            raise NotEnforceableError(name)
    least = min(int(str(shortest)), MAX_LENGTH)
    most = "" if longest is None or int(str(longest)) > MAX_LENGTH else str(longest)
    if least <= 0 and not most:
        return []
    return [f"/(?s:.{{{max(least, 0)},{most}}})/"]


def _format(schema: Mapping[str, object]) -> list[str]:
    name = schema.get("format")
    if name is None:
        return []
    if not isinstance(name, str) or name not in _FORMATS:
        raise NotEnforceableError("format")
    return [f"/{_escaped(_FORMATS[name])}/"]
