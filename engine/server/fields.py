"""Reading a request's JSON object strictly, with paths in the errors.

`null` means "not given" for every optional field; whole floats count as integers; booleans are not
numbers; nothing else is converted (spec/api.md section 2). The first problem ends the reading.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from engine.server.errors import invalid_type, invalid_value, missing, shortened

INT64_MAX = 2**63 - 1


class Fields:
    """One JSON object of a request, and where it stands in the body.

    Attributes:
        data: the object.
        path: such as `messages[2]`; empty for the body itself.
    """

    def __init__(self, data: Mapping[str, object], path: str = "") -> None:
        self.data = data
        self.path = path

    @classmethod
    def of(cls, value: object, path: str) -> Fields:
        """The fields of a value that must be an object."""
        if not isinstance(value, dict):
            raise invalid_type(path, "an object", value)
        return cls(value, path)

    def at(self, key: str) -> str:
        """The path of a key, for errors."""
        key = shortened(key)  # it may be the client's own
        return f"{self.path}.{key}" if self.path else key

    def get(self, key: str) -> object:
        """The raw value; None when absent or null."""
        return self.data.get(key)

    def first(self, *keys: str) -> str:
        """The first of several names that is given; the first name when none is."""
        return next((key for key in keys if self.get(key) is not None), keys[0])

    def number(self, key: str, low: float, high: float, *, above_low: bool = False) -> float | None:
        """A number from `low` (or above it) to `high`."""
        value = self.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise invalid_type(self.at(key), "a number", value)
        too_low = value <= low if above_low else value < low
        if too_low or value > high:
            start = f"above {low:g} and up to" if above_low else f"from {low:g} to"
            raise invalid_value(self.at(key), f"must be a number {start} {high:g}")
        return float(value)

    def integer(self, key: str, low: int, high: int = INT64_MAX) -> int | None:
        """A whole number from `low` to `high`; 3.0 counts."""
        value = self.get(key)
        if value is None:
            return None
        whole = as_integer(value)
        if whole is None:
            raise invalid_type(self.at(key), "a whole number", value)
        if not low <= whole <= high:
            end = "" if high == INT64_MAX and whole < low else f" and at most {high}"
            raise invalid_value(self.at(key), f"must be a whole number of at least {low}{end}")
        return whole

    def boolean(self, key: str) -> bool | None:
        """True or false."""
        value = self.get(key)
        if value is None or isinstance(value, bool):
            return value
        raise invalid_type(self.at(key), "true or false", value)

    def string(self, key: str) -> str | None:
        """A string."""
        value = self.get(key)
        if value is None or isinstance(value, str):
            return value
        raise invalid_type(self.at(key), "a string", value)

    def required_string(self, key: str) -> str:
        """A string that must be there."""
        value = self.string(key)
        if value is None:
            raise missing(self.at(key))
        return value

    def table(self, key: str) -> Fields | None:
        """An object."""
        value = self.get(key)
        return None if value is None else Fields.of(value, self.at(key))

    def array(self, key: str) -> list[object] | None:
        """An array."""
        value = self.get(key)
        if value is None or isinstance(value, list):
            return value
        raise invalid_type(self.at(key), "an array", value)

    def choice(self, key: str, allowed: Sequence[str]) -> str | None:
        """One of a few strings."""
        value = self.string(key)
        if value is not None and value not in allowed:
            raise invalid_value(self.at(key), f"must be one of {', '.join(allowed)}")
        return value


def objects(values: Sequence[object], path: str) -> Iterator[Fields]:
    """The items of an array that must all be objects."""
    for index, value in enumerate(values):
        yield Fields.of(value, f"{path}[{index}]")


def as_integer(value: object) -> int | None:
    """The whole number that a JSON value is, or None."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    return int(value) if isinstance(value, float) and value.is_integer() else None
