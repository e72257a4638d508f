"""The conversations as a list, or what a search has found. Knows no widget."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from PySide6.QtCore import (
    QAbstractListModel,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
    Qt,
    Signal,
)

from app.chat.view import words
from app.history.records import Conversation, SearchHit

_Index = QModelIndex | QPersistentModelIndex


class EntryRole(enum.IntEnum):
    """What an entry says about itself beside its title."""

    ID = Qt.ItemDataRole.UserRole + 1
    MESSAGE_ID = Qt.ItemDataRole.UserRole + 2
    SNIPPET = Qt.ItemDataRole.UserRole + 3
    MARKS = Qt.ItemDataRole.UserRole + 4
    WHEN = Qt.ItemDataRole.UserRole + 5
    IS_BUSY = Qt.ItemDataRole.UserRole + 6
    OFFSET = Qt.ItemDataRole.UserRole + 7
    IS_UNREAD = Qt.ItemDataRole.UserRole + 8


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of the list."""

    conversation_id: str
    title: str
    when: float
    message_id: str | None = None
    snippet: str = ""
    marks: tuple[tuple[int, int], ...] = ()
    text_offset: int = 0


class ConversationModel(QAbstractListModel):
    """See above.

    Signals:
        renamed: id and new title, given in the list.
    """

    renamed = Signal(str, str)

    def __init__(self, is_busy: Callable[[str], bool], parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._is_busy = is_busy
        self._unread: set[str] = set()
        self.entries: list[Entry] = []

    def show_conversations(self, conversations: Sequence[Conversation]) -> None:
        """Show all of them; nothing moves on the screen when only titles changed."""
        new = [
            Entry(c.id, c.title or self.tr("New conversation"), c.updated_at) for c in conversations
        ]
        same_order = [e.conversation_id for e in new] == [e.conversation_id for e in self.entries]
        if same_order and not any(entry.message_id or entry.snippet for entry in self.entries):
            self.entries = new
            self._all_changed()
            return
        self.beginResetModel()
        self.entries = new
        self.endResetModel()

    def show_hits(self, hits: Sequence[SearchHit]) -> None:
        """Show what was found."""
        self.beginResetModel()
        self.entries = [
            Entry(
                hit.conversation_id,
                hit.title or self.tr("New conversation"),
                hit.when,
                hit.message_id,
                hit.snippet if hit.message_id is not None else "",
                hit.marks if hit.message_id is not None else (),
                hit.text_offset,
            )
            for hit in hits
        ]
        self.endResetModel()

    def note_busy(self, _count: int = 0) -> None:
        """Answers have begun or ended."""
        self._all_changed()

    def set_unread(self, conversation_id: str, *, is_unread: bool) -> None:
        """An answer has ended in a conversation that is not shown, or it is shown now."""
        if is_unread != (conversation_id in self._unread):
            self._unread ^= {conversation_id}
            self._all_changed()

    def _all_changed(self) -> None:
        if self.entries:
            self.dataChanged.emit(self.index(0), self.index(len(self.entries) - 1))

    def row_of(self, conversation_id: str) -> int:
        """The line of a conversation, -1 if it has none."""
        for place, entry in enumerate(self.entries):
            if entry.conversation_id == conversation_id:
                return place
        return -1

    # -- Qt's ---------------------------------------------------------------------------------------

    def rowCount(self, parent: _Index | None = None) -> int:  # noqa: N802  # Qt's name
        """Lines."""
        return 0 if parent is not None and parent.isValid() else len(self.entries)

    def flags(self, index: _Index) -> Qt.ItemFlag:
        """A title can be edited, a hit cannot."""
        flags = Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsSelectable
        if index.isValid() and self.entries[index.row()].message_id is None:
            flags |= Qt.ItemFlag.ItemIsEditable
        return flags

    def data(self, index: _Index, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        """What a line shows."""
        if not index.isValid() or index.row() >= len(self.entries):
            return None
        entry = self.entries[index.row()]
        if role in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.EditRole):
            return entry.title
        if role == Qt.ItemDataRole.ToolTipRole:
            return entry.title
        if role == Qt.ItemDataRole.AccessibleTextRole:
            return f"{entry.title}. {entry.snippet or words.moment(entry.when)}"
        values: dict[int, object] = {
            EntryRole.ID: entry.conversation_id,
            EntryRole.MESSAGE_ID: entry.message_id,
            EntryRole.SNIPPET: entry.snippet,
            EntryRole.MARKS: entry.marks,
            EntryRole.WHEN: words.moment(entry.when),
            EntryRole.OFFSET: entry.text_offset,
            EntryRole.IS_UNREAD: entry.conversation_id in self._unread,
        }
        if role == EntryRole.IS_BUSY:
            return self._is_busy(entry.conversation_id)
        return values.get(role)

    def setData(  # noqa: N802  # Qt's name
        self, index: _Index, value: object, role: int = Qt.ItemDataRole.EditRole
    ) -> bool:
        """A new title from the list."""
        if role != Qt.ItemDataRole.EditRole or not index.isValid():
            return False
        self.renamed.emit(self.entries[index.row()].conversation_id, str(value))
        return True
