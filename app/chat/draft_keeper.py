"""A conversation's draft: its text as it is written, and attachments on their way in and out.

It is kept in the conversation's row, so that it outlives its window and the app. Files are read by
`draft_files`; whether and how a draft is sent is the controller's.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from app.chat.conversation_row import ConversationRow
from app.chat.draft_files import DraftFiles
from app.chat.engine_side import EngineSide
from app.history.records import Attachment, Draft
from app.history.rows import storable
from app.history.store import HistoryStore


class DraftKeeper(QObject):
    """The draft of one conversation.

    Signals:
        changed(draft): attachments came or went; a `Draft`. Not emitted for `set_text`.
        pending_changed(count): files that are being read.
        refused(problem): a file cannot be attached; a `Problem`.
        blank_changed(): the conversation has now something worth keeping, or nothing any more.
    """

    changed = Signal(object)
    pending_changed = Signal(int)
    refused = Signal(object)
    blank_changed = Signal()

    def __init__(
        self,
        store: HistoryStore,
        engine: EngineSide,
        row: ConversationRow,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._store, self._row = store, row
        self._files = DraftFiles(store, engine, row.value.id, self)
        self._files.ready.connect(self._add)
        self._files.refused.connect(self.refused)
        self._files.pending_changed.connect(self.pending_changed)
        self._files.counted.connect(self._note_count)

    @property
    def value(self) -> Draft:
        """What has not been sent yet."""
        return self._row.value.draft

    @property
    def num_pending(self) -> int:
        """Files that are being read."""
        return self._files.num_pending

    def set_text(self, text: str) -> None:
        """Keep what is being written; cheap enough for every key press."""
        was_blank = self._row.is_blank
        text = storable(text)
        if text != self.value.text:
            self._row.change(draft=replace(self.value, text=text))
        if was_blank != self._row.is_blank:
            self.blank_changed.emit()

    def add_file(self, path: Path) -> None:
        """Read a file in the background and attach it: `changed` or `refused`."""
        self._files.add_file(path)

    def add_picture(self, data: bytes, name: str) -> None:
        """Attach a picture that was pasted or dropped; `refused` says why when the model sees none."""
        self._files.add_picture(data, name)

    def remove(self, attachment_id: str) -> None:
        """Take an attachment out."""
        kept = tuple(a for a in self.value.attachments if a.id != attachment_id)
        if kept != self.value.attachments:
            self._set(kept)
            self._store.drop_attachment(attachment_id)

    def _add(self, attachment: Attachment) -> None:
        self._set((*self.value.attachments, attachment))

    def _note_count(self, attachment_id: str, num_tokens: int) -> None:
        self._set(
            tuple(
                replace(a, num_tokens=num_tokens) if a.id == attachment_id else a
                for a in self.value.attachments
            )
        )

    def _set(self, attachments: tuple[Attachment, ...]) -> None:
        if attachments == self.value.attachments:
            return
        was_blank = self._row.is_blank
        self._row.change(draft=replace(self.value, attachments=attachments))
        self.changed.emit(self.value)
        if was_blank != self._row.is_blank:
            self.blank_changed.emit()
