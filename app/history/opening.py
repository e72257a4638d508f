"""Opens the history of a data folder, whatever state it is in.

    opened = open_history(data_dir)
    opened.store, opened.notices

A damaged file is set aside and recovered. A file that cannot be used (a newer version wrote it, the
folder cannot be written) is left alone, and the conversations of today go to another file: nobody is kept
from chatting, nothing is lost, and a sentence says where it is.
"""

from __future__ import annotations

import logging
import sqlite3
import tempfile
from dataclasses import dataclass
from pathlib import Path

from app.history.errors import HistoryTooNewError, is_damage
from app.history.records import Problem
from app.history.recovery import set_aside_and_recover
from app.history.schema import FORMAT
from app.history.store import HistoryStore

logger = logging.getLogger(__name__)

FILE_NAME = "history.db"
OTHER_FILE_NAME = f"history.format{FORMAT}.db"


@dataclass(frozen=True, slots=True)
class OpenedHistory:
    """The store, and what the person should be told about it."""

    store: HistoryStore
    notices: tuple[Problem, ...] = ()


def open_history(data_dir: Path) -> OpenedHistory:
    """The conversations in a data folder; never fails."""
    path = data_dir / FILE_NAME
    try:
        return OpenedHistory(HistoryStore(path))
    except HistoryTooNewError as error:
        problem = Problem(error.code, error.message, dict(error.params))
        return _elsewhere(data_dir / OTHER_FILE_NAME, problem)
    except sqlite3.Error as error:
        if not is_damage(error):
            return _elsewhere(_temporary_path(), _cannot_open(path, error))
        damage = error
    except OSError as error:
        return _elsewhere(_temporary_path(), _cannot_open(path, error))
    logger.warning("the history is damaged: %s", damage)
    try:
        recovered = set_aside_and_recover(path)
        return OpenedHistory(HistoryStore(path), (recovered,))
    except (sqlite3.Error, OSError) as error:
        return _elsewhere(data_dir / "history.new.db", _cannot_open(path, error))


def _elsewhere(path: Path, problem: Problem) -> OpenedHistory:
    """A store in another file, with the reason."""
    logger.warning("the history is not used (%s); conversations go to %s", problem.code, path)
    told = Problem(
        problem.code,
        f"{problem.message} Until then conversations are kept in {path}.",
        {**problem.params, "elsewhere": str(path)},
    )
    try:
        return OpenedHistory(HistoryStore(path), (told,))
    except (sqlite3.Error, OSError, HistoryTooNewError):
        fallback = Path(tempfile.mkdtemp(prefix="stratum-history-")) / FILE_NAME
        return OpenedHistory(HistoryStore(fallback), (told,))


def _temporary_path() -> Path:
    """One per user and machine, so that the next start finds it again."""
    return Path(tempfile.gettempdir()) / f"stratum-{Path.home().name}" / FILE_NAME


def _cannot_open(path: Path, error: Exception) -> Problem:
    return Problem(
        "history_not_opened",
        f"The conversations in {path} cannot be opened ({error}). Make sure that the folder can be "
        "written and that no other program holds the file.",
        {"path": str(path), "reason": str(error)},
    )
