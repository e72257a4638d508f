"""Writes a batch of changes into the database, in one transaction."""

from __future__ import annotations

import sqlite3

from app.history.pending import Content, Pending
from app.history.records import Conversation, Message, MessageState
from app.history.rows import (
    CONVERSATION_COLUMNS,
    MESSAGE_COLUMNS,
    conversation_row,
    message_row,
    read_message,
    storable,
)
from app.history.schema import INDEXES
from app.history.search_text import MAX_INDEXED_CHARS, indexed


def _upsert(table: str, columns: str) -> str:
    names = [name.strip() for name in columns.split(",")]
    values = ", ".join("?" for _ in names)
    changes = ", ".join(f"{name} = excluded.{name}" for name in names[1:])
    return (
        f"INSERT INTO {table}({columns}) VALUES({values}) "  # names of our own tables
        f"ON CONFLICT(id) DO UPDATE SET {changes} RETURNING seq"
    )


PUT_CONVERSATION = _upsert("conversations", CONVERSATION_COLUMNS)
PUT_MESSAGE = _upsert("messages", MESSAGE_COLUMNS)
PUT_ATTACHMENT = _upsert("attachments", "id, conversation_id, text, data")

REMOVALS = (
    "DELETE FROM found_messages WHERE rowid IN (SELECT seq FROM messages WHERE conversation_id = ?)",
    "DELETE FROM found_titles WHERE rowid IN (SELECT seq FROM conversations WHERE id = ?)",
    "DELETE FROM pieces WHERE message_id IN (SELECT id FROM messages WHERE conversation_id = ?)",
    "DELETE FROM attachments WHERE conversation_id = ?",
    "DELETE FROM messages WHERE conversation_id = ?",
    "DELETE FROM conversations WHERE id = ?",
)


def write_batch(connection: sqlite3.Connection, batch: Pending) -> None:
    """Write everything, or nothing.

    Raises:
        sqlite3.Error: nothing was written.
    """
    connection.execute("BEGIN IMMEDIATE")
    try:
        for attachment_id, content in batch.attachments.items():
            _put_attachment(connection, attachment_id, content)
        for conversation in batch.conversations.values():
            _put_conversation(connection, conversation)
        for message in batch.messages.values():
            _put_message(connection, message)
        connection.executemany(
            "INSERT INTO pieces(message_id, is_thinking, text) VALUES(?, ?, ?)",
            [
                (message_id, piece.is_thinking, storable(piece.text))
                for message_id, pieces in batch.pieces.items()
                for piece in pieces
            ],
        )
        connection.executemany(
            "DELETE FROM attachments WHERE id = ?", [(dropped,) for dropped in batch.dropped]
        )
        for conversation_id in batch.purged:
            for removal in REMOVALS:
                connection.execute(removal, (conversation_id,))
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # SQLite may have rolled back by itself
            connection.execute("ROLLBACK")
        raise


def _put_attachment(connection: sqlite3.Connection, attachment_id: str, content: Content) -> None:
    text = storable(content.text) if content.text is not None else None
    row = (attachment_id, content.conversation_id, text, content.data)
    connection.execute(PUT_ATTACHMENT, row).fetchone()


def _put_conversation(connection: sqlite3.Connection, conversation: Conversation) -> None:
    seq = connection.execute(PUT_CONVERSATION, conversation_row(conversation)).fetchone()[0]
    connection.execute("DELETE FROM found_titles WHERE rowid = ?", (seq,))
    if conversation.title:
        body = indexed(storable(conversation.title))
        connection.execute("INSERT INTO found_titles(rowid, body) VALUES(?, ?)", (seq, body))


def _put_message(connection: sqlite3.Connection, message: Message) -> None:
    seq = connection.execute(PUT_MESSAGE, message_row(message)).fetchone()[0]
    if message.state is MessageState.GROWING:
        return
    connection.execute("DELETE FROM pieces WHERE message_id = ?", (message.id,))
    connection.execute("DELETE FROM found_messages WHERE rowid = ?", (seq,))
    body = indexed(searchable(connection, message))
    if body.strip():
        connection.execute("INSERT INTO found_messages(rowid, body) VALUES(?, ?)", (seq, body))


def rebuild_index(connection: sqlite3.Connection) -> None:
    """Make the full-text index anew from what is in the tables.

    Raises:
        sqlite3.Error: the old index is still there.
    """
    connection.execute("BEGIN IMMEDIATE")
    try:
        for name in ("found_messages", "found_titles"):
            connection.execute(f"DROP TABLE IF EXISTS {name}")
        for statement in INDEXES:
            connection.execute(statement)
        titles = connection.execute("SELECT seq, title FROM conversations").fetchall()
        connection.executemany(
            "INSERT INTO found_titles(rowid, body) VALUES(?, ?)",
            [(seq, indexed(title)) for seq, title in titles],
        )
        sql = f"SELECT seq, {MESSAGE_COLUMNS} FROM messages WHERE state != 'growing'"  # noqa: S608  # our own columns
        for seq, *columns in connection.execute(sql):
            body = indexed(searchable(connection, read_message(columns)))
            connection.execute("INSERT INTO found_messages(rowid, body) VALUES(?, ?)", (seq, body))
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def searchable(connection: sqlite3.Connection, message: Message) -> str:
    """All text by which a message is found: its own, and its attachments' names and texts."""
    if message.is_deleted:
        return ""
    parts = [storable(message.text)]
    for attachment in message.attachments:
        parts.append(storable(attachment.name))
        sql = "SELECT substr(text, 1, ?) FROM attachments WHERE id = ?"
        row = connection.execute(sql, (MAX_INDEXED_CHARS, attachment.id)).fetchone()
        if row is not None and isinstance(row[0], str):
            parts.append(row[0])
    return "\n".join(parts)
