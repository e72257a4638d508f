"""Turns the raw text of a tool-call parameter into JSON (T11 to T14).

The model writes strings raw and everything else as JSON; which of the two a text is, the tool's
schema decides. A value never makes a request fail: what cannot be typed is passed on as a string.
Finding where a value starts and ends is `value_reader`'s work, not done here.
"""

from __future__ import annotations

import json
import re

from engine.core.strict_json import parse_json
from engine.text.schema_kinds import ONLY_STRING, JsonKind, Kinds, kind_of

DECISION_CHARS = 64  # characters after which a union with string is no longer re-examined

_PYTHON_SPELLING: dict[str, tuple[JsonKind, str]] = {
    "True": (JsonKind.BOOLEAN, "true"),
    "False": (JsonKind.BOOLEAN, "false"),
    "None": (JsonKind.NULL, "null"),
}
_JSON_SPACE = " \t\r\n"
_NUMBER_HEAD = re.compile(r"-?[0-9.eE+-]*\s*")


def string_json(text: str) -> str:
    """The text as a JSON string with its quotes, without ASCII escaping."""
    return json.dumps(text, ensure_ascii=False)


def string_fragment(text: str) -> str:
    """The text as the inside of a JSON string; fragments may be joined in any division."""
    return json.dumps(text, ensure_ascii=False)[1:-1]


def to_json(value: object) -> str:
    """Compact JSON without ASCII escaping, always encodable as UTF-8.

    A lone surrogate (a text can spell one as an escape) has no UTF-8 form; a value with one keeps
    its escapes.
    """
    compact = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    try:
        compact.encode("utf-8")
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":"), allow_nan=False)
    return compact


def argument_json(text: str, kinds: Kinds | None) -> str:
    """The JSON text of one parameter's value.

    Args:
        text: the value as the model wrote it, newlines of the tags already trimmed.
        kinds: the types that the schema allows; None for an undeclared parameter.
    """
    if kinds == ONLY_STRING:
        return string_json(text)
    try:
        typed = _typed(text, kinds)
        return string_json(text) if typed is None else typed
    except ValueError:
        return string_json(text)


def surely_string(head: str, kinds: Kinds | None) -> bool:
    """True when a value that starts with `head` can only be a string, however it goes on.

    Lets a nullable string or a union stream like a plain string (T19). False means undecided.
    """
    if kinds is not None and JsonKind.STRING not in kinds:
        return False
    if kinds == ONLY_STRING:
        return True
    start = head.lstrip(_JSON_SPACE)
    if not start:
        return False
    allowed = frozenset({JsonKind.OBJECT, JsonKind.ARRAY}) if kinds is None else kinds
    return not any(_may_become(start, kind) for kind in allowed)


def _typed(text: str, kinds: Kinds | None) -> str | None:
    """The JSON of a value that is not a plain string, None when it is one."""
    if kinds is None:
        is_structure = text.lstrip(_JSON_SPACE)[:1] in ("{", "[")
        return to_json(parse_json(text)) if is_structure else None
    if JsonKind.STRING in kinds:
        value = parse_json(text)
        kind = kind_of(value)
        if kind is JsonKind.INTEGER and JsonKind.NUMBER in kinds:
            return to_json(value)
        return to_json(value) if kind in kinds and kind is not JsonKind.STRING else None
    kind_and_json = _PYTHON_SPELLING.get(text.strip(_JSON_SPACE))
    if kind_and_json is not None and kind_and_json[0] in kinds:
        return kind_and_json[1]
    value = parse_json(text)
    wants_whole = JsonKind.INTEGER in kinds and JsonKind.NUMBER not in kinds
    if wants_whole and isinstance(value, float) and value.is_integer():
        value = int(value)
    return to_json(value)


def _may_become(start: str, kind: JsonKind) -> bool:
    """True when a text with this start (no leading space) may still be JSON of that type."""
    if kind is JsonKind.OBJECT:
        return start[0] == "{"
    if kind is JsonKind.ARRAY:
        return start[0] == "["
    if kind is JsonKind.NULL:
        return _is_literal_head(start, "null")
    if kind is JsonKind.BOOLEAN:
        return _is_literal_head(start, "true") or _is_literal_head(start, "false")
    if kind is JsonKind.STRING:
        return False
    return _NUMBER_HEAD.fullmatch(start) is not None


def _is_literal_head(start: str, literal: str) -> bool:
    return literal.startswith(start.rstrip(_JSON_SPACE))
