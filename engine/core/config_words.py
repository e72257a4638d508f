"""What a setting may be, in words: for error sentences, `--help` and `docs/config.md`.

The words are derived from the annotations of `RunConfig`, so they cannot disagree with the checks.
"""

from __future__ import annotations

import enum
import types
import typing
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, Union

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from engine.core.config_bounds import least_chars, number_bounds


@dataclass(frozen=True, slots=True)
class Words:
    """Beside a type that says too little: what is allowed.

    Attributes:
        text: such as `a list of names, or all`.
    """

    text: str


NUMBER_WORDS: dict[object, str] = {int: "a whole number", float: "a number"}
PLAIN_WORDS: dict[object, str] = {bool: "true or false", str: "text", Path: "a path"}


def allowed_values(field: FieldInfo) -> str:
    """What the field accepts, such as `a whole number from 0 to 65535`."""
    words = next((extra.text for extra in field.metadata if isinstance(extra, Words)), None)
    return words or _describe(field.annotation, field.metadata)


def is_optional(field: FieldInfo) -> bool:
    """True when null is a value of the field."""
    return type(None) in typing.get_args(field.annotation)


def field_at(model: type[BaseModel], path: Iterable[str | int]) -> FieldInfo | None:
    """The field that a validation error's location points to, or None for an unknown key."""
    found: FieldInfo | None = None
    current: type[BaseModel] | None = model
    entry: type[BaseModel] | None = None
    for part in path:
        if current is None or not isinstance(part, str):
            break  # inside a list: the list's own field says what is allowed
        if entry is not None:  # the part is the name of one of the entries
            current, entry = entry, None
            continue
        found = current.model_fields.get(part)
        annotation = found.annotation if found is not None else None
        entry = entry_model(annotation)
        if entry is None:
            is_table = isinstance(annotation, type) and issubclass(annotation, BaseModel)
            current = typing.cast("type[BaseModel]", annotation) if is_table else None
    return found


def entry_model(annotation: object) -> type[BaseModel] | None:
    """The model of the entries of a table whose keys are names; None for everything else."""
    if typing.get_origin(annotation) is dict:
        value = typing.get_args(annotation)[1]
        if isinstance(value, type) and issubclass(value, BaseModel):
            return value
    return None


def _describe(annotation: object, metadata: Iterable[object]) -> str:
    origin = typing.get_origin(annotation)
    if origin is Annotated:
        inner, *extra = typing.get_args(annotation)
        return _describe(inner, [*metadata, *extra])
    if origin in (Union, types.UnionType):
        members = [item for item in typing.get_args(annotation) if item is not type(None)]
        return " or ".join(_describe(item, metadata) for item in members)
    if origin is Literal:
        return " or ".join(repr(item) for item in typing.get_args(annotation))
    if origin is tuple:
        return f"a list of {_plural(typing.get_args(annotation)[0])}"
    if origin is dict:
        entry = entry_model(annotation)
        if entry is None:
            return "a table of texts"
        return f"a table of names, each with {', '.join(entry.model_fields)}"
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return "one of " + ", ".join(str(member.value) for member in annotation)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return "a table with " + ", ".join(annotation.model_fields)
    if annotation in NUMBER_WORDS:
        return NUMBER_WORDS[annotation] + _range(metadata)
    return PLAIN_WORDS.get(annotation, "a value of its type")


def _plural(item: object) -> str:
    least = least_chars(item)
    return f"texts of {least} characters or more" if least else "texts"


def _range(metadata: Iterable[object]) -> str:
    bounds = number_bounds(metadata)
    low, above, high = bounds.low, bounds.above, bounds.high
    start = f"above {above}" if above is not None else ""
    if low is not None:
        start = f"from {low}" if high is not None else f"of {low} or more"
    end = ""
    if high is not None:
        end = f"to {high}" if low is not None else f"up to {high}"
        end = f"and {end}" if above is not None else end
    words = " ".join(part for part in (start, end) if part)
    return f" {words}" if words else ""
