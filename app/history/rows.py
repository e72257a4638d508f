"""Records as rows of the tables, and back. Reading is tolerant: a row that is odd still gives a record."""

from __future__ import annotations

import json
import logging
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

from app.history.records import (
    Attachment,
    Conversation,
    ConversationSettings,
    Draft,
    Message,
    MessageState,
    MessageStats,
    Problem,
    Role,
    ToolCall,
    ToolState,
)

logger = logging.getLogger(__name__)

CONVERSATION_COLUMNS = (
    "id, title, has_own_title, active_leaf, settings, draft, created_at, updated_at, deleted_at"
)
MESSAGE_COLUMNS = "id, conversation_id, parent_id, role, text, thinking, state, details, created_at"

T = TypeVar("T")
Row = Sequence[object]


@dataclass(frozen=True, slots=True)
class _Details:
    """What of a message is kept as JSON, because nothing looks for it."""

    thinking_s: float = 0.0
    problem: Problem | None = None
    notes: tuple[str, ...] = ()
    tool_calls: tuple[ToolCall, ...] = ()
    attachments: tuple[Attachment, ...] = ()
    stats: MessageStats | None = None


_DETAILS = TypeAdapter(_Details)
_SETTINGS = TypeAdapter(ConversationSettings)
_DRAFT = TypeAdapter(Draft)


def storable(text: str) -> str:
    """The text without halves of surrogate pairs, which no file can hold."""
    return text.encode("utf-8", "replace").decode("utf-8")


def conversation_row(conversation: Conversation) -> tuple[object, ...]:
    """The values of `CONVERSATION_COLUMNS`."""
    return (
        conversation.id,
        storable(conversation.title),
        conversation.has_own_title,
        conversation.active_leaf,
        storable(_plain(_SETTINGS.dump_python(conversation.settings, mode="json"))),
        storable(_plain(_DRAFT.dump_python(conversation.draft, mode="json"))),
        conversation.created_at,
        conversation.updated_at,
        conversation.deleted_at,
    )


def read_conversation(row: Row) -> Conversation:
    """The record of a row."""
    conversation_id, title, has_own_title, active_leaf, settings, draft, created, updated, gone = (
        row
    )
    return Conversation(
        id=str(conversation_id),
        title=_text(title),
        has_own_title=bool(has_own_title),
        active_leaf=str(active_leaf) if active_leaf is not None else None,
        settings=_read(_SETTINGS, settings, ConversationSettings()),
        draft=_read(_DRAFT, draft, Draft()),
        created_at=_number(created),
        updated_at=_number(updated),
        deleted_at=_number(gone) if gone is not None else None,
    )


def message_row(message: Message) -> tuple[object, ...]:
    """The values of `MESSAGE_COLUMNS`."""
    details = _Details(
        message.thinking_s,
        message.problem,
        message.notes,
        message.tool_calls,
        message.attachments,
        message.stats,
    )
    return (
        message.id,
        message.conversation_id,
        message.parent_id,
        message.role.value,
        storable(message.text),
        storable(message.thinking),
        message.state.value,
        storable(_plain(_DETAILS.dump_python(details, mode="json"))),
        message.created_at,
    )


def read_message(row: Row) -> Message:
    """The record of a row."""
    message_id, conversation_id, parent_id, role, text, thinking, state, details, created = row
    more = _read(_DETAILS, details, _Details())
    known_role = next((known for known in Role if known == role), Role.USER)
    unfinished = MessageState.UNFINISHED
    known_state = next((known for known in MessageState if known == state), unfinished)
    return Message(
        id=str(message_id),
        conversation_id=str(conversation_id),
        parent_id=str(parent_id) if parent_id is not None else None,
        role=known_role,
        text=_text(text),
        thinking=_text(thinking),
        thinking_s=more.thinking_s,
        state=known_state,
        problem=more.problem,
        notes=more.notes,
        tool_calls=more.tool_calls,
        attachments=more.attachments,
        stats=more.stats,
        created_at=_number(created),
    )


def left_behind(message: Message) -> Message:
    """A message that was growing when the app ended: unfinished, with what had arrived."""
    open_states = (ToolState.WRITING, ToolState.ASKING, ToolState.RUNNING)
    calls = tuple(
        replace(call, state=ToolState.LOST) if call.state in open_states else call
        for call in message.tool_calls
    )
    notes = (*message.notes, "interrupted")
    return replace(message, state=MessageState.UNFINISHED, tool_calls=calls, notes=notes)


def with_pieces(connection: sqlite3.Connection, message: Message) -> Message:
    """A growing message with what has been saved of its growth."""
    parts: tuple[list[str], list[str]] = ([], [])
    sql = "SELECT is_thinking, text FROM pieces WHERE message_id = ? ORDER BY seq"
    for is_thinking, text in connection.execute(sql, (message.id,)):
        parts[bool(is_thinking)].append(_text(text))
    return replace(
        message,
        text=message.text + "".join(parts[0]),
        thinking=message.thinking + "".join(parts[1]),
    )


def _plain(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _read(adapter: TypeAdapter[T], content: object, fallback: T) -> T:
    try:
        return adapter.validate_json(_text(content))
    except ValidationError:
        logger.warning("a row of the history has details that cannot be read; defaults are used")
        return fallback


def _text(value: object) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return value if isinstance(value, str) else ""


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
