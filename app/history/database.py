"""The file: one connection that writes, two that read, and what happens when it is damaged."""

from __future__ import annotations

import contextlib
import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from app.history.errors import damage
from app.history.pending import Pending
from app.history.records import Conversation, Message, MessageState, Problem
from app.history.recovery import copy_path, set_aside_and_recover
from app.history.rows import (
    CONVERSATION_COLUMNS,
    MESSAGE_COLUMNS,
    left_behind,
    read_conversation,
    read_message,
    with_pieces,
)
from app.history.schema import connect, keep_copy, prepare
from app.history.writing import rebuild_index, write_batch

logger = logging.getLogger(__name__)

# A second copy, for the day on which the file itself is damaged beyond reading.
COPY_EVERY_S = 24 * 3600.0
COPY_MOST_BYTES = 2 << 30


class Reader:
    """A connection for reading, opened when first needed.

    Attributes:
        lock: held while it is in use; whoever holds it may close it.
    """

    def __init__(self, path: Path) -> None:
        self.lock = threading.RLock()
        self._path = path
        self._connection: sqlite3.Connection | None = None

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[sqlite3.Connection]:
        """One state of the file for several questions.

        Raises:
            sqlite3.Error: the file cannot be read.
        """
        with self.lock:
            if self._connection is None:
                self._connection = connect(self._path, read_only=True)
            self._connection.execute("BEGIN")
            try:
                # The state is fixed by the first question, not by BEGIN.
                self._connection.execute("SELECT 1 FROM conversations LIMIT 1").fetchone()
                yield self._connection
            finally:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")

    def close(self) -> None:
        """Close the connection; the next use opens it again."""
        with self.lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None


class Database:
    """See above.

    Attributes:
        reader: for what the main thread asks.
        searcher: for searches, which take longer.
        commit_lock: held while the file and the changes that wait for it change together.
    """

    def __init__(self, path: Path) -> None:
        """Open or make the file.

        Raises:
            HistoryTooNewError: a newer version of Stratum wrote it.
            sqlite3.Error, OSError: it is damaged, or cannot be read or made.
        """
        self.path = path
        self.reader, self.searcher = Reader(path), Reader(path)
        self.commit_lock = threading.Lock()
        self._writer: sqlite3.Connection | None = None
        self._copying: sqlite3.Connection | None = None
        self._may_copy = True
        path.parent.mkdir(parents=True, exist_ok=True)
        self._open_writer()

    def _open_writer(self) -> sqlite3.Connection:
        if self._writer is None:
            writer = connect(self.path)
            try:
                prepare(writer, self.path)
            except BaseException:
                writer.close()
                raise
            self._writer = writer
        return self._writer

    def write(self, batch: Pending) -> None:
        """Write changes, all or none; the caller holds `commit_lock`.

        Raises:
            sqlite3.Error: nothing was written.
        """
        write_batch(self._open_writer(), batch)

    def read_conversations(self) -> dict[str, Conversation]:
        """All conversations by id; the caller holds `commit_lock` or is alone."""
        sql = f"SELECT {CONVERSATION_COLUMNS} FROM conversations ORDER BY seq"  # noqa: S608  # our own columns
        rows = self._open_writer().execute(sql).fetchall()
        return {str(row[0]): read_conversation(row) for row in rows}

    def read_left_behind(self) -> list[Message]:
        """What was growing when the app ended, as unfinished messages; for the start."""
        writer = self._open_writer()
        sql = f"SELECT {MESSAGE_COLUMNS} FROM messages WHERE state = ?"  # noqa: S608  # our own columns
        rows = writer.execute(sql, (MessageState.GROWING.value,)).fetchall()
        return [left_behind(with_pieces(writer, read_message(row))) for row in rows]

    def close(self) -> None:
        """Let the file go."""
        self.reader.close()
        self.searcher.close()
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def repair(self, error: sqlite3.Error, take_up: Callable[[], None]) -> Problem | None:
        """Make the file usable again after an error that says it is damaged.

        A damaged index is built anew; a damaged file is set aside and replaced. None: there was
        nothing to do, or nothing that a person must know.

        Args:
            error: what was found.
            take_up: called before anybody else may write to the file, or think that all is in it.

        Raises:
            OSError, sqlite3.Error: it is still damaged, and still in its place.
        """
        with self.commit_lock, self.reader.lock, self.searcher.lock:
            if self._is_sound() and self._rebuild_index(error):
                take_up()
                return None
            logger.warning("the history is damaged: %s", error)
            self.stop_copying()
            self.close()
            problem = set_aside_and_recover(self.path)
            self._open_writer()
            take_up()
            return problem

    def _is_sound(self) -> bool:
        try:
            writer = self._open_writer()
            return bool(writer.execute("PRAGMA quick_check(1)").fetchone()[0] == "ok")
        except sqlite3.Error:
            return False

    def _rebuild_index(self, error: sqlite3.Error) -> bool:
        logger.warning("the index of the history is built anew: %s", error)
        try:
            rebuild_index(self._open_writer())
        except sqlite3.Error as failure:  # it is damaged so badly that it cannot even be dropped
            logger.warning("that failed: %s", failure)
            return False
        return True

    def keep_copy_now_and_then(self) -> None:
        """Make the second copy if the last one is old; takes its time, and no locks.

        Raises:
            sqlite3.Error: the file is damaged, or the copy cannot be written.
            OSError: the same.
        """
        copy = copy_path(self.path)
        if copy.exists() and time.time() - copy.stat().st_mtime < COPY_EVERY_S:
            return
        if self.path.stat().st_size > COPY_MOST_BYTES:
            return
        connection = self._copying = connect(self.path, read_only=True)
        try:
            if self._may_copy:
                found = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
                if found != "ok":
                    raise damage(found)
                keep_copy(connection, copy, is_wanted=lambda: self._may_copy)
        finally:
            self._copying = None
            connection.close()

    def stop_copying(self) -> None:
        """Leave a copy that is being made; the older one stays."""
        self._may_copy = False
        connection = self._copying
        if connection is not None:
            with contextlib.suppress(sqlite3.Error):  # it has just been closed
                connection.interrupt()
