"""Finds conversations and messages in the file."""

from __future__ import annotations

import sqlite3

from app.history.records import SearchHit
from app.history.rows import MESSAGE_COLUMNS, read_message
from app.history.search_text import Query, find_terms, folded, read_query, snippet
from app.history.writing import searchable

TITLES = """
SELECT c.id, c.title, c.updated_at FROM found_titles f JOIN conversations c ON c.seq = f.rowid
WHERE found_titles MATCH ? AND c.deleted_at IS NULL ORDER BY c.updated_at DESC LIMIT ?
"""
ALL_TITLES = """
SELECT c.id, c.title, c.updated_at FROM conversations c
WHERE c.deleted_at IS NULL AND instr(lower(c.title), ?) ORDER BY c.updated_at DESC LIMIT ?
"""
MESSAGES = f"""
SELECT c.title, {", ".join("m." + name.strip() for name in MESSAGE_COLUMNS.split(","))}
FROM found_messages f JOIN messages m ON m.seq = f.rowid JOIN conversations c ON c.id = m.conversation_id
WHERE found_messages MATCH ? AND c.deleted_at IS NULL ORDER BY f.rowid DESC LIMIT ?
"""  # noqa: S608  # our own columns
ALL_MESSAGES = MESSAGES.replace("found_messages MATCH ?", "instr(lower(m.text), ?)")

# Signs are looked for in the text itself: more rows are fetched than are shown.
SIGNS_FACTOR = 10


def search_file(connection: sqlite3.Connection, query: str, limit: int) -> list[SearchHit]:
    """Titles first, then messages, each the latest first.

    Raises:
        sqlite3.Error: the file cannot be read.
    """
    wanted = read_query(query)
    if wanted is None:
        return []
    return [*_titles(connection, wanted, limit), *_messages(connection, wanted, limit)][:limit]


def _titles(connection: sqlite3.Connection, query: Query, limit: int) -> list[SearchHit]:
    sql, value = (TITLES, query.match) if query.match else (ALL_TITLES, query.terms[0])
    hits: list[SearchHit] = []
    for conversation_id, title, when in connection.execute(sql, (value, _fetched(query, limit))):
        if not _has_signs(title, query):
            continue
        marks = tuple(find_terms(title, query.terms))
        hits.append(SearchHit(conversation_id, None, title, title, marks, 0, when))
    return hits[:limit]


def _messages(connection: sqlite3.Connection, query: Query, limit: int) -> list[SearchHit]:
    sql, value = (MESSAGES, query.match) if query.match else (ALL_MESSAGES, query.terms[0])
    hits: list[SearchHit] = []
    # Fetched before anything else is asked on this connection.
    rows = connection.execute(sql, (value, _fetched(query, limit))).fetchall()
    for title, *columns in rows:
        if len(hits) == limit:
            break
        message = read_message(columns)
        text = searchable(connection, message) if message.attachments else message.text
        if not _has_signs(text, query):
            continue
        piece = snippet(text, query.terms)
        hits.append(
            SearchHit(
                message.conversation_id,
                message.id,
                title,
                piece.text,
                piece.marks,
                piece.offset,
                message.created_at,
            )
        )
    return hits


def _fetched(query: Query, limit: int) -> int:
    return limit * SIGNS_FACTOR if query.signs else limit


def _has_signs(text: str, query: Query) -> bool:
    if not query.signs:
        return True
    plain = folded(text)
    return all(sign in plain for sign in query.signs)
