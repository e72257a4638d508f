"""Errors of the history, and SQLite's errors as something to tell a person."""

from __future__ import annotations

import sqlite3

from app.history.records import Problem
from engine.core.errors import EngineError


class HistoryError(EngineError):
    """Conversations cannot be read, written, exported or imported."""

    code = "history"


class HistoryTooNewError(HistoryError):
    """The file was written by a newer version of Stratum."""

    code = "history_too_new"


class ImportRefusedError(HistoryError):
    """A file that should be imported holds no conversations."""

    code = "import_refused"


_FULL = (sqlite3.SQLITE_FULL,)
_NOT_WRITABLE = (
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_AUTH,
)
_LOCKED = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)

# The low byte is the error, the rest says where it happened.
_PRIMARY = 0xFF


def is_damage(error: sqlite3.Error) -> bool:
    """Whether an error says that the file itself is damaged."""
    return _primary_code(error) in _DAMAGED


def damage(found: str) -> sqlite3.Error:
    """The error for damage that a check has found."""
    error = sqlite3.DatabaseError(found)
    error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
    return error


def save_problem(error: sqlite3.Error | OSError, path: str) -> Problem:
    """Why saving failed, and what to do; what is not saved stays in memory and is tried again."""
    code = _primary_code(error) if isinstance(error, sqlite3.Error) else -1
    params: dict[str, str | int | float | bool | None] = {"path": path, "reason": str(error)}
    if code in _FULL:
        return Problem(
            "history_disk_full",
            f"The conversation is not saved: the disk with {path} is full. It stays here, and is "
            "saved as soon as there is room.",
            params,
        )
    if code in _NOT_WRITABLE or isinstance(error, OSError):
        return Problem(
            "history_not_writable",
            f"The conversation is not saved: {path} cannot be written ({error}). It stays here, and "
            "is saved as soon as that is possible.",
            params,
        )
    if code in _LOCKED:
        return Problem(
            "history_locked",
            f"The conversation is not saved yet: another program holds {path}. It stays here, and is "
            "saved as soon as that program lets go.",
            params,
        )
    return Problem(
        "history_not_saved",
        f"The conversation is not saved ({error}). It stays here, and saving is tried again.",
        params,
    )


def _primary_code(error: sqlite3.Error) -> int:
    code = getattr(error, "sqlite_errorcode", None)
    return code & _PRIMARY if isinstance(code, int) else -1
