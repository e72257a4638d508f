"""Deleted messages of one conversation: their text goes at once, the latest one can be brought back.

What is left of a message is its place, so that what follows it stays where it is. Its attachments are kept
as long as it can come back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from app.history.records import Message, MessageState
from app.history.store import HistoryStore
from app.history.tree import MessageTree


@dataclass(frozen=True, slots=True)
class Deleted:
    """The message that was deleted last.

    Attributes:
        message: as it was.
        active_leaf: the end of the path that was shown.
        title: of the conversation.
    """

    message: Message
    active_leaf: str | None
    title: str


class Deletions:
    """See the module; `put` replaces a message in the tree and in the store."""

    def __init__(
        self, tree: MessageTree, store: HistoryStore, put: Callable[[Message], None]
    ) -> None:
        self._tree, self._store, self._put = tree, store, put
        self._latest: Deleted | None = None

    def take_out(self, message_id: str, active_leaf: str | None, title: str) -> None:
        """Delete a message; the one before it cannot be brought back any more."""
        self.forget()
        message = self._tree.get(message_id)
        self._latest = Deleted(message, active_leaf, title)
        self._put(
            Message(
                id=message.id,
                conversation_id=message.conversation_id,
                parent_id=message.parent_id,
                role=message.role,
                state=MessageState.DELETED,
                attachments=message.attachments,
                created_at=message.created_at,
            )
        )

    def bring_back(self) -> Deleted | None:
        """Put the latest one where it was; None when there is none."""
        latest, self._latest = self._latest, None
        if latest is not None:
            self._put(latest.message)
        return latest

    def forget(self) -> None:
        """What is in deleted messages' attachments goes; they cannot be brought back any more."""
        self._latest = None
        for message in list(self._tree):
            if message.is_deleted and message.attachments:
                for attachment in message.attachments:
                    self._store.drop_attachment(attachment.id)
                self._put(replace(message, attachments=()))
