"""One conversation at work: what a person can do with it, and what comes back.

A `ChatController` lives in the `ChatService`, not in a window: an answer goes on when its window is
closed. All of it is used on the main thread, and nothing here blocks: requests, files and the disk are
others' threads. Text comes in batches, at most 30 a second.

    controller = service.controller(conversation_id)
    controller.text_arrived.connect(view.append)      # growing answer: only what is new
    controller.message_changed.connect(view.update)   # anything else about one message
    controller.path_changed.connect(view.rebuild)     # other messages are shown now
    controller.send("Hello")
"""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QObject, Signal

from app.chat.activity import Activity
from app.history.records import Attachment, Conversation, ConversationSettings, Draft, Message


class ChatController(QObject):
    """A conversation.

    Signals:
        path_changed(): other messages are shown than before: read `path()` again. Adding messages at
            the end emits this too; messages whose ids are the same have not changed.
        message_changed(message_id): state, tool calls, statistics, problem or thinking time of a
            shown message changed: read `message(id)` again. Not emitted for text that arrives.
        text_arrived(message_id, text): the end of a growing answer; already part of `message(id)`.
        thinking_arrived(message_id, text): the same of its thinking.
        activity_changed(activity): an `Activity`; at most 30 times a second.
        conversation_changed(conversation): title or settings; a `Conversation`.
        draft_changed(draft): attachments came or went, or the draft was replaced; a `Draft`. Not
            emitted for `set_draft_text`.
        attachments_pending(count): files that are being read.
        refused(problem): what was asked for last was not done; a `Problem` with a sentence.
        answer_ended(message_id): the answer is complete, stopped, cut or unfinished.
    """

    path_changed = Signal()
    message_changed = Signal(str)
    text_arrived = Signal(str, str)
    thinking_arrived = Signal(str, str)
    activity_changed = Signal(object)
    conversation_changed = Signal(object)
    draft_changed = Signal(object)
    attachments_pending = Signal(int)
    refused = Signal(object)
    answer_ended = Signal(str)

    # -- what is there ---------------------------------------------------------------------------

    @property
    def conversation(self) -> Conversation:
        """Title, settings, draft and the end of the shown path."""
        raise NotImplementedError

    @property
    def activity(self) -> Activity:
        """What happens now."""
        raise NotImplementedError

    def path(self) -> list[Message]:
        """The shown messages, from the first to the last; growing ones with what they have."""
        raise NotImplementedError

    def message(self, message_id: str) -> Message:
        """One message of the conversation, shown or not; a growing one with what it has.

        Raises:
            KeyError: there is none of this id.
        """
        raise NotImplementedError

    def siblings(self, message_id: str) -> tuple[str, ...]:
        """Ids of all versions of a message, oldest first: "2 of 3"."""
        raise NotImplementedError

    # -- asking ----------------------------------------------------------------------------------

    def send(self, text: str | None = None) -> bool:
        """Send the draft (with `text` instead of its text, if given) and let the model answer.

        The draft is empty afterwards. False, after `refused`, when there is nothing to send, an
        answer is being made, or a file is still being read; then the draft is kept.
        """
        raise NotImplementedError

    def stop(self) -> None:
        """Stop the answer that is being made and keep what it has; nothing when idle."""
        raise NotImplementedError

    def answer_now(self) -> None:
        """End the thinking; the answer follows. Nothing when the model does not think."""
        raise NotImplementedError

    def continue_answer(self, message_id: str) -> bool:
        """Go on with an answer that was stopped, cut or left unfinished (`Message.can_continue`).

        An answer of which only thinking had arrived is begun anew, as a sibling.
        """
        raise NotImplementedError

    def regenerate(self, message_id: str) -> bool:
        """Another answer beside this one (or to this message of the person), which is kept."""
        raise NotImplementedError

    def edit(
        self, message_id: str, text: str, attachments: tuple[Attachment, ...] | None = None
    ) -> bool:
        """Another version of a message beside the old one, which is kept.

        A message of the person is answered; an answer is only replaced on the shown path.
        `attachments` None keeps those of the old version.
        """
        raise NotImplementedError

    def show_version(self, message_id: str) -> None:
        """Show this version of a message, and the newest messages below it."""
        raise NotImplementedError

    def answer_tool(self, call_id: str, *, allow: bool, always: bool = False) -> None:
        """Allow or refuse the call that is being asked for; `always` holds for this tool until the
        engine ends."""
        raise NotImplementedError

    # -- the conversation itself -----------------------------------------------------------------

    def rename(self, title: str) -> None:
        """Give it a title; an empty one brings back the first line."""
        raise NotImplementedError

    def set_settings(self, settings: ConversationSettings) -> None:
        """System prompt, thinking level, sampling: from the next answer on."""
        raise NotImplementedError

    # -- the draft -------------------------------------------------------------------------------

    @property
    def draft(self) -> Draft:
        """What has not been sent yet."""
        raise NotImplementedError

    def set_draft_text(self, text: str) -> None:
        """Keep what is being written; cheap enough for every key press."""
        raise NotImplementedError

    def add_file(self, path: Path) -> None:
        """Read a file in the background and attach it to the draft: `draft_changed` or `refused`."""
        raise NotImplementedError

    def add_picture(self, data: bytes, name: str = "") -> None:
        """Attach a picture that was pasted or dropped; `refused` says why when the model sees none."""
        raise NotImplementedError

    def remove_attachment(self, attachment_id: str) -> None:
        """Take an attachment out of the draft."""
        raise NotImplementedError
