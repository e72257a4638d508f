"""All conversations of the app: the list, the controllers at work, search, export.

There is one `ChatService`; the app owns it and it lives until the app ends, whatever windows are open.

    service = ChatService(data_dir, supervisor.http)
    service.follow(supervisor)
    ...
    service.close()
"""

from __future__ import annotations

import logging
import tempfile
import time
import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QTimer, Signal

from app.background import Operation, Task, in_background
from app.chat.activity import ModelFacts
from app.chat.controller import ChatController
from app.chat.engine_side import EngineSide
from app.chat.link import EngineLink, link_of
from app.chat.presets import PresetStore
from app.engine_http import EngineHttp
from app.history.exchange import WholeConversation, add_to_store, export_json, gather, read_json
from app.history.markdown import Words, read_markdown, to_markdown
from app.history.opening import open_history
from app.history.records import Conversation, Draft, Problem, SearchHit, new_id
from engine.core.errors import EngineError
from engine.core.files import write_atomically

if TYPE_CHECKING:
    from app.supervisor.supervisor import Supervisor

logger = logging.getLogger(__name__)

# Idle controllers that are kept although nobody holds them: going back and forth is quick.
KEPT_CONTROLLERS = 6
MARKDOWN_SUFFIXES = frozenset({".md", ".markdown", ".txt"})

# How long the end of the app waits for the disk.
CLOSING_S = 10.0
CLOSING_IN_VAIN_S = 1.0


class ChatService(QObject):
    """The conversations.

    Signals:
        conversations_changed(): the list, a title or the order: read `conversations()` again.
        search_finished(query, hits): the result of `search`, a list of `SearchHit`.
        busy_changed(count): how many answers are being made.
        answer_ended(conversation_id, message_id, seconds): for a notification.
        facts_changed(facts): another model, or the first that is known; a `ModelFacts`.
        link_changed(link): the engine can or cannot be asked; an `EngineLink`.
        notice(problem): a sentence to show once: the history was damaged ... Those of the start
            come as soon as the event loop runs.
        saving_changed(problem or None): saving fails now and is tried again; None = all is saved.
        transfer_finished(problem or None, ids): the end of an export or import; the ids of the
            imported conversations.

    Attributes:
        presets: the built-in and the person's own ones.
    """

    conversations_changed = Signal()
    search_finished = Signal(str, list)
    busy_changed = Signal(int)
    answer_ended = Signal(str, str, float)
    facts_changed = Signal(object)
    link_changed = Signal(object)
    notice = Signal(object)
    saving_changed = Signal(object)
    transfer_finished = Signal(object, list)

    _saving = Signal(object)
    _noticed = Signal(object)

    def __init__(self, data_dir: Path, http: EngineHttp, parent: QObject | None = None) -> None:
        """Open the conversations of a data folder; a damaged history is repaired, see `notice`."""
        super().__init__(parent)
        opened = open_history(data_dir)
        self._store = opened.store
        self._saving.connect(self.saving_changed)
        self._noticed.connect(self.notice)
        self._store.on_saving = self._saving.emit
        self._store.on_notice = self._noticed.emit
        self.presets = PresetStore(data_dir)
        self._engine = EngineSide(http, self)
        self._engine.facts_changed.connect(self.facts_changed)
        self._engine.link_changed.connect(self.link_changed)
        self._blank: dict[str, Conversation] = {}
        self._controllers: weakref.WeakValueDictionary[str, ChatController] = (
            weakref.WeakValueDictionary()
        )
        self._kept: OrderedDict[str, ChatController] = OrderedDict()
        self._busy: dict[str, tuple[ChatController, float]] = {}
        self._search: Operation | None = None
        self._is_closing = False
        self._listing = QTimer(self)
        self._listing.setSingleShot(True)
        self._listing.timeout.connect(self.conversations_changed)
        for problem in opened.notices:
            QTimer.singleShot(0, self, lambda problem=problem: self.notice.emit(problem))

    # -- the engine ------------------------------------------------------------------------------

    def follow(self, supervisor: Supervisor) -> None:
        """Take the engine's state from the supervisor from now on."""
        supervisor.state_changed.connect(lambda state: self.set_link(link_of(state)))
        self.set_link(link_of(supervisor.state))

    def set_link(self, link: EngineLink) -> None:
        """Say whether the engine can be asked."""
        self._engine.set_link(link)

    @property
    def link(self) -> EngineLink:
        """Whether the engine can be asked."""
        return self._engine.link

    @property
    def facts(self) -> ModelFacts:
        """What is known about the model."""
        return self._engine.facts

    def ask_for_facts(self) -> None:
        """Read the model's facts again; `facts_changed` if they are new."""
        self._engine.ask_for_facts()

    # -- saving ----------------------------------------------------------------------------------

    @property
    def save_problem(self) -> Problem | None:
        """Why saving fails at the moment; None = all is well."""
        return self._store.save_problem

    @property
    def is_saved(self) -> bool:
        """Whether everything is on disk."""
        return self._store.is_saved

    def close(self, timeout_s: float = CLOSING_S) -> Path | None:
        """End all answers and save everything; for the app's end.

        When the disk is still full what is not saved is written to a file elsewhere, if that can be
        done: its path, to be imported later. What could not be saved before is tried once more, and not
        for long: nobody sees what is waited for.
        """
        if self._store.save_problem is not None:
            timeout_s = min(timeout_s, CLOSING_IN_VAIN_S)
        self._is_closing = True
        for controller, _ in list(self._busy.values()):
            controller.shut_down()
        if self._store.close(timeout_s):
            return None
        unsaved = [c.id for c in self._store.conversations()]
        rescue = Path(tempfile.gettempdir()) / f"stratum-unsaved-{time.time():.0f}.json"
        try:
            export_json(self._store, rescue, unsaved)
        except EngineError as error:
            logger.warning("what is not saved cannot be written elsewhere: %s", error.code)
            return None
        return rescue

    # -- the list --------------------------------------------------------------------------------

    def conversations(self) -> list[Conversation]:
        """All that are not deleted and not blank, the latest first."""
        return [c for c in self._store.conversations() if not _is_blank(c)]

    def new_conversation(self) -> str:
        """The id of a blank conversation; it is listed and kept once it has a message or a draft.

        A blank one that is there already is given again.
        """
        for conversation_id in list(self._blank):
            controller = self._controllers.get(conversation_id)
            is_stored = self._is_stored(conversation_id)
            if controller.is_blank if controller is not None else not is_stored:
                return conversation_id
            if is_stored:
                del self._blank[conversation_id]
        conversation = Conversation(id=new_id(), settings=self.presets.default_settings())
        self._blank[conversation.id] = conversation
        return conversation.id

    def controller(self, conversation_id: str) -> ChatController:
        """The controller of a conversation, always the same one.

        Raises:
            KeyError: there is no such conversation.
            HistoryError: it cannot be read.
        """
        controller = self._controllers.get(conversation_id)
        if controller is None:
            try:
                conversation = self._store.conversation(conversation_id)
            except KeyError:
                conversation = self._blank[conversation_id]
            controller = ChatController(self._store, self._engine, conversation)
            self._controllers[conversation_id] = controller
            self._listen(controller, conversation_id)
        self._keep(conversation_id, controller)
        idle = [key for key, kept in self._kept.items() if not kept.is_working]
        for key in idle[: max(len(self._kept) - KEPT_CONTROLLERS, 0)]:
            del self._kept[key]
        return controller

    def _keep(self, conversation_id: str, controller: ChatController) -> None:
        self._kept[conversation_id] = controller
        self._kept.move_to_end(conversation_id)

    def _listen(self, controller: ChatController, conversation_id: str) -> None:
        # Held weakly: a controller lives as long as somebody shows it, or it is busy.
        weak = weakref.ref(controller)

        def note_activity(_activity: object) -> None:
            strong = weak()
            if strong is not None:
                self._note_busy(conversation_id, strong)

        def note_end(message_id: str) -> None:
            began_s = self._busy.get(conversation_id, (None, time.monotonic()))[1]
            if not self._is_closing:
                self.answer_ended.emit(conversation_id, message_id, time.monotonic() - began_s)
            strong = weak()
            if strong is not None:
                self._note_busy(conversation_id, strong)

        controller.activity_changed.connect(note_activity)
        controller.answer_ended.connect(note_end)
        controller.listing_changed.connect(self._note_listing)

    def _note_busy(self, conversation_id: str, controller: ChatController) -> None:
        was_busy = conversation_id in self._busy
        if controller.is_busy == was_busy:
            return
        if controller.is_busy:
            self._busy[conversation_id] = (controller, time.monotonic())
        else:
            # Not let go here: this is called from a signal of its own.
            self._keep(conversation_id, controller)
            del self._busy[conversation_id]
        self.busy_changed.emit(len(self._busy))

    def _note_listing(self) -> None:
        if not self._listing.isActive():
            self._listing.start(0)

    @property
    def num_busy(self) -> int:
        """How many answers are being made."""
        return len(self._busy)

    def is_busy(self, conversation_id: str) -> bool:
        """Whether this conversation's answer is being made."""
        return conversation_id in self._busy

    def rename(self, conversation_id: str, title: str) -> None:
        """Give a conversation a title; an empty one brings back the first line."""
        self.controller(conversation_id).rename(title)

    def delete(self, conversation_id: str) -> None:
        """Delete a conversation, and stop its answer; `restore` brings it back."""
        if conversation_id in self._blank and not self._is_stored(conversation_id):
            return
        controller = self._controllers.get(conversation_id)
        if controller is not None:
            controller.stop()
        self._store.delete(conversation_id)
        self._tell_controller(conversation_id)
        self._note_listing()

    def restore(self, conversation_id: str) -> None:
        """Undo a deletion."""
        self._store.restore(conversation_id)
        self._tell_controller(conversation_id)
        self._note_listing()

    def _tell_controller(self, conversation_id: str) -> None:
        controller = self._controllers.get(conversation_id)
        if controller is not None:
            controller.replace_conversation(self._store.conversation(conversation_id))

    def _is_stored(self, conversation_id: str) -> bool:
        try:
            self._store.conversation(conversation_id)
        except KeyError:
            return False
        return True

    def branch(self, conversation_id: str, message_id: str) -> str:
        """A new conversation with a copy of the path up to this message; its id.

        Raises:
            HistoryError: the conversation cannot be read.
        """
        whole = gather(self._store, conversation_id)
        by_id = {message.id: message for message in whole.messages}
        path = []
        current: str | None = message_id
        while current in by_id and current is not None:
            path.append(by_id.pop(current))
            current = path[-1].parent_id
        conversation = whole.conversation
        now = time.time()
        copy = Conversation(
            id=conversation.id,
            title=conversation.title,
            has_own_title=conversation.has_own_title,
            active_leaf=message_id,
            settings=conversation.settings,
            draft=Draft(),
            created_at=now,
            updated_at=now,
        )
        new = add_to_store(
            self._store, WholeConversation(copy, tuple(reversed(path)), whole.attachments)
        )
        self._note_listing()
        return new

    # -- searching -------------------------------------------------------------------------------

    def search(self, query: str) -> None:
        """Search titles and texts in the background; `search_finished` brings the result.

        Only the result of the latest call is delivered.
        """
        if self._search is not None:
            self._search.cancel()
        store = self._store

        def work(_task: Task[None]) -> list[SearchHit]:
            return store.search(query)

        def show(hits: list[SearchHit]) -> None:
            self._search = None
            self.search_finished.emit(query, hits)

        def say(error: EngineError) -> None:
            self._search = None
            self.notice.emit(_problem(error))
            self.search_finished.emit(query, [])

        self._search = in_background(self, work, on_success=show, on_failure=say)

    # -- files -----------------------------------------------------------------------------------

    def export_json(self, path: Path, conversation_ids: Sequence[str] | None = None) -> None:
        """Write conversations (None = all) to one file, without loss, in the background."""
        chosen = conversation_ids
        ids = [c.id for c in self.conversations()] if chosen is None else list(chosen)
        self._transfer(lambda: export_json(self._store, path, ids))

    def export_markdown(self, path: Path, conversation_id: str, words: Words | None = None) -> None:
        """Write the shown path of a conversation for people to read, in the background."""
        controller = self.controller(conversation_id)
        conversation, messages = controller.conversation, controller.path()

        def work() -> None:
            text = to_markdown(conversation, messages, words)
            write_atomically(path, text.encode("utf-8", "replace"))

        self._transfer(work)

    def import_file(self, path: Path) -> None:
        """Add the conversations of a JSON or Markdown file, in the background."""

        def work() -> list[str]:
            if path.suffix.lower() in MARKDOWN_SUFFIXES:
                return [add_to_store(self._store, read_markdown(path))]
            return [add_to_store(self._store, whole) for whole in read_json(path)]

        self._transfer(work)

    def _transfer(self, work: Callable[[], list[str] | None]) -> None:
        def run(_task: Task[None]) -> list[str]:
            return work() or []

        def show(ids: list[str]) -> None:
            self.transfer_finished.emit(None, ids)
            self._note_listing()

        def say(error: EngineError) -> None:
            self.transfer_finished.emit(_problem(error), [])

        in_background(self, run, on_success=show, on_failure=say)


def _problem(error: EngineError) -> Problem:
    return Problem(error.code, error.message, dict(error.params))


def _is_blank(conversation: Conversation) -> bool:
    return (
        conversation.active_leaf is None
        and conversation.draft.is_empty
        and not conversation.has_own_title
    )
