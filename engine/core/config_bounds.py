"""What a setting's annotations allow: the limits of a number, the shortest text."""

from __future__ import annotations

import typing
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated

import annotated_types
from pydantic import StringConstraints
from pydantic.fields import FieldInfo


@dataclass(frozen=True, slots=True)
class NumberBounds:
    """Between what a number must lie; None where there is no limit.

    Attributes:
        low: the smallest one.
        above: the largest one that is too small.
        high: the largest one.
    """

    low: float | None = None
    above: float | None = None
    high: float | None = None


def number_bounds(metadata: Iterable[object]) -> NumberBounds:
    """The limits that a field's metadata names; of two of a kind the last one."""
    low = above = high = None
    for constraint in _flat(metadata):
        match constraint:
            case annotated_types.Ge(ge=value):
                low = value
            case annotated_types.Gt(gt=value):
                above = value
            case annotated_types.Le(le=value):
                high = value
            case _:
                pass
    return NumberBounds(_number(low), _number(above), _number(high))


def least_chars(item: object) -> int | None:
    """The shortest text that this annotation allows; None where it says nothing."""
    if typing.get_origin(item) is Annotated:
        for extra in typing.get_args(item)[1:]:
            if isinstance(extra, StringConstraints):
                return extra.min_length
    return None


def _number(value: object) -> float | None:
    return value if isinstance(value, int | float) else None


def _flat(metadata: Iterable[object]) -> Iterator[object]:
    for item in metadata:
        if isinstance(item, FieldInfo):
            yield from _flat(item.metadata)
        else:
            yield item
