"""JSON as we take it from others: strict, with finite numbers, and not nested too deeply.

Python's own reader lets NaN, Infinity and numbers that overflow through, and fails on deep nesting
with an error of the interpreter.
"""

from __future__ import annotations

import json
import math
from typing import NoReturn

MAX_DEPTH = 128


class BadJsonError(ValueError):
    """A text is not JSON as we take it; the message is the rest of a sentence about the text."""


def parse_json(text: str, *, first_wins: bool = False) -> object:
    """The value that a text spells.

    Args:
        text: one JSON value.
        first_wins: of equal keys the first counts, instead of the last.

    Raises:
        BadJsonError: it is anything else.
    """
    if not text.strip():
        raise BadJsonError("it is empty")
    try:
        value: object = json.loads(
            text,
            parse_constant=_refuse_constant,
            object_pairs_hook=_first_of_each if first_wins else None,
        )
    except BadJsonError:
        raise
    except json.JSONDecodeError as error:
        raise BadJsonError(f"{error.msg}, line {error.lineno} column {error.colno}") from error
    except ValueError as error:  # the interpreter's limit of digits
        raise BadJsonError("a number has too many digits") from error
    except RecursionError as error:
        raise _too_deep() from error
    _check_values(value)
    return value


def _check_values(value: object) -> None:
    """Refuse deep nesting, and numbers that overflowed to infinity (1e999)."""
    level: list[object] = [value]
    for _ in range(MAX_DEPTH):
        below: list[object] = []
        for item in level:
            if isinstance(item, dict):
                below += item.values()
            elif isinstance(item, list):
                below += item
            elif isinstance(item, float) and not math.isfinite(item):
                raise BadJsonError("a number is too large")
        if not below:
            return
        level = below
    if any(isinstance(item, dict | list) for item in level):
        raise _too_deep()


def _too_deep() -> BadJsonError:
    return BadJsonError(f"it is nested too deeply, in more than {MAX_DEPTH} levels")


def _refuse_constant(name: str) -> NoReturn:
    raise BadJsonError(f"{name} is not a number")


def _first_of_each(pairs: list[tuple[str, object]]) -> dict[str, object]:
    first: dict[str, object] = {}
    for key, value in pairs:
        first.setdefault(key, value)
    return first
