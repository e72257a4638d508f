"""Sentences by key, in one language, with sizes and times in that language's words.

    texts = Texts(Language.CHINESE)
    texts.say("download.speed", bytes_per_s=12e6)
    texts.note(Note("driver_too_old", {"driver": "470.82"}))
    texts.error(error)

A placeholder may name a form: `{free_bytes:size}`, `{ram_bytes:memory}`, `{eta_s:duration}`.
"""

from __future__ import annotations

import logging
import string
from collections.abc import Mapping

from engine.core.errors import EngineError, ParameterValue
from engine.core.language import Language
from engine.core.note import Note
from installer.i18n import (
    chinese,
    chinese_care,
    chinese_notes,
    chinese_pc,
    english,
    english_care,
    english_notes,
    english_pc,
)

logger = logging.getLogger(__name__)

Table = Mapping[str, str]

TABLES: Mapping[Language, Table] = {
    Language.ENGLISH: {
        **english.TEXTS,
        **english_notes.TEXTS,
        **english_pc.TEXTS,
        **english_care.TEXTS,
    },
    Language.CHINESE: {
        **chinese.TEXTS,
        **chinese_notes.TEXTS,
        **chinese_pc.TEXTS,
        **chinese_care.TEXTS,
    },
}


class Texts:
    """All sentences of one language."""

    def __init__(self, language: Language) -> None:
        self.language = language
        self._table = TABLES[language]
        self._formatter = _Formatter(self._table)

    def say(self, key: str, **params: ParameterValue) -> str:
        """The sentence of a key.

        Raises:
            KeyError: there is none (a mistake of ours), or one of its values is missing.
        """
        return self._formatter.vformat(self._table[key], (), params)

    def has(self, key: str) -> bool:
        """Whether there is a sentence for a key."""
        return key in self._table

    def note(self, note: Note) -> str:
        """The sentence of a note."""
        return self._by_code(f"note.{note.code}", note.params) or note.code

    def error(self, error: EngineError) -> str:
        """The sentence of an error: the table's, else the error's own, which is English."""
        return self._by_code(f"error.{error.code}", error.params) or error.message

    def size(self, num_bytes: float) -> str:
        """A size on a drive, in powers of ten as drives and downloads are sold."""
        return _size(num_bytes, 1000)

    def memory(self, num_bytes: float) -> str:
        """A size of memory, in powers of two as memory is sold."""
        return _size(num_bytes, 1024)

    def duration(self, seconds: float) -> str:
        """A time to wait."""
        return _duration(self._table, seconds)

    def _by_code(self, key: str, params: Mapping[str, ParameterValue]) -> str:
        if key not in self._table:
            return ""
        try:
            return self._formatter.vformat(self._table[key], (), params)
        except (KeyError, ValueError, TypeError) as error:  # a sentence in another form is no help
            logger.warning("the text %s does not fit its values %s (%r)", key, dict(params), error)
            return ""


class _Formatter(string.Formatter):
    """Knows our forms beside Python's own."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def format_field(self, value: object, format_spec: str) -> str:
        if format_spec == "size":
            return _size(_number(value), 1000)
        if format_spec == "memory":
            return _size(_number(value), 1024)
        if format_spec == "duration":
            return _duration(self._table, _number(value))
        if format_spec == "effort":
            return self._table.get(f"effort.{value}", str(value))
        if format_spec == "tokens":
            return f"{int(_number(value)):,}"
        if format_spec == "rate":  # tokens a second: whole numbers unless slow
            rate = _number(value)
            return f"{rate:.1f}" if rate < 10 else f"{rate:.0f}"
        return str(super().format_field(value, format_spec))


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{value!r} is no number")
    return float(value)


def _size(num_bytes: float, base: int) -> str:
    value = float(num_bytes)
    for unit in ("B", "KB", "MB", "GB"):
        if value < base or unit == "GB":
            break
        value /= base
    if unit == "B" or value >= 100 or value == int(value):
        return f"{value:,.0f} {unit}"
    return f"{value:.1f} {unit}"


def _duration(table: Table, seconds: float) -> str:
    if seconds < 60:
        return table["time.seconds"].format(n=max(1, round(seconds)))
    minutes = round(seconds / 60)
    if minutes < 60:
        return table["time.minutes"].format(n=minutes)
    return table["time.hours"].format(hours=minutes // 60, minutes=minutes % 60)
