"""The messages of one conversation as a tree, in memory.

    tree.path(leaf_id)        from the root to that leaf: what is shown, and what is sent
    tree.siblings(message_id) the versions of one message, oldest first, itself included

A deleted message stays as a place in the tree, so what follows it keeps its parent; it is neither shown
nor sent, and the versions beside it are reached from what follows it. Holds data only; `HistoryStore` keeps it on disk.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from app.history.records import Message


class MessageTree:
    """All messages of a conversation."""

    def __init__(self, messages: Iterable[Message] = ()) -> None:
        self._by_id: dict[str, Message] = {}
        self._children: dict[str | None, list[str]] = {}
        for message in messages:
            self.put(message)

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Message]:
        return iter(self._by_id.values())

    def __contains__(self, message_id: str) -> bool:
        return message_id in self._by_id

    def put(self, message: Message) -> None:
        """Add a message, or replace the one of its id; its parent never changes."""
        if message.id not in self._by_id:
            self._children.setdefault(message.parent_id, []).append(message.id)
        self._by_id[message.id] = message

    def get(self, message_id: str) -> Message:
        """The message of this id.

        Raises:
            KeyError: there is none.
        """
        return self._by_id[message_id]

    def path(self, leaf_id: str | None) -> list[Message]:
        """The messages from the root to this one, without deleted ones; empty for an unknown id."""
        path: list[Message] = []
        seen: set[str] = set()  # a damaged file could hold a circle
        current = leaf_id
        while current is not None and current in self._by_id and current not in seen:
            seen.add(current)
            message = self._by_id[current]
            if not message.is_deleted:
                path.append(message)
            current = message.parent_id
        path.reverse()
        return path

    def children(self, message_id: str | None) -> tuple[str, ...]:
        """Ids of the messages that follow this one, oldest first; of the first ones for None."""
        return tuple(self._children.get(message_id, ()))

    def siblings(self, message_id: str) -> tuple[str, ...]:
        """Ids of all versions of this message, oldest first, its own among them.

        Of a deleted message what follows it stands in its place, among its versions.
        """
        parent_id, seen = self.get(message_id).parent_id, {message_id}
        while parent_id in self._by_id and parent_id not in seen:
            parent = self._by_id[parent_id]
            if not parent.is_deleted:
                break
            seen.add(parent.id)
            parent_id = parent.parent_id
        return tuple(self._living_after(parent_id))

    def _living_after(self, message_id: str | None) -> Iterator[str]:
        """The first messages below this one that are not deleted, on each branch."""
        waiting, seen = list(reversed(self.children(message_id))), set[str]()
        while waiting:
            current = waiting.pop()
            if current in seen:
                continue
            seen.add(current)
            if not self._by_id[current].is_deleted:
                yield current
            else:
                waiting += reversed(self.children(current))

    def leaf_below(self, message_id: str) -> str:
        """The end of the newest path through this message."""
        seen = {message_id}
        while following := [i for i in self.children(message_id) if self._has_living(i)]:
            if following[-1] in seen:
                break
            message_id = following[-1]
            seen.add(message_id)
        return message_id

    def _has_living(self, message_id: str) -> bool:
        """Whether anything from this message on is not deleted."""
        waiting, seen = [message_id], set[str]()
        while waiting:
            current = waiting.pop()
            if not self._by_id[current].is_deleted:
                return True
            seen.add(current)
            waiting += [child for child in self.children(current) if child not in seen]
        return False
