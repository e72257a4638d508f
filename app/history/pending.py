"""What has changed and is not on disk yet.

Not a queue of steps but the latest state of everything that changed: writing it twice, or later, or
after a failure, gives the same file. A batch is taken, written in one transaction, and only then
removed; what changed meanwhile stays.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from app.history.records import Conversation, Message, MessageState

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Content:
    """What is inside an attachment: the text that is sent, or the bytes of a picture."""

    conversation_id: str
    text: str | None = None
    data: bytes | None = None


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a growing answer."""

    is_thinking: bool
    text: str


@dataclass(slots=True)
class Pending:
    """See above. Whoever uses it holds the store's lock.

    Attributes:
        conversations: by id.
        messages: by id, in the order of their first change: parents come before children.
        pieces: by message id, in the order in which they came.
        attachments: by id.
        purged: ids of conversations to remove from the file.
        dropped: ids of attachments to remove from the file.
    """

    conversations: dict[str, Conversation] = field(default_factory=dict)
    messages: dict[str, Message] = field(default_factory=dict)
    pieces: dict[str, list[Piece]] = field(default_factory=dict)
    attachments: dict[str, Content] = field(default_factory=dict)
    purged: set[str] = field(default_factory=set)
    dropped: set[str] = field(default_factory=set)

    def __bool__(self) -> bool:
        changed = self.conversations or self.messages or self.pieces or self.attachments
        return bool(changed or self.purged or self.dropped)

    def copy(self) -> Pending:
        """A batch to write."""
        return Pending(
            dict(self.conversations),
            dict(self.messages),
            {message_id: list(pieces) for message_id, pieces in self.pieces.items()},
            dict(self.attachments),
            set(self.purged),
            set(self.dropped),
        )

    def remove(self, written: Pending) -> None:
        """Forget a batch that is on disk, except for what changed since it was taken."""
        _remove_same(self.conversations, written.conversations)
        _remove_same(self.messages, written.messages)
        _remove_same(self.attachments, written.attachments)
        self.purged -= written.purged
        self.dropped -= written.dropped
        for message_id, pieces in written.pieces.items():
            if message_id in self.pieces:
                del self.pieces[message_id][: len(pieces)]
                if not self.pieces[message_id]:
                    del self.pieces[message_id]

    def put_message(self, message: Message) -> None:
        """Note a message; the pieces of one that has ended are part of its text."""
        self.messages[message.id] = message
        if message.state is not MessageState.GROWING:
            self.pieces.pop(message.id, None)

    def purge(self, conversation_id: str) -> None:
        """Note that a conversation is to be removed, with all that waits for it."""
        self.conversations.pop(conversation_id, None)
        for message in list(self.messages_of(conversation_id)):
            del self.messages[message.id]
            self.pieces.pop(message.id, None)
        for key, content in list(self.attachments.items()):
            if content.conversation_id == conversation_id:
                del self.attachments[key]
        self.purged.add(conversation_id)

    def parts(self, message_id: str) -> tuple[str, str]:
        """Text and thinking of a growing message that are not on disk yet."""
        pieces = self.pieces.get(message_id, [])
        text = "".join(piece.text for piece in pieces if not piece.is_thinking)
        return text, "".join(piece.text for piece in pieces if piece.is_thinking)

    def messages_of(self, conversation_id: str) -> Iterator[Message]:
        """The changed messages of a conversation."""
        for message in self.messages.values():
            if message.conversation_id == conversation_id:
                yield message


def _remove_same(current: dict[str, T], written: dict[str, T]) -> None:
    for key, value in written.items():
        if current.get(key) is value:
            del current[key]
