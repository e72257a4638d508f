"""Conversations as one JSON file, without loss, and back.

    {"kind": "stratum-conversations", "format": 1, "conversations": [
        {"conversation": {...}, "messages": [...], "attachments": [{"id": ..., "text": ..., "data": ...}]}]}

Pictures are Base64. What is read is checked: a file of somebody else, or of a newer version, is refused
with a sentence. An imported conversation gets new ids, so importing twice gives two.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from app.history.errors import HistoryError, ImportRefusedError
from app.history.pending import Content
from app.history.records import Attachment, Conversation, Message, MessageState, new_id
from app.history.rows import left_behind
from app.history.store import HistoryStore
from engine.core.files import replacing

KIND = "stratum-conversations"
FORMAT = 1
MAX_IMPORT_BYTES = 2 << 30


@dataclass(frozen=True, slots=True)
class StoredContent:
    """What is inside an attachment, as JSON can hold it."""

    id: str
    text: str | None = None
    data: str | None = None


@dataclass(frozen=True, slots=True)
class WholeConversation:
    """A conversation with everything that belongs to it."""

    conversation: Conversation
    messages: tuple[Message, ...] = ()
    attachments: tuple[StoredContent, ...] = ()


@dataclass(frozen=True, slots=True)
class _File:
    kind: str
    format: int
    conversations: tuple[WholeConversation, ...] = field(default=())


_HEAD = f'{{"kind": "{KIND}", "format": {FORMAT}, "conversations": [\n'.encode()
_TAIL = b"\n]}\n"

_WHOLE = TypeAdapter(WholeConversation)
_FILE = TypeAdapter(_File)


def gather(store: HistoryStore, conversation_id: str) -> WholeConversation:
    """A conversation from the store.

    Raises:
        HistoryError: it cannot be read.
    """
    conversation = store.conversation(conversation_id)
    messages = tuple(
        left_behind(message) if message.state is MessageState.GROWING else message
        for message in store.tree(conversation_id)
    )
    contents: list[StoredContent] = []
    for attachment in _attachments(conversation, messages):
        content = store.attachment(attachment.id)
        if content is not None:
            data = base64.b64encode(content.data).decode() if content.data is not None else None
            contents.append(StoredContent(attachment.id, content.text, data))
    return WholeConversation(conversation, messages, tuple(contents))


def _attachments(conversation: Conversation, messages: Iterable[Message]) -> Iterator[Attachment]:
    seen: set[str] = set()
    for group in (
        conversation.draft.attachments,
        *(m.attachments for m in messages if not m.is_deleted),
    ):
        for attachment in group:
            if attachment.id not in seen:
                seen.add(attachment.id)
                yield attachment


def export_json(store: HistoryStore, path: Path, conversation_ids: Sequence[str]) -> None:
    """Write conversations to a file, one after the other; the file is there as a whole or not at all.

    Raises:
        HistoryError: one cannot be read.
        ResourceError: the file cannot be written.
    """
    with replacing(path) as file:
        file.write(_HEAD)
        for index, conversation_id in enumerate(conversation_ids):
            if index:
                file.write(b",\n")
            file.write(_WHOLE.dump_json(gather(store, conversation_id)))
        file.write(_TAIL)


def read_json(path: Path) -> tuple[WholeConversation, ...]:
    """The conversations of a file.

    Raises:
        ImportRefusedError: it is not ours, damaged, or of a newer version.
    """
    try:
        if path.stat().st_size > MAX_IMPORT_BYTES:
            raise _refused(path, "it is larger than 2 GB")
        raw = path.read_bytes()
    except OSError as error:
        raise _refused(path, error.strerror or str(error)) from error
    own = _read_lines(raw)
    if own is not None:
        return own
    try:
        head = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise _refused(path, "it is not valid JSON") from error
    if not isinstance(head, dict) or head.get("kind") != KIND:
        raise _refused(path, "it holds no conversations of Stratum")
    found = head.get("format")
    if isinstance(found, int) and found > FORMAT:
        raise ImportRefusedError(
            f"{path.name} was written by a newer version of Stratum. Update Stratum to import it.",
            code="import_too_new",
            params={"path": str(path), "found": found},
        )
    try:
        return _FILE.validate_python(head).conversations
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise _refused(path, f"{where}: {first['msg']}") from error


def _read_lines(raw: bytes) -> tuple[WholeConversation, ...] | None:
    """A file as `export_json` writes it, one conversation a line; None when it is written otherwise.

    Taking each line by itself lets the windows live meanwhile: parsing holds all threads up.
    """
    if not raw.startswith(_HEAD) or not raw.endswith(_TAIL):
        return None
    body = raw[len(_HEAD) : -len(_TAIL)]
    try:
        return tuple(_WHOLE.validate_json(line) for line in body.split(b",\n") if line)
    except ValidationError:
        return None  # whatever is wrong is found and named by the other way


def _refused(path: Path, reason: str) -> ImportRefusedError:
    return ImportRefusedError(
        f"{path.name} cannot be imported ({reason}). Choose a file that Stratum has exported.",
        params={"path": str(path), "reason": reason},
    )


def add_to_store(store: HistoryStore, whole: WholeConversation) -> str:
    """Put a conversation into the store under new ids; its new id."""
    fresh = renumbered(whole)
    for content in fresh.attachments:
        store.put_attachment(content.id, _content(fresh.conversation.id, content))
    for message in fresh.messages:
        store.put_message(message)
    store.put_conversation(fresh.conversation, is_urgent=True)
    return fresh.conversation.id


def renumbered(whole: WholeConversation) -> WholeConversation:
    """The same with new ids everywhere; parents that are not in it become None."""
    ids: dict[str, str] = {message.id: new_id() for message in whole.messages}
    contents = {content.id: new_id() for content in whole.attachments}
    conversation_id = new_id()

    def moved(attachments: tuple[Attachment, ...]) -> tuple[Attachment, ...]:
        return tuple(replace(a, id=contents.get(a.id) or new_id()) for a in attachments)

    messages = tuple(
        replace(
            left_behind(message) if message.state is MessageState.GROWING else message,
            id=ids[message.id],
            conversation_id=conversation_id,
            parent_id=ids.get(message.parent_id) if message.parent_id is not None else None,
            attachments=moved(message.attachments),
        )
        for message in whole.messages
    )
    old = whole.conversation
    leaf = ids.get(old.active_leaf) if old.active_leaf is not None else None
    if leaf is None and messages:
        leaf = messages[-1].id
    conversation = replace(
        old,
        id=conversation_id,
        active_leaf=leaf,
        draft=replace(old.draft, attachments=moved(old.draft.attachments)),
        deleted_at=None,
    )
    return WholeConversation(
        conversation,
        messages,
        tuple(replace(content, id=contents[content.id]) for content in whole.attachments),
    )


def _content(conversation_id: str, content: StoredContent) -> Content:
    data = None
    if content.data is not None:
        try:
            data = base64.b64decode(content.data, validate=True)
        except (binascii.Error, ValueError) as error:
            raise HistoryError(
                "A picture in the file is damaged.", code="import_refused"
            ) from error
    return Content(conversation_id, content.text, data)
