"""A fact to tell the person, as a stable code with values; its words are the caller's, by language."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from engine.core.errors import ParameterValue

PlainValue = None | bool | int | float | str | list["PlainValue"] | dict[str, "PlainValue"]


@dataclass(frozen=True, slots=True)
class Note:
    """One thing that was found.

    Attributes:
        code: stable identifier, such as `driver_too_old`.
        params: the values in its sentence.
    """

    code: str
    params: Mapping[str, ParameterValue] = field(default_factory=dict)


def as_plain(value: object) -> PlainValue:
    """Dataclasses, enums, paths, mappings and sequences as what `json.dumps` takes.

    >>> as_plain(Note("driver_too_old", {"driver": "470.82"}))
    {'code': 'driver_too_old', 'params': {'driver': '470.82'}}
    """
    if isinstance(value, enum.Enum):
        return as_plain(value.value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): as_plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        items = sorted(value, key=str) if isinstance(value, set | frozenset) else value
        return [as_plain(item) for item in items]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: as_plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    raise TypeError(f"{type(value).__name__} has no plain form")
