"""Frozen dataclasses to JSON-ready data and back, strictly.

Knows the field types that messages are made of: str, int, float, bool, tuples, dataclasses, optional
dataclasses, and objects of JSON values. Reading refuses a missing or unknown field and a value of
another type; a whole number counts as a float, a bool never counts as a number.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import types
import typing
from collections.abc import Callable

Reader = Callable[[object, str], object]
T = typing.TypeVar("T")


class DataError(ValueError):
    """A value does not have the declared type; the sentence names the field."""


def to_plain(value: object) -> object:
    """The value with every dataclass in it as a dict of its fields; tuples stay tuples."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {name: to_plain(getattr(value, name)) for name in _field_names(type(value))}
    if isinstance(value, tuple) and value and not isinstance(value[0], (int, float, str)):
        return [to_plain(item) for item in value]
    return value


def from_plain(cls: type[T], value: object, where: str) -> T:
    """A `cls` made from what `to_plain` made of one.

    Raises:
        DataError: a field is missing, unknown, or of the wrong type.
    """
    if not isinstance(value, dict):
        raise DataError(f"{where} must be an object")
    readers = _readers(typing.cast(type, cls))
    if value.keys() != readers.keys():
        missing = sorted(readers.keys() - value.keys())
        unknown = sorted(value.keys() - readers.keys())
        what = f"lacks {missing[0]}" if missing else f"has the unknown field {unknown[0]!r}"
        raise DataError(f"{where} {what}")
    return cls(**{name: read(value[name], f"{where}.{name}") for name, read in readers.items()})


@functools.cache
def _field_names(cls: type) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(cls))


@functools.cache
def _readers(cls: type) -> dict[str, Reader]:
    hints = typing.get_type_hints(cls)
    return {name: _reader(hints[name]) for name in _field_names(cls)}


def _reader(hint: object) -> Reader:
    simple = _SIMPLE_READERS.get(hint)
    if simple is not None:
        return simple
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is tuple:
        return _tuple_reader(arguments)
    if origin is dict:
        return _dict_reader(_reader(arguments[1]))
    if origin in {typing.Union, types.UnionType}:
        return _union_reader([_reader(choice) for choice in arguments])
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return functools.partial(from_plain, hint)
    raise TypeError(f"messages cannot have fields of type {hint}")


def _read_exactly(kind: type, word: str) -> Reader:
    def read(value: object, where: str) -> object:
        if type(value) is not kind:
            raise DataError(f"{where} must be {word}")
        return value

    return read


def _read_float(value: object, where: str) -> float:
    if type(value) is not float and type(value) is not int:
        raise DataError(f"{where} must be a number")
    try:
        number = float(value)
    except OverflowError as error:
        raise DataError(f"{where} must be a finite number") from error
    if not math.isfinite(number):
        raise DataError(f"{where} must be a finite number")
    return number


def _read_json_value(value: object, where: str) -> object:  # noqa: ARG001  # anything JSON is fine
    return value


_SIMPLE_READERS: dict[object, Reader] = {
    str: _read_exactly(str, "text"),
    int: _read_exactly(int, "a whole number"),
    bool: _read_exactly(bool, "true or false"),
    type(None): _read_exactly(type(None), "null"),
    float: _read_float,
    object: _read_json_value,
}


def _tuple_reader(arguments: tuple[object, ...]) -> Reader:
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        read_item = _reader(arguments[0])
        is_ints = arguments[0] is int

        def read_many(value: object, where: str) -> object:
            if not isinstance(value, list):
                raise DataError(f"{where} must be a list")
            if is_ints and all(type(item) is int for item in value):
                return tuple(value)  # prompts hold 100,000 of them
            return tuple(read_item(item, f"{where}[{i}]") for i, item in enumerate(value))

        return read_many

    readers = [_reader(argument) for argument in arguments]

    def read_fixed(value: object, where: str) -> object:
        if not isinstance(value, list) or len(value) != len(readers):
            raise DataError(f"{where} must be a list of {len(readers)}")
        return tuple(
            read(item, f"{where}[{i}]")
            for i, (read, item) in enumerate(zip(readers, value, strict=True))
        )

    return read_fixed


def _dict_reader(read_value: Reader) -> Reader:
    def read(value: object, where: str) -> object:
        if not isinstance(value, dict):
            raise DataError(f"{where} must be an object")
        return {key: read_value(item, f"{where}.{key}") for key, item in value.items()}

    return read


def _union_reader(readers: list[Reader]) -> Reader:
    def read(value: object, where: str) -> object:
        reasons: list[str] = []
        for read_choice in readers:
            try:
                return read_choice(value, where)
            except DataError as error:
                reasons.append(str(error))
        raise DataError(" or ".join(reasons))

    return read
