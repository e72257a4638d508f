"""All conversations of the app: the list, the controllers at work, search, export.

There is one `ChatService`; the app owns it and it lives until the app ends, whatever windows are open.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from app.chat.activity import ModelFacts
from app.chat.controller import ChatController
from app.history.records import Conversation, Problem


class ChatService(QObject):
    """The conversations.

    Signals:
        conversations_changed(): the list, a title or the order: read `conversations()` again.
        search_finished(query, hits): the result of `search`, a list of `SearchHit`.
        busy_changed(count): how many answers are being made.
        answer_ended(conversation_id, message_id, seconds): for a notification.
        facts_changed(facts): another model, or the first that is known; a `ModelFacts`.
        notice(problem): a sentence to show once: saving failed, the history was damaged ...
        saving_changed(problem or None): saving fails now and is tried again; None = all is saved.
        transfer_finished(problem or None, paths or ids): the end of an export or import.
    """

    conversations_changed = Signal()
    search_finished = Signal(str, list)
    busy_changed = Signal(int)
    answer_ended = Signal(str, str, float)
    facts_changed = Signal(object)
    notice = Signal(object)
    saving_changed = Signal(object)
    transfer_finished = Signal(object, list)

    @property
    def facts(self) -> ModelFacts:
        """What is known about the model."""
        raise NotImplementedError

    @property
    def save_problem(self) -> Problem | None:
        """Why saving fails at the moment; None = all is well."""
        raise NotImplementedError

    def conversations(self) -> list[Conversation]:
        """All that are not deleted and not blank, the latest first."""
        raise NotImplementedError

    def new_conversation(self) -> str:
        """The id of a blank conversation; it is listed and kept once it has a message or a draft."""
        raise NotImplementedError

    def controller(self, conversation_id: str) -> ChatController:
        """The controller of a conversation, always the same one.

        Raises:
            KeyError: there is no such conversation.
        """
        raise NotImplementedError

    def delete(self, conversation_id: str) -> None:
        """Delete a conversation, and stop its answer; `restore` brings it back."""
        raise NotImplementedError

    def restore(self, conversation_id: str) -> None:
        """Undo a deletion."""
        raise NotImplementedError

    def branch(self, conversation_id: str, message_id: str) -> str:
        """A new conversation with a copy of the path up to this message; its id."""
        raise NotImplementedError

    def search(self, query: str) -> None:
        """Search titles and texts in the background; `search_finished` brings the result.

        Only the result of the latest call is delivered.
        """
        raise NotImplementedError

    def export_json(self, path: Path, conversation_ids: Sequence[str] | None = None) -> None:
        """Write conversations (None = all) to one file, without loss, in the background."""
        raise NotImplementedError

    def export_markdown(self, path: Path, conversation_id: str) -> None:
        """Write the shown path of a conversation for people to read, in the background."""
        raise NotImplementedError

    def import_file(self, path: Path) -> None:
        """Add the conversations of a JSON or Markdown file, in the background."""
        raise NotImplementedError
