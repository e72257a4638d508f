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

import time
from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import QObject, Qt, QTimer, Signal

from app.chat.activity import Activity, ModelFacts, Phase
from app.chat.answer_run import AnswerRun, Job, growing_again
from app.chat.conversation_row import ConversationRow
from app.chat.deletions import Deletions
from app.chat.draft_keeper import DraftKeeper
from app.chat.engine_side import EngineSide
from app.chat.request_body import request_body
from app.chat.stream import JsonObject
from app.history.records import (
    Attachment,
    Conversation,
    ConversationSettings,
    Draft,
    Message,
    MessageState,
    Problem,
    Role,
    new_id,
)
from app.history.rows import storable
from app.history.store import HistoryStore
from app.history.titles import title_of

# At most 30 batches a second; while the engine is waited for, four looks are enough.
FRAME_MS = 34
WAITING_MS = 250


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
        listing_changed(): title, order or existence in the list of conversations.
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
    listing_changed = Signal()

    def __init__(
        self,
        store: HistoryStore,
        engine: EngineSide,
        conversation: Conversation,
        parent: QObject | None = None,
    ) -> None:
        """Take up a conversation.

        Raises:
            HistoryError: its messages cannot be read.
        """
        super().__init__(parent)
        self._store, self._engine = store, engine
        self._tree = store.tree(conversation.id)
        self._row = ConversationRow(store, conversation, self._tree)
        self._deletions = Deletions(self._tree, store, self._put)
        self._run: AnswerRun | None = None
        self._activity = Activity()
        self._timer = QTimer(self)
        self._timer.setTimerType(Qt.TimerType.PreciseTimer)
        self._timer.timeout.connect(self._tick)
        self._draft = DraftKeeper(store, engine, self._row, self)
        self._draft.changed.connect(self.draft_changed)
        self._draft.refused.connect(self.refused)
        self._draft.pending_changed.connect(self.attachments_pending)
        self._draft.blank_changed.connect(self.listing_changed)
        self._deletions.forget()

    # -- what is there ---------------------------------------------------------------------------

    @property
    def conversation(self) -> Conversation:
        """Title, settings, draft and the end of the shown path."""
        return self._row.value

    @property
    def activity(self) -> Activity:
        """What happens now."""
        return self._activity

    @property
    def is_busy(self) -> bool:
        """Whether an answer is being made."""
        return self._run is not None

    def path(self) -> list[Message]:
        """The shown messages, from the first to the last; growing ones with what they have."""
        path = self._tree.path(self.conversation.active_leaf)
        return [self.message(message.id) for message in path]

    def message(self, message_id: str) -> Message:
        """One message of the conversation, shown or not; a growing one with what it has.

        Raises:
            KeyError: there is none of this id.
        """
        if self._run is not None and self._run.answer.message_id == message_id:
            return self._run.answer.snapshot()
        return self._tree.get(message_id)

    def siblings(self, message_id: str) -> tuple[str, ...]:
        """Ids of all versions of a message, oldest first: "2 of 3"."""
        return self._tree.siblings(message_id)

    # -- asking ----------------------------------------------------------------------------------

    def send(self, text: str | None = None) -> bool:
        """Send the draft (with `text` instead of its text, if given) and let the model answer.

        The draft is empty afterwards. False, after `refused`, when there is nothing to send, an
        answer is being made, or a file is still being read; then the draft is kept.
        """
        if text is not None:
            self.set_draft_text(text)
        draft = self.draft
        if not self._may_ask():
            return False
        if self._draft.num_pending:
            return self._refuse("attachment_pending", "A file is still being read. Wait a moment.")
        if not draft.text.strip() and not draft.attachments:
            return self._refuse("nothing_to_send", "There is nothing to send yet.")
        message = Message(
            id=new_id(),
            conversation_id=self.conversation.id,
            parent_id=self.conversation.active_leaf,
            role=Role.USER,
            text=draft.text,
            attachments=draft.attachments,
        )
        self._ask(message, draft=Draft())
        self.draft_changed.emit(self.draft)
        return True

    def stop(self) -> None:
        """Stop the answer that is being made and keep what it has; nothing when idle."""
        if self._run is not None:
            self._run.stop()
            self._tick()
            self._timer.setInterval(FRAME_MS)

    def answer_now(self) -> None:
        """End the thinking; the answer follows. Nothing when the model does not think."""
        if self._run is not None:
            self._run.answer_now()

    def continue_answer(self, message_id: str) -> bool:
        """Go on with an answer that was stopped, cut or left unfinished (`Message.can_continue`).

        An answer of which only thinking had arrived is begun anew, as a sibling.
        """
        message = self._tree.get(message_id)
        if not message.can_continue:
            return self._refuse("cannot_continue", "This message is complete.")
        if not message.text.strip() and not message.tool_calls:
            return self.regenerate(message_id)
        if not self._may_ask():
            return False
        self._show(message_id)
        self._answer(growing_again(message), continues=True)
        return True

    def regenerate(self, message_id: str) -> bool:
        """Another answer beside this one (or to this message of the person), which is kept."""
        message = self._tree.get(message_id)
        if not self._may_ask():
            return False
        asked_id = message.parent_id if message.is_answer else message.id
        if asked_id is None or asked_id not in self._tree or self._tree.get(asked_id).is_deleted:
            return self._refuse("nothing_to_answer", "There is no message to answer.")
        self._ask(self._tree.get(asked_id))
        return True

    def edit(
        self, message_id: str, text: str, attachments: tuple[Attachment, ...] | None = None
    ) -> bool:
        """Another version of a message beside the old one, which is kept.

        A message of the person is answered; an answer is only replaced on the shown path.
        `attachments` None keeps those of the old version.
        """
        old = self._tree.get(message_id)
        if not self._may_ask():
            return False
        kept = old.attachments if attachments is None else attachments
        if not text.strip() and not kept:
            return self._refuse("nothing_to_send", "There is nothing to send yet.")
        new = Message(
            id=new_id(),
            conversation_id=self.conversation.id,
            parent_id=old.parent_id,
            role=old.role,
            text=storable(text),
            attachments=kept,
        )
        if new.is_answer:
            self._put(new)
            self._show(new.id)
            self._note_path()
        else:
            self._ask(new)
        return True

    def delete_message(self, message_id: str) -> bool:
        """Delete one message; what follows it stays. `undo_delete` brings the latest one back.

        Its text is taken out of the file at once. Where there are other versions of the last message, the
        nearest one is shown instead.
        """
        if not self._may_ask() or message_id not in self._tree:
            return False
        versions = self.siblings(message_id)
        if message_id not in versions:  # it is deleted already
            return False
        before, place = self.conversation, versions.index(message_id)
        self._deletions.take_out(message_id, before.active_leaf, before.title)
        is_last = before.active_leaf == message_id
        if is_last and len(versions) > 1:
            self._show(self._tree.leaf_below(versions[place - 1] if place else versions[1]))
        self._note_deletion()
        return True

    def undo_delete(self) -> None:
        """Bring back the message that was deleted last; nothing when that is not possible."""
        deleted = self._deletions.bring_back()
        if deleted is None:
            return
        if self._run is None and deleted.active_leaf is not None:
            shown = self._tree.path(self.conversation.active_leaf)
            if deleted.message not in shown:  # another version was shown instead
                self._show(deleted.active_leaf)
        self._note_deletion(title=deleted.title)

    def _note_deletion(self, title: str | None = None) -> None:
        if not self.conversation.has_own_title:
            first = next(iter(self.path()), None)
            self._row.change(title=_title_from(first) if title is None else title, is_urgent=True)
        self.path_changed.emit()
        self.listing_changed.emit()
        self.conversation_changed.emit(self.conversation)

    def show_version(self, message_id: str) -> None:
        """Show this version of a message, and the newest messages below it."""
        if message_id in self._tree:
            self._show(self._tree.leaf_below(message_id))
            self.path_changed.emit()

    def answer_tool(self, call_id: str, *, allow: bool, always: bool = False) -> None:
        """Allow or refuse the call that is asked for; `always` holds until the engine ends."""
        if self._run is not None and self._run.consent(call_id, allow=allow, always=always):
            self.message_changed.emit(self._run.answer.message_id)
            self._note_activity()

    # -- the conversation itself -----------------------------------------------------------------

    def rename(self, title: str) -> None:
        """Give it a title; an empty one brings back the first line."""
        title = " ".join(storable(title).split())
        if title:
            self._row.change(title=title, has_own_title=True)
        else:
            first = next(iter(self.path()), None)
            self._row.change(title=_title_from(first), has_own_title=False)
        self.listing_changed.emit()
        self.conversation_changed.emit(self.conversation)

    def set_settings(self, settings: ConversationSettings) -> None:
        """System prompt, thinking level, sampling: from the next answer on."""
        if settings != self.conversation.settings:
            self._row.change(settings=settings)
            self.conversation_changed.emit(self.conversation)

    # -- the draft -------------------------------------------------------------------------------

    @property
    def draft(self) -> Draft:
        """What has not been sent yet."""
        return self._draft.value

    def set_draft_text(self, text: str) -> None:
        """Keep what is being written; cheap enough for every key press."""
        self._draft.set_text(text)

    def add_file(self, path: Path) -> None:
        """Read a file in the background and attach it to the draft: `draft_changed` or `refused`."""
        self._draft.add_file(path)

    def add_picture(self, data: bytes, name: str = "") -> None:
        """Attach a picture that was pasted or dropped; `refused` says why when the model sees none."""
        self._draft.add_picture(data, name)

    def remove_attachment(self, attachment_id: str) -> None:
        """Take an attachment out of the draft."""
        self._draft.remove(attachment_id)

    @property
    def is_working(self) -> bool:
        """Whether it has something to do, with or without anybody looking."""
        return self.is_busy or self._draft.num_pending > 0

    @property
    def is_blank(self) -> bool:
        """Whether there is nothing in it worth keeping."""
        return self._row.is_blank

    def replace_conversation(self, conversation: Conversation) -> None:
        """Take over what the service changed (deleted or brought back)."""
        self._row.value = replace(self._row.value, deleted_at=conversation.deleted_at)

    def shut_down(self) -> None:
        """End the answer at once and keep what it has; for the app's end."""
        if self._run is not None:
            self._end(self._run.end_at_once())

    # -- how it is done --------------------------------------------------------------------------

    def _may_ask(self) -> bool:
        if self._run is not None:
            return self._refuse(
                "answer_running", "An answer is being made. Stop it, or wait for its end."
            )
        return True

    def _refuse(self, code: str, sentence: str) -> bool:
        self.refused.emit(Problem(code, sentence))
        return False

    def _ask(self, question: Message, draft: Draft | None = None) -> None:
        """Put a message of the person, if it is new, and begin the answer to it."""
        if question.id not in self._tree:
            self._put(question)
        answer = Message(
            id=new_id(),
            conversation_id=self.conversation.id,
            parent_id=question.id,
            role=Role.ASSISTANT,
            state=MessageState.GROWING,
        )
        title = self.conversation.title
        if not self.conversation.has_own_title and not title:
            title = _title_from(question)
        is_new_title = title != self.conversation.title
        self._put(answer)
        self._row.change(
            title=title,
            active_leaf=answer.id,
            updated_at=time.time(),
            draft=draft if draft is not None else self.draft,
            is_urgent=True,
        )
        self.listing_changed.emit()
        if is_new_title:
            self.conversation_changed.emit(self.conversation)
        self._answer(answer, continues=False)

    def _answer(self, message: Message, *, continues: bool) -> None:
        """Begin, or go on with, an answer whose message is the end of the shown path."""
        self._put(message)
        settings, store = self.conversation.settings, self._store
        path = tuple(self._tree.path(message.id))
        asked = path[:-1]

        def make_body(facts: ModelFacts, goes_on: bool) -> JsonObject:  # one call
            if goes_on:
                return request_body(path, settings, facts, store.attachment, continues=True)
            return request_body(asked, settings, facts, store.attachment)

        self._run = AnswerRun(
            self._engine, store, message, Job(make_body, settings, continues=continues)
        )
        self._run.begin()
        self._timer.start(FRAME_MS)
        self._note_path()
        self._note_activity()

    def _note_path(self) -> None:
        self.path_changed.emit()

    def _put(self, message: Message) -> None:
        self._tree.put(message)
        self._store.put_message(message)

    def _show(self, leaf_id: str) -> None:
        if self.conversation.active_leaf != leaf_id:
            self._row.change(active_leaf=leaf_id)

    # -- the clock -------------------------------------------------------------------------------

    def _tick(self) -> None:
        run = self._run
        if run is None:
            self._timer.stop()
            return
        message_id = run.answer.message_id
        news = run.tick()
        if news.thinking:
            self.thinking_arrived.emit(message_id, news.thinking)
        if news.text:
            self.text_arrived.emit(message_id, news.text)
        if news.ended is not None:
            self._end(news.ended)
            return
        if news.is_message_changed:
            self.message_changed.emit(message_id)
        self._note_activity()

    def _end(self, message: Message) -> None:
        self._timer.stop()
        self._run = None
        self._tree.put(message)
        self._row.change(updated_at=time.time(), is_urgent=True)
        self.message_changed.emit(message.id)
        self.answer_ended.emit(message.id)
        self._note_activity()
        self.listing_changed.emit()

    def _note_activity(self) -> None:
        activity = self._run.activity() if self._run is not None else Activity()
        if self._run is not None:
            is_waiting = activity.phase is Phase.WAITING_FOR_ENGINE
            interval = WAITING_MS if is_waiting else FRAME_MS
            if self._timer.interval() != interval:
                self._timer.setInterval(interval)
        if activity != self._activity:
            self._activity = activity
            self.activity_changed.emit(activity)


def _title_from(message: Message | None) -> str:
    """The first line; or the name of the first file."""
    if message is None:
        return ""
    title = title_of(message.text)
    if not title and message.attachments:
        return message.attachments[0].name
    return title
