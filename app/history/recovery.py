"""A damaged file is set aside, never deleted, and what can be read of it goes into a new one.

SQLite stops at the first damaged page; here each table is read from both ends and, between them, from
wherever it can be read again. What is missing after that is taken from the second copy of the file.
"""

from __future__ import annotations

import contextlib
import logging
import sqlite3
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from app.history.pending import Content, Pending
from app.history.records import Conversation, Message, MessageState, Problem, Role
from app.history.rows import (
    CONVERSATION_COLUMNS,
    MESSAGE_COLUMNS,
    left_behind,
    read_conversation,
    read_message,
)
from app.history.schema import connect, prepare
from app.history.titles import title_of
from app.history.writing import write_batch
from engine.core.files import rename_patiently

logger = logging.getLogger(__name__)

COMPANIONS = ("-wal", "-shm")
ROWS_AT_ONCE = 50
CLOSE_ROWS = 64
BATCH_ROWS = 500
ATTACHMENTS_AT_ONCE = 20


def copy_path(path: Path) -> Path:
    """Where the second copy of a history file is."""
    return path.with_name(path.stem + ".copy" + path.suffix)


@dataclass(slots=True)
class Found:
    """What could be read.

    Attributes:
        is_complete: no row is known to be missing.
    """

    conversations: dict[str, Conversation] = field(default_factory=dict)
    messages: dict[str, Message] = field(default_factory=dict)
    is_complete: bool = True


def set_aside_and_recover(path: Path) -> Problem:
    """Put a new file in the place of a damaged one; what to tell the person.

    Raises:
        OSError, sqlite3.Error: there is no room, or the file is held; then it is back in its place.
    """
    aside = _free_name(path)
    moved = _move(path, aside)
    fresh = path.with_name(path.name + ".recovering")
    try:
        for leftover in (fresh, *(fresh.with_name(fresh.name + end) for end in COMPANIONS)):
            leftover.unlink(missing_ok=True)
        found = _rebuild(aside, copy_path(path), fresh)
        rename_patiently(fresh, path)
    except BaseException:
        for source, target in moved:
            with contextlib.suppress(OSError):
                target.replace(source)
        raise
    return _report(path, aside, found)


def _free_name(path: Path) -> Path:
    stamp = time.strftime("%Y%m%d-%H%M%S")
    for number in range(1000):
        extra = f"-{number}" if number else ""
        candidate = path.with_name(f"{path.stem}.damaged-{stamp}{extra}{path.suffix}")
        if not candidate.exists():
            return candidate
    raise FileExistsError(f"{path.parent} is full of damaged files.")


def _move(path: Path, aside: Path) -> list[tuple[Path, Path]]:
    moved = []
    for end in ("", *COMPANIONS):
        source, target = path.with_name(path.name + end), aside.with_name(aside.name + end)
        if source.exists():
            rename_patiently(source, target)
            moved.append((source, target))
    return moved


def _report(path: Path, aside: Path, found: Found) -> Problem:
    params: dict[str, str | int | float | bool | None] = {
        "path": str(path),
        "aside": aside.name,
        "conversations": len(found.conversations),
        "messages": len(found.messages),
    }
    if found.is_complete:
        return Problem(
            "history_repaired",
            f"The file with the conversations was damaged. All {len(found.conversations)} "
            f"conversations could be read; the damaged file is kept as {aside.name}.",
            params,
        )
    return Problem(
        "history_recovered",
        f"The file with the conversations was damaged. {len(found.conversations)} conversations with "
        f"{len(found.messages)} messages could be saved from it, others are lost. The damaged file is "
        f"kept as {aside.name}.",
        params,
    )


def _rebuild(aside: Path, copy: Path, fresh: Path) -> Found:
    """Write what the damaged file, and its older copy, still have into a new file."""
    connection = connect(fresh)
    try:
        prepare(connection, fresh)
        found = Found()
        _take_from(aside, connection, found)
        if not found.is_complete and copy.exists():
            _take_from(copy, connection, found)
            found.is_complete = False
        _adopt_orphans(connection, found)
        # Everything into the one file that takes the other's place.
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    finally:
        connection.close()
    return found


def _take_from(source: Path, target: sqlite3.Connection, found: Found) -> None:
    """Add what a file has and `found` has not."""
    try:
        damaged = sqlite3.connect(f"{source.resolve().as_uri()}?mode=ro", uri=True)
    except sqlite3.Error:
        found.is_complete = False
        return
    damaged.text_factory = lambda raw: raw.decode("utf-8", "replace")
    rows = _DamagedFile(damaged)
    try:
        _take_conversations(rows, target, found)
        _take_attachments(rows, target)
        _take_messages(rows, target, found)
    finally:
        damaged.close()
    found.is_complete = found.is_complete and rows.is_complete


def _take_conversations(rows: _DamagedFile, target: sqlite3.Connection, found: Found) -> None:
    batch = Pending()
    for row in rows.read("conversations", CONVERSATION_COLUMNS):
        conversation = read_conversation(row)
        if conversation.id not in found.conversations:
            found.conversations[conversation.id] = conversation
            batch.conversations[conversation.id] = conversation
    write_batch(target, batch)


def _take_attachments(rows: _DamagedFile, target: sqlite3.Connection) -> None:
    batch = Pending()
    for attachment_id, conversation_id, text, data in rows.read(
        "attachments", "id, conversation_id, text, data"
    ):
        known = "SELECT 1 FROM attachments WHERE id = ?"
        if target.execute(known, (attachment_id,)).fetchone() is None:
            content = Content(
                str(conversation_id),
                text if isinstance(text, str) else None,
                data if isinstance(data, bytes) else None,
            )
            batch.attachments[str(attachment_id)] = content
        if len(batch.attachments) >= ATTACHMENTS_AT_ONCE:
            write_batch(target, batch)
            batch = Pending()
    write_batch(target, batch)


def _take_messages(rows: _DamagedFile, target: sqlite3.Connection, found: Found) -> None:
    parts: dict[str, tuple[list[str], list[str]]] = {}
    for message_id, is_thinking, text in rows.read("pieces", "message_id, is_thinking, text"):
        parts.setdefault(str(message_id), ([], []))[bool(is_thinking)].append(str(text))
    batch = Pending()
    for row in rows.read("messages", MESSAGE_COLUMNS):
        message = read_message(row)
        if message.id in found.messages:
            continue
        if message.state is MessageState.GROWING:
            text, thinking = parts.get(message.id, ([], []))
            message = left_behind(
                replace(
                    message,
                    text=message.text + "".join(text),
                    thinking=message.thinking + "".join(thinking),
                )
            )
        found.messages[message.id] = message
        batch.messages[message.id] = message
        if len(batch.messages) >= BATCH_ROWS:
            write_batch(target, batch)
            batch = Pending()
    write_batch(target, batch)


def _adopt_orphans(target: sqlite3.Connection, found: Found) -> None:
    """Give messages whose conversation is lost a new one; show the newest of each."""
    batch = Pending()
    newest: dict[str, Message] = {}
    for message in found.messages.values():
        newest[message.conversation_id] = message
        if message.conversation_id not in found.conversations:
            is_users = message.role is Role.USER
            found.conversations[message.conversation_id] = Conversation(
                id=message.conversation_id,
                title=title_of(message.text) if is_users else "",
                created_at=message.created_at,
                updated_at=message.created_at,
            )
    for conversation_id, conversation in list(found.conversations.items()):
        last = newest.get(conversation_id)
        if last is not None and conversation.active_leaf not in found.messages:
            found.conversations[conversation_id] = replace(conversation, active_leaf=last.id)
        batch.conversations[conversation_id] = found.conversations[conversation_id]
    write_batch(target, batch)


class _DamagedFile:
    """Reads the tables of a file of which parts cannot be read.

    Attributes:
        is_complete: no table had a gap.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.is_complete = True
        self._connection = connection

    def read(self, table: str, columns: str) -> Iterator[tuple[object, ...]]:
        """The rows of a table, in order, without those that cannot be read."""
        last = self._last(table)
        start = 0  # the first row that is still wanted
        while last is not None and start <= last:
            rows, is_whole = self._some(table, columns, start, ROWS_AT_ONCE)
            for row in rows:
                start = int(str(row[0])) + 1
                yield row[1:]
            if not is_whole:
                self.is_complete = False
                behind = self._behind_gap(table, columns, start, last)
                if behind is None:
                    return
                start = int(str(behind[0])) + 1
                yield behind[1:]
            elif not rows:
                return

    def _last(self, table: str) -> int | None:
        """The last row that can be reached; None when the table is empty or lost."""
        sql = f"SELECT seq FROM {table} ORDER BY seq DESC LIMIT 1"  # noqa: S608  # our own tables
        try:
            row = self._connection.execute(sql).fetchone()
        except sqlite3.Error:
            self.is_complete = False
        else:
            return int(row[0]) if row is not None else None
        # The end itself is damaged: look for the last row that answers.
        low, high = 0, 1 << 40
        while low < high:
            middle = (low + high + 1) // 2
            if self._some(table, "seq", middle, 1)[0]:
                low = middle
            else:
                high = middle - 1
        return low or None

    def _some(
        self, table: str, columns: str, start: int, limit: int
    ) -> tuple[list[tuple[object, ...]], bool]:
        """Rows from this one on, and whether they could be read to their end."""
        sql = f"SELECT seq, {columns} FROM {table} WHERE seq >= ? ORDER BY seq LIMIT ?"  # noqa: S608  # our own tables
        rows: list[tuple[object, ...]] = []
        try:
            rows.extend(self._connection.execute(sql, (start, limit)))
        except (sqlite3.Error, OverflowError):
            return rows, False
        return rows, True

    def _behind_gap(
        self, table: str, columns: str, start: int, last: int
    ) -> tuple[object, ...] | None:
        """The first row at or behind `start` that can be read; None when there is none."""
        probe, step, bad = start, 1, start - 1
        found: tuple[object, ...] | None = None
        while found is None and probe <= last:
            rows, _ = self._some(table, columns, probe, 1)
            if rows:
                found = rows[0]
            else:
                bad = probe
                # Most gaps are a page of a few rows; a lost branch of the tree has thousands.
                step = 1 if probe - start < CLOSE_ROWS else step * 2
                probe += step
        good = probe
        while found is not None and bad + 1 < good:
            middle = (bad + good) // 2
            rows, _ = self._some(table, columns, middle, 1)
            if rows:
                good, found = middle, rows[0]
            else:
                bad = middle
        return found
