"""What a person does in a day of use, done quickly, and a ledger of every message that must be kept.

    day = Day(shell, context, ledger)
    for number in range(30):
        day.round(number)

It acts on the widgets and their functions as buttons do; it does not know what is measured.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import weakref
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil
from PySide6.QtCore import QEventLoop, QTimer
from PySide6.QtWidgets import QDialog

from app.app_settings import Theme
from app.chat.controller import ChatController
from app.chat.view.chat_view import ChatView
from app.chat.view.transcript.widgets import MessageAction
from app.context import AppContext
from app.history.records import Message, MessageState, Role
from app.main_window import MainWindow
from app.settings.settings_view import PageName, SettingsView
from app.shell import Shell
from app.supervisor.state import Phase
from app.views import View
from bench.app_chat import PART
from engine.core.language import Language

PATIENCE_MS = 60_000
NO_THINKING = "</think>\n\n"  # the template has begun it
SHORT = "Yes, *exactly*: see `mean` and [the page](https://example.com/mean)."
LONG = "".join(PART.format(n=number) for number in range(5))
SLOW = "Every word of this takes its time. " * 400
SCRIPT: dict[str, object] = {
    "format": 1,
    "context": 32_768,
    "answers": [
        {"when": "slowly", "text": NO_THINKING + SLOW, "times": 0, "delay_ms": 10},
        {
            "when": "at length",
            "text": "<think>\nFirst this.\n</think>\n\n" + LONG,
            "times": 0,
            "group": 24,
            "delay_ms": 4,
        },
        {"text": NO_THINKING + SHORT, "times": 0, "delay_ms": 1},
    ],
}


class Waiting:
    """Runs the event loop until something is so."""

    def __init__(self) -> None:
        self._loop = QEventLoop()
        self._condition: Callable[[], bool] = bool
        self._look = QTimer(self._loop)
        self._look.timeout.connect(self._check)
        self._end = QTimer(self._loop)
        self._end.setSingleShot(True)
        self._end.timeout.connect(self._loop.quit)

    def spin(self, seconds: float) -> None:
        """Let the event loop run so long."""
        self._end.start(round(seconds * 1000))
        self._loop.exec()

    def until(self, condition: Callable[[], object], what: str) -> None:
        """Let it run until this holds.

        Raises:
            TimeoutError: it did not for a minute.
        """
        if condition():
            return
        self._condition = lambda: bool(condition())
        self._end.start(PATIENCE_MS)
        self._look.start(5)
        self._loop.exec()
        self._look.stop()
        self._end.stop()
        self._condition = bool
        if not condition():
            raise TimeoutError(f"Waited a minute in vain: {what}.")

    def _check(self) -> None:
        if self._condition():
            self._loop.quit()


@dataclass(frozen=True, slots=True)
class Entry:
    """A message that must be in the file.

    Attributes:
        conversation_id: in this conversation.
        role: whose it is.
        text: all of it; None for an answer: what arrived.
    """

    conversation_id: str
    role: Role
    text: str | None


class Ledger:
    """What was sent and what arrived, kept beside the app."""

    def __init__(self) -> None:
        self._entries: dict[str, Entry] = {}
        self._heard: dict[str, str] = {}
        self._deleted: set[str] = set()
        self._known: weakref.WeakSet[ChatController] = weakref.WeakSet()

    def listen(self, controller: ChatController) -> None:
        """Note what arrives from now on."""
        if controller not in self._known:
            self._known.add(controller)
            controller.text_arrived.connect(self._hear)

    def _hear(self, message_id: str, text: str) -> None:
        self._heard[message_id] = self._heard.get(message_id, "") + text

    def note(self, message: Message, text: str | None = None) -> None:
        """This message must be kept; the person's own with the text that was written."""
        self._entries[message.id] = Entry(message.conversation_id, message.role, text)

    def note_deleted(self, message_id: str) -> None:
        """The person has deleted it: only its place is kept."""
        self._deleted.add(message_id)

    def text_of(self, message_id: str) -> str:
        """What it must be."""
        entry = self._entries[message_id]
        return self._heard.get(message_id, "") if entry.text is None else entry.text

    def count(self, role: Role) -> int:
        """How many messages of one side must be kept."""
        return sum(entry.role is role for entry in self._entries.values())

    def faults(self, path: Path) -> list[str]:
        """What differs in the file, a sentence each; for after the app's end."""
        connection = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)
        try:
            rows = connection.execute(
                "SELECT id, conversation_id, role, text, state FROM messages"
            ).fetchall()
            (check,) = connection.execute("PRAGMA integrity_check").fetchone()
        finally:
            connection.close()
        found = [] if check == "ok" else [f"The file is damaged: {check}."]
        kept = {row[0]: row[1:] for row in rows}
        found += [f"Message {lost} is not in the file." for lost in self._entries.keys() - kept]
        found += [f"Message {extra} was never sent." for extra in kept.keys() - self._entries]
        for message_id in self._entries.keys() & kept.keys():
            found += self._differences(message_id, *kept[message_id])
        asked = Counter((row[1], row[3]) for row in rows if row[2] == Role.USER.value and row[3])
        found += [f"“{text}” is there {n} times." for (_, text), n in asked.items() if n > 1]
        return found

    def _differences(
        self, message_id: str, conversation_id: str, role: str, text: str, state: str
    ) -> list[str]:
        entry = self._entries[message_id]
        wanted = "" if message_id in self._deleted else self.text_of(message_id)
        if (conversation_id, role) != (entry.conversation_id, entry.role.value):
            return [f"Message {message_id} is in another place."]
        if text.strip() != wanted.strip():
            return [f"Message {message_id} has {len(text)} characters of {len(wanted)}."]
        is_whole = entry.role is Role.ASSISTANT and state == MessageState.COMPLETE.value
        if is_whole and text.strip() not in {SHORT, LONG.strip(), SLOW.strip()}:
            return [f"Answer {message_id} is not what the engine said."]
        if state == MessageState.GROWING.value:
            return [f"Message {message_id} is not ended."]
        return []


class Day:
    """One app, and what is done with it."""

    def __init__(self, shell: Shell, context: AppContext, ledger: Ledger) -> None:
        self._shell, self._context, self._ledger = shell, context, ledger
        self.waiting = Waiting()
        self.num_kills = 0
        self._conversations: list[str] = []
        self._acts = (
            self._stop_and_continue,
            self._edit,
            self._another_answer,
            self._branch,
            self._delete_messages,
            self._look_elsewhere,
            self._delete_conversations,
        )

    # -- parts of the app --------------------------------------------------------------------------

    @property
    def window(self) -> MainWindow:
        """The window."""
        if self._shell.window is None:
            raise RuntimeError("the window was never shown")
        return self._shell.window

    @property
    def view(self) -> ChatView:
        """The chat."""
        widget = self.window.widget(View.CHAT)
        if not isinstance(widget, ChatView):
            raise TypeError("the chat is not open")
        return widget

    @property
    def controller(self) -> ChatController:
        """The open conversation."""
        controller = self.view.pane.controller
        if controller is None:
            raise RuntimeError("no conversation is open")
        return controller

    def begin(self) -> None:
        """Show the window and wait until the model is there."""
        self._shell.start(at_login=False)
        self.waiting.until(lambda: self.window.widget(View.CHAT) is not None, "the chat")
        self._await_engine()

    def _await_engine(self) -> None:
        state = self._context.supervisor
        self.waiting.until(lambda: state.state.phase is Phase.READY, "an engine that is ready")

    # -- a round -----------------------------------------------------------------------------------

    def round(self, number: int) -> None:
        """A new conversation with some of everything; at its end nothing is open."""
        self.view.new()
        self._ask(f"Question {number}: is it so?")
        self._conversations.append(self.view.conversation_id)
        self._ask(f"Question {number}: tell me at length")
        self._acts[number % len(self._acts)](number)
        self._search(number)
        self._visit(number)
        if number % 8 == 5:
            self._kill(number, is_busy=number % 16 == 5)
        self.window.open_view(View.CHAT)
        self.view.new()
        # Until its undo is over a notice holds a conversation.
        self.view.pane.notice.hide()
        self.view.conversations.notice.hide()
        self.waiting.spin(0.2)

    def _send(self, text: str) -> Message:
        """Send, and note both messages; the answer, which grows."""
        controller, pane = self.controller, self.view.pane
        self._ledger.listen(controller)
        pane.composer.put_text(text)
        pane.send()
        question, answer = controller.path()[-2:]
        self._ledger.note(question, text)
        self._ledger.note(answer)
        return answer

    def _await_end(self, controller: ChatController) -> None:
        self.waiting.until(lambda: not controller.is_busy, "the end of an answer")

    def _ask(self, text: str) -> None:
        self._send(text)
        self._await_end(self.controller)

    def _await_text(self, controller: ChatController, message_id: str, more_than: int) -> None:
        self.waiting.until(
            lambda: len(controller.message(message_id).text) > more_than, "words of an answer"
        )

    def _stop_and_continue(self, number: int) -> None:
        answer = self._send(f"Question {number}: slowly, and stopped")
        controller = self.controller
        for _part in range(2):
            self._await_text(controller, answer.id, len(controller.message(answer.id).text) + 30)
            self.view.pane.stop()
            self._await_end(controller)
            if _part == 0:
                self.view.pane.act(MessageAction.CONTINUE, answer.id)

    def _edit(self, number: int) -> None:
        pane = self.view.pane
        pane.edit_last()
        self._send(f"Question {number}: other words")
        self._await_end(self.controller)

    def _another_answer(self, _number: int) -> None:
        pane, controller = self.view.pane, self.controller
        pane.act(MessageAction.REGENERATE, controller.path()[-1].id)
        self._ledger.note(controller.path()[-1])
        self._await_end(controller)
        pane.act(MessageAction.OLDER, controller.path()[-1].id)
        pane.act(MessageAction.NEWER, controller.path()[-1].id)

    def _branch(self, number: int) -> None:
        before = self.controller.path()[:2]
        self.view.pane.act(MessageAction.BRANCH, before[-1].id)
        for old, new in zip(before, self.controller.path(), strict=True):
            self._ledger.note(new, self._ledger.text_of(old.id))
        self._ask(f"Question {number}: and in the branch?")

    def _delete_messages(self, number: int) -> None:
        controller, pane = self.controller, self.view.pane
        pane.act(MessageAction.DELETE, controller.path()[-1].id)
        self.waiting.spin(0.05)
        controller.undo_delete()
        self._ask(f"Question {number}: to be deleted")
        message_id = controller.path()[-1].id
        pane.act(MessageAction.DELETE, message_id)
        self._ledger.note_deleted(message_id)

    def _look_elsewhere(self, number: int) -> None:
        """Another conversation, and a closed window, while an answer is made."""
        self._send(f"Question {number}: tell me at length, I am elsewhere")
        controller, here = self.controller, self.view.conversation_id
        for other in self._conversations[-9:-1]:
            self.view.open(other)
            self._ledger.listen(self.controller)
            self.waiting.spin(0.02)
        self.window.hide()
        self._await_end(controller)
        self._shell.raise_window()
        self.view.open(here)

    def _delete_conversations(self, number: int) -> None:
        view, service = self.view, self._context.open_chats()
        here = view.conversation_id
        view.conversations.delete(here)
        self.waiting.spin(0.05)
        service.restore(here)
        view.new()
        self._ask(f"Question {number}: nobody needs this")
        view.conversations.delete(view.conversation_id)
        view.open(here)

    def _search(self, number: int) -> None:
        listed = self.view.conversations
        listed.search.setText(f"Question {max(number - 3, 0)}")
        self.waiting.until(
            lambda: any(entry.message_id for entry in listed.model.entries), "what is found"
        )
        listed.step(1)
        self._ledger.listen(self.controller)
        self.waiting.spin(0.05)
        listed.search.clear()

    def _visit(self, number: int) -> None:
        """All that is beside the chat."""
        self.view.toggle_panel()
        self.view.show_keys()
        self.waiting.spin(0.05)
        for dialog in self.view.findChildren(QDialog):
            dialog.close()
        self.view.toggle_panel()
        self.window.open_view(View.MONITOR)
        self.waiting.spin(0.1)
        store = self._context.app_settings
        if number % 3 == 0:
            theme = Theme.DARK if store.value.theme is not Theme.DARK else Theme.LIGHT
            store.put(store.value.model_copy(update={"theme": theme}))
        if number % 4 == 1:
            is_english = store.value.language is not Language.CHINESE
            language = Language.CHINESE if is_english else Language.ENGLISH
            store.put(store.value.model_copy(update={"language": language}))
            self.waiting.spin(0.05)
        self._context.requests.show_about.emit()
        self._context.requests.show_log.emit()
        self.window.open_view(View.SETTINGS)
        settings = self.window.widget(View.SETTINGS)
        if not isinstance(settings, SettingsView):
            raise TypeError("the settings are not open")
        for name in PageName:
            settings.open_page(name)
            self.waiting.spin(0.03)
        self.window.hide()
        self.waiting.spin(0.05)
        self._shell.open_view(View.CHAT)

    def _kill(self, number: int, *, is_busy: bool) -> None:
        """The engine's process dies, in mid-answer or before a question."""
        state = self._context.supervisor.state
        if state.pid is None:
            raise RuntimeError("no engine runs")
        self.view.new()
        if is_busy:
            answer = self._send(f"Question {number}: slowly, and killed")
            self._await_text(self.controller, answer.id, 30)
        family = psutil.Process(state.pid)
        os.kill(family.pid, signal.SIGKILL if os.name != "nt" else signal.SIGTERM)
        self.num_kills += 1
        if not is_busy:
            self._send(f"Question {number}: are you there?")
        self._await_end(self.controller)
        self._await_engine()
        self.view.new()  # the script goes by every word of a conversation
        self._ask(f"Question {number}: and again?")
