"""The tables of the history, and how an older file becomes a newer one.

`PRAGMA user_version` is the format. An older file is copied to `NAME.bak` before it is migrated; a
newer one is refused. Texts are found through two FTS5 tables whose rows have the `seq` of what they
describe; how a text is prepared for them is `search_text.py`'s business.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from pathlib import Path

from app.history.errors import HistoryTooNewError

FORMAT = 1
APPLICATION_ID = 0x53545248  # "STRH": `file` and others can tell what it is

# How long a write waits for another program that holds the file, such as a backup.
BUSY_S = 5.0

TABLES = """
CREATE TABLE conversations(
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    title TEXT NOT NULL,
    has_own_title INTEGER NOT NULL,
    active_leaf TEXT,
    settings TEXT NOT NULL,
    draft TEXT NOT NULL,
    created_at REAL NOT NULL,
    updated_at REAL NOT NULL,
    deleted_at REAL
);
CREATE TABLE messages(
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    conversation_id TEXT NOT NULL,
    parent_id TEXT,
    role TEXT NOT NULL,
    text TEXT NOT NULL,
    thinking TEXT NOT NULL,
    state TEXT NOT NULL,
    details TEXT NOT NULL,
    created_at REAL NOT NULL
);
CREATE INDEX messages_of_conversation ON messages(conversation_id, seq);
CREATE INDEX messages_growing ON messages(state) WHERE state = 'growing';
CREATE TABLE pieces(
    seq INTEGER PRIMARY KEY,
    message_id TEXT NOT NULL,
    is_thinking INTEGER NOT NULL,
    text TEXT NOT NULL
);
CREATE INDEX pieces_of_message ON pieces(message_id, seq);
CREATE TABLE attachments(
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    conversation_id TEXT NOT NULL,
    text TEXT,
    data BLOB
);
CREATE INDEX attachments_of_conversation ON attachments(conversation_id);
"""

INDEXES = tuple(
    f'CREATE VIRTUAL TABLE {name} USING fts5(body, tokenize = "unicode61 remove_diacritics 2")'
    for name in ("found_messages", "found_titles")
)

Migration = Callable[[sqlite3.Connection], None]

# From a format to the next one.
MIGRATIONS: Mapping[int, Migration] = {}


def connect(path: Path, *, read_only: bool = False) -> sqlite3.Connection:
    """A connection that any thread may use, one at a time; its user holds a lock.

    Raises:
        sqlite3.Error: the file cannot be opened.
    """
    connection = sqlite3.connect(
        path, timeout=BUSY_S, isolation_level=None, check_same_thread=False
    )
    try:
        # A crash of the app loses nothing with either; FULL holds for a power cut too.
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA secure_delete = ON")
        if read_only:
            connection.execute("PRAGMA query_only = ON")
        else:
            connection.execute("PRAGMA journal_mode = WAL").fetchone()
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def prepare(
    connection: sqlite3.Connection,
    path: Path,
    *,
    newest: int = FORMAT,
    migrations: Mapping[int, Migration] = MIGRATIONS,
) -> None:
    """Make the tables of a new file, or bring an older one to the newest format.

    Raises:
        HistoryTooNewError: it was written by a newer version; it is left as it is.
        sqlite3.Error: it is damaged, or cannot be written.
    """
    found = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if found == newest:
        # Reads the schema, and so finds a damaged one.
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        return
    if found > newest:
        raise HistoryTooNewError(
            f"The conversations in {path} were saved by a newer version of Stratum (format {found}; "
            f"this one knows {newest}). Update Stratum to see them; they are left as they are.",
            params={"path": str(path), "found": found, "newest": newest},
        )
    has_tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if found == 0 and not has_tables:
        _in_one_step(connection, _create, newest)
        return
    keep_copy(connection, path.with_name(path.name + ".bak"))
    for version in range(found, newest):
        _in_one_step(connection, migrations[version], version + 1)


class _UnwantedError(Exception):
    """A copy is not wanted any more."""


def keep_copy(
    connection: sqlite3.Connection, target: Path, is_wanted: Callable[[], bool] = lambda: True
) -> None:
    """A copy of the whole database, what is only in its journal included; it replaces `target`.

    Args:
        connection: of the database.
        target: the copy.
        is_wanted: asked now and then; when it says no, `target` stays as it was.

    Raises:
        sqlite3.Error, OSError: it cannot be written.
    """
    unfinished = target.with_name(target.name + ".tmp")
    unfinished.unlink(missing_ok=True)
    copy = sqlite3.connect(unfinished)

    def look(_status: int, _remaining: int, _total: int) -> None:
        if not is_wanted():
            raise _UnwantedError

    try:
        connection.backup(copy, pages=512, progress=look, sleep=0.0)
    except _UnwantedError:
        return
    finally:
        copy.close()
    unfinished.replace(target)


def _create(connection: sqlite3.Connection) -> None:
    for statement in (*TABLES.strip().split(";\n"), *INDEXES):
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")


def _in_one_step(connection: sqlite3.Connection, change: Migration, version: int) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        change(connection)
        connection.execute(f"PRAGMA user_version = {version}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
