"""Checked access to a file's metadata: every value has a kind and a range, or one sentence says why not.

Knows nothing of models. `MetadataReader(metadata, "qwen4exp.").integer("block_count", 1, 4096)` gives
the number behind `qwen4exp.block_count`, whatever integer type the writer chose.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NoReturn

from engine.core.errors import ModelFileError


def refuse(reason: str) -> NoReturn:
    """Raise the sentence for a model that cannot be used.

    Args:
        reason: cause, as the second half of a sentence.
    """
    raise ModelFileError(f"This model file cannot be used: {reason}; choose another file.")


class MetadataReader:
    """Typed look-ups below one prefix of a file's metadata."""

    def __init__(self, metadata: Mapping[str, object], prefix: str) -> None:
        self._metadata = metadata
        self._prefix = prefix

    def has(self, key: str) -> bool:
        """Whether the key is there."""
        return self._prefix + key in self._metadata

    def integer(self, key: str, low: int, high: int, default: int | None = None) -> int:
        """A whole number in low..high.

        Raises:
            ModelFileError: the key is missing and has no default, is no number, or out of range.
        """
        value = self._metadata.get(self._prefix + key)
        if value is None:
            if default is not None:
                return default
            refuse(f"its metadata lack the key {self._prefix}{key}")
        if isinstance(value, bool) or not isinstance(value, int):
            refuse(f"its metadata key {self._prefix}{key} is not a whole number")
        if not low <= value <= high:
            refuse(f"its metadata key {self._prefix}{key} is {value}, outside of {low} to {high}")
        return value

    def number(self, key: str, low: float, high: float) -> float:
        """A finite number in low..high.

        Raises:
            ModelFileError: the key is missing, is no number, or out of range.
        """
        value = self._metadata.get(self._prefix + key)
        if value is None:
            refuse(f"its metadata lack the key {self._prefix}{key}")
        if isinstance(value, bool) or not isinstance(value, int | float):
            refuse(f"its metadata key {self._prefix}{key} is not a number")
        if not math.isfinite(value) or not low <= value <= high:
            refuse(f"its metadata key {self._prefix}{key} is {value}, outside of {low} to {high}")
        return float(value)

    def text(self, key: str, default: str) -> str:
        """A string, or the default when the key is missing."""
        value = self._metadata.get(self._prefix + key, default)
        if not isinstance(value, str):
            refuse(f"its metadata key {self._prefix}{key} is not a text")
        return value

    def flag(self, key: str) -> bool:
        """A truth value; False when the key is missing."""
        value = self._metadata.get(self._prefix + key, False)
        if not isinstance(value, bool | int):
            refuse(f"its metadata key {self._prefix}{key} is not true or false")
        return bool(value)

    def integers(self, key: str, count: int | None, low: int, high: int) -> tuple[int, ...]:
        """An array of whole numbers (or truth values), each in low..high.

        Args:
            key: without the prefix.
            count: how many there must be at least, None for any number.
            low: smallest allowed value.
            high: largest allowed value.

        Raises:
            ModelFileError: the key is missing, no such array, too short, or out of range.
        """
        value = self._metadata.get(self._prefix + key)
        if value is None:
            refuse(f"its metadata lack the key {self._prefix}{key}")
        if not isinstance(value, Sequence) or isinstance(value, str | bytes):
            refuse(f"its metadata key {self._prefix}{key} is not a list")
        if count is not None and len(value) < count:
            refuse(
                f"its metadata key {self._prefix}{key} has {len(value)} values, {count} are needed"
            )
        if len(value) > _MAX_VALUES:
            refuse(f"its metadata key {self._prefix}{key} has {len(value)} values")
        numbers: list[int] = []
        for item in value:
            if not isinstance(item, int):
                refuse(f"its metadata key {self._prefix}{key} holds something else than numbers")
            if not low <= item <= high:
                refuse(
                    f"its metadata key {self._prefix}{key} holds {item}, outside {low} to {high}"
                )
            numbers.append(int(item))
        return tuple(numbers)


_MAX_VALUES = 65_536
