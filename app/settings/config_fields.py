"""The rows of the run config's editor, derived from `RunConfig` itself.

    for row in config_rows():
        row.key, row.kind, row.limits.low, row.default      # "port", Kind.INTEGER, 0, 8080

A key that is added to `RunConfig` appears here by itself, in the group in which it is declared. The
words for people are in `config_texts.py`; what a value must be is checked by the model itself.
"""

from __future__ import annotations

import enum
import types
import typing
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Union

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from engine.core.config import RunConfig
from engine.core.config_bounds import least_chars, number_bounds
from engine.core.config_file import SECRET_KEYS
from engine.core.config_words import is_optional

JsonValue = None | bool | int | float | str | list["JsonValue"] | dict[str, "JsonValue"]


class Kind(enum.Enum):
    """How a value is edited."""

    SWITCH = enum.auto()
    CHOICE = enum.auto()
    INTEGER = enum.auto()
    NUMBER = enum.auto()
    TEXT = enum.auto()
    PATH = enum.auto()
    LINES = enum.auto()  # a list of texts, one a line
    ELSEWHERE = enum.auto()  # a table with a page of its own


class Group(enum.Enum):
    """Groups of settings, in the order in which they are declared."""

    MODEL = "model"
    COMPUTING = "computing"
    SESSIONS = "sessions"
    SERVER = "server"
    LOADING = "loading"
    ANSWERS = "answers"
    TOOLS = "tools"


# The first key of each group; a key that is inserted between two belongs to the group before it.
FIRST_KEYS = {
    "model": Group.MODEL,
    "ops": Group.COMPUTING,
    "session_cache_mib": Group.SESSIONS,
    "host": Group.SERVER,
    "lazy_load": Group.LOADING,
    "sampling": Group.ANSWERS,
    "mcp_servers": Group.TOOLS,
}
# Keys that are no setting of a person.
_HIDDEN = frozenset({"format"})
# Keys with a page of their own, where they are shown as what they are.
OWN_PAGES = frozenset({"api_keys", "mcp_servers"})


@dataclass(frozen=True, slots=True)
class Limits:
    """What a number or text may be.

    Attributes:
        low: least value.
        above: the value must be larger than this.
        high: largest value.
        min_chars: least length of each text of a list.
    """

    low: float | None = None
    above: float | None = None
    high: float | None = None
    min_chars: int | None = None


@dataclass(frozen=True, slots=True)
class ConfigRow:
    """One setting.

    Attributes:
        key: as in the file; `table.key` for those of a table.
        group: where it is shown.
        kind: how it is edited.
        default: what stands for a key that the file lacks; None where the program chooses.
        description: in English, as `RunConfig` has it.
        choices: allowed values of a `CHOICE`.
        limits: of a number.
        is_optional: whether it may be left to the program.
        is_secret: whether its value is hidden until asked for.
    """

    key: str
    group: Group
    kind: Kind
    default: JsonValue
    description: str
    choices: tuple[str, ...] = ()
    limits: Limits = Limits()
    is_optional: bool = False
    is_secret: bool = False

    @property
    def path(self) -> tuple[str, ...]:
        """The key's parts."""
        return tuple(self.key.split("."))


def config_rows() -> tuple[ConfigRow, ...]:
    """All settings, in the order in which they are declared."""
    return tuple(_rows())


def _rows() -> Iterator[ConfigRow]:
    group = Group.MODEL
    for key, field in RunConfig.model_fields.items():
        group = FIRST_KEYS.get(key, group)
        if key in _HIDDEN:
            continue
        annotation = field.annotation
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            for name, inner in annotation.model_fields.items():
                yield _row(f"{key}.{name}", inner, group)
        else:
            yield _row(key, field, group)


def _row(key: str, field: FieldInfo, group: Group) -> ConfigRow:
    kind, limits, choices = _shape(field.annotation, field.metadata)
    top = key.partition(".")[0]
    return ConfigRow(
        key=key,
        group=group,
        kind=Kind.ELSEWHERE if top in OWN_PAGES else kind,
        default=_plain(field.get_default(call_default_factory=True)),
        description=field.description or "",
        choices=choices,
        limits=limits,
        is_optional=is_optional(field),
        is_secret=top in SECRET_KEYS,
    )


def _shape(annotation: object, metadata: Iterable[object]) -> tuple[Kind, Limits, tuple[str, ...]]:
    origin = typing.get_origin(annotation)
    if origin is Annotated:
        inner, *extra = typing.get_args(annotation)
        return _shape(inner, [*metadata, *extra])
    if origin in (Union, types.UnionType):
        inner = next(item for item in typing.get_args(annotation) if item is not type(None))
        return _shape(inner, metadata)
    if origin is tuple:
        return Kind.LINES, Limits(min_chars=least_chars(typing.get_args(annotation)[0])), ()
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return Kind.CHOICE, Limits(), tuple(str(member.value) for member in annotation)
    kinds = {
        bool: Kind.SWITCH,
        int: Kind.INTEGER,
        float: Kind.NUMBER,
        str: Kind.TEXT,
        Path: Kind.PATH,
    }
    kind = kinds.get(annotation, Kind.ELSEWHERE) if isinstance(annotation, type) else Kind.ELSEWHERE
    bounds = number_bounds(metadata)
    return kind, Limits(bounds.low, bounds.above, bounds.high), ()


def _plain(value: object) -> JsonValue:
    if isinstance(value, enum.Enum):
        return str(value.value)
    if isinstance(value, tuple):
        return [str(item) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return str(value) if isinstance(value, Path) else None
