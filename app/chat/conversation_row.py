"""A conversation's own row: title, settings, draft and the end of the shown path, stored when it changes."""

from __future__ import annotations

from dataclasses import replace

from app.history.records import Conversation, ConversationSettings, Draft
from app.history.store import HistoryStore
from app.history.tree import MessageTree


class ConversationRow:
    """See the module; `value` is what it is now. A blank conversation is not stored."""

    def __init__(self, store: HistoryStore, conversation: Conversation, tree: MessageTree) -> None:
        self._store, self._tree = store, tree
        self.value = conversation
        leaf = conversation.active_leaf
        if leaf is not None and leaf not in tree:  # a damaged file
            newest = [message.id for message in tree][-1:]
            self.value = replace(conversation, active_leaf=newest[0] if newest else None)

    @property
    def is_blank(self) -> bool:
        """Whether there is nothing in it worth keeping."""
        now = self.value
        return (
            now.active_leaf is None
            and now.draft.is_empty
            and not now.has_own_title
            and not len(self._tree)
        )

    def change(
        self,
        *,
        title: str | None = None,
        has_own_title: bool | None = None,
        active_leaf: str | None = None,
        settings: ConversationSettings | None = None,
        draft: Draft | None = None,
        updated_at: float | None = None,
        is_urgent: bool = False,
    ) -> None:
        """Change what is given; urgent: to be on the disk before anything else."""
        now = self.value
        self.value = replace(
            now,
            title=now.title if title is None else title,
            has_own_title=now.has_own_title if has_own_title is None else has_own_title,
            active_leaf=now.active_leaf if active_leaf is None else active_leaf,
            settings=now.settings if settings is None else settings,
            draft=now.draft if draft is None else draft,
            updated_at=now.updated_at if updated_at is None else updated_at,
        )
        if not self.is_blank or self._is_stored():
            self._store.put_conversation(self.value, is_urgent=is_urgent)

    def _is_stored(self) -> bool:
        try:
            self._store.conversation(self.value.id)
        except KeyError:
            return False
        return True
