"""The chat as a whole: the list of conversations, the open one, and its settings.

    ChatView(context)

Conversations are the `ChatService`'s; closing or deleting this widget changes nothing about them.
"""

from __future__ import annotations

import gc
import logging

from PySide6.QtCore import QEvent, Qt, QTimer
from PySide6.QtGui import QGuiApplication, QResizeEvent, QShortcut, QShowEvent
from PySide6.QtWidgets import QSplitter, QVBoxLayout, QWidget

from app.chat.view.conversation_list import ConversationList
from app.chat.view.pane import ChatPane
from app.chat.view.problems import problem_words
from app.chat.view.settings_panel import SettingsPanel
from app.chat.view.shortcuts import Key, KeyGroup, KeyOverview, set_up_keys
from app.chat.view.transcript.widgets import MessageAction
from app.context import AppContext
from app.history.records import ConversationSettings, Problem, Role
from engine.core.errors import EngineError

logger = logging.getLogger(__name__)


def _spare_what_stays() -> None:
    """Take what is loaded by now out of the garbage collector's rounds.

    A full round over all modules took 53 ms (2026-11-30), in the middle of an answer. What is never
    freed need not be looked at again and again.
    """
    gc.collect()
    gc.freeze()


_LIST_EMS = 17
_PANEL_EMS = 20
# Below these widths there is no room for the sides; they are opened over it by their keys.
_LIST_FROM_EMS = 48
_PANEL_FROM_EMS = 70


class ChatView(QWidget):
    """See above.

    Attributes:
        conversations: the list.
        pane: the open conversation.
        panel: its settings.
    """

    def __init__(self, context: AppContext, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._service = context.open_chats()
        self._conversation_id = ""
        self._wants_list = True
        self._shortcuts: list[QShortcut] = []
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        self._service.saving_changed.connect(self._saving_changed)
        self._build()
        self._open_latest()
        QTimer.singleShot(0, self, _spare_what_stays)

    def _build(self) -> None:
        """Make all that is shown, in the language of now."""
        self.conversations = ConversationList(self._service, self)
        self.pane = ChatPane(self)
        self.panel = SettingsPanel(self._service.presets, self)
        self.splitter = QSplitter(Qt.Orientation.Horizontal, self)
        self.splitter.setChildrenCollapsible(False)
        self.splitter.setHandleWidth(1)
        em = self.fontMetrics().height()
        for place, widget in enumerate((self.conversations, self.pane, self.panel)):
            self.splitter.addWidget(widget)
            self.splitter.setStretchFactor(place, 1 if widget is self.pane else 0)
        self.splitter.setSizes([em * _LIST_EMS, em * 60, em * _PANEL_EMS])
        self.conversations.setMinimumWidth(em * 10)
        self.panel.hide()
        layout = self.layout()
        if layout is not None:
            layout.addWidget(self.splitter)
        self._groups = self._keys()
        self._shortcuts = set_up_keys(self, self._groups)
        # Whoever gives the chat the keyboard gives it to the composer.
        self.setFocusProxy(self.pane.composer.edit)
        self._connect()

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802  # Qt's name
        """Another language: everything is made anew; conversations go on meanwhile."""
        super().changeEvent(event)
        if event.type() is QEvent.Type.LanguageChange:
            QTimer.singleShot(0, self, self._rebuild)

    def _rebuild(self) -> None:
        conversation_id = self._conversation_id
        self._let_go()
        for shortcut in self._shortcuts:
            shortcut.setEnabled(False)
            shortcut.deleteLater()
        self.splitter.hide()
        self.splitter.deleteLater()
        self._build()
        self.open(conversation_id)
        self._fit_list()

    def _let_go(self) -> None:
        """The open conversation is shown no longer."""
        self.panel.flush()
        controller = self.pane.controller
        if controller is not None:
            controller.conversation_changed.disconnect(self._settings_changed)
        self.pane.show_conversation(None)
        self._conversation_id = ""

    def _connect(self) -> None:
        service, pane = self._service, self.pane
        self.conversations.chosen.connect(self.open)
        self.conversations.new_wanted.connect(self.new)
        self.conversations.deleted.connect(self._deleted)
        pane.branch_wanted.connect(self._branch)
        pane.settings_wanted.connect(self.toggle_panel)
        pane.list_wanted.connect(self.toggle_list)
        pane.asking.connect(self.panel.flush)
        self.panel.changed.connect(self._put_settings)
        self.panel.close_wanted.connect(self.toggle_panel)
        self.panel.refused.connect(lambda words: pane.notice.say(words, seconds=15))
        service.facts_changed.connect(pane.show_facts)
        service.facts_changed.connect(self.panel.show_facts)
        # Queued: what is found while a conversation is opened is said when it is there.
        service.notice.connect(self._say_notice, Qt.ConnectionType.QueuedConnection)
        pane.show_facts(service.facts)
        self.panel.show_facts(service.facts)
        if service.save_problem is not None:
            self._saving_changed(service.save_problem)

    # -- conversations -----------------------------------------------------------------------------

    @property
    def conversation_id(self) -> str:
        """The open conversation."""
        return self._conversation_id

    def _open_latest(self) -> None:
        found = self._service.conversations()
        if found:
            self.open(found[0].id)
        else:
            self.new()

    def new(self) -> None:
        """Begin a conversation."""
        self.conversations.search.clear()
        controller = self.pane.controller
        is_blank = controller is not None and not controller.path() and controller.draft.is_empty
        if not is_blank:
            self.open(self._service.new_conversation())
        self.focus_composer()

    def open(self, conversation_id: str, message_id: str = "", text_offset: int = 0) -> None:
        """Show a conversation, or a place in one of its messages."""
        if conversation_id != self._conversation_id:
            try:
                controller = self._service.controller(conversation_id)
            except KeyError:
                return
            except EngineError as error:
                logger.warning("a conversation cannot be opened: %s", error.code)
                self.pane.say(Problem(error.code, error.message, error.params))
                return
            self._let_go()
            self._conversation_id = conversation_id
            self.pane.show_conversation(controller)
            controller.conversation_changed.connect(self._settings_changed)
            self.panel.show_settings(controller.conversation.settings)
            self.conversations.mark(conversation_id)
            if self._service.save_problem is not None:  # it holds for all conversations
                self._saving_changed(self._service.save_problem)
        if message_id:
            self._show_found(message_id, text_offset)
        else:
            self.focus_composer()

    def _show_found(self, message_id: str, text_offset: int) -> None:
        controller = self.pane.controller
        if controller is None:
            return
        if self.pane.transcript.section(message_id) is None:
            controller.show_version(message_id)  # it is on another branch
        self.pane.transcript.show_message(message_id, text_offset)

    def _deleted(self, conversation_id: str) -> None:
        if conversation_id != self._conversation_id:
            return
        self._let_go()
        self._open_latest()

    def _branch(self, message_id: str) -> None:
        self.open(self._service.branch(self._conversation_id, message_id))

    def _settings_changed(self, _conversation: object) -> None:
        controller = self.pane.controller
        if controller is not None:
            self.panel.show_settings(controller.conversation.settings)

    def _put_settings(self, settings: ConversationSettings) -> None:
        if self.pane.controller is not None:
            self.pane.controller.set_settings(settings)

    def _say_notice(self, problem: Problem) -> None:
        # Until it is closed: nobody may have looked when it came.
        self.pane.notice.say(problem_words(problem))

    def _saving_changed(self, problem: Problem | None) -> None:
        if problem is None:
            self.pane.notice.say(self.tr("Everything is saved again."), seconds=8)
        else:
            self.pane.notice.say(problem_words(problem))

    # -- what is shown -----------------------------------------------------------------------------

    def toggle_panel(self) -> None:
        """Show or hide the settings of the conversation."""
        self.panel.flush()
        is_shown = not self.panel.isVisibleTo(self)
        self.panel.setVisible(is_shown)
        em = self.fontMetrics().height()
        if is_shown:
            if self.width() < em * _PANEL_FROM_EMS:
                self.conversations.hide()
            self.panel.preset.setFocus(Qt.FocusReason.ShortcutFocusReason)
        else:
            self._fit_list()
            self.focus_composer()

    def toggle_list(self) -> None:
        """Show or hide the list of conversations."""
        self._wants_list = not self.conversations.isVisibleTo(self)
        self.conversations.setVisible(self._wants_list)

    def _fit_list(self) -> None:
        is_wide = self.width() >= _LIST_FROM_EMS * self.fontMetrics().height()
        self.conversations.setVisible(self._wants_list and is_wide)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """A narrow window has no room for the list."""
        before = event.oldSize().width()
        super().resizeEvent(event)
        limit = _LIST_FROM_EMS * self.fontMetrics().height()
        if before < 0 or (before < limit) != (event.size().width() < limit):
            self._fit_list()

    def showEvent(self, event: QShowEvent) -> None:
        """The keyboard begins in the composer."""
        super().showEvent(event)
        self.focus_composer()

    def focus_composer(self) -> None:
        """Write."""
        self.pane.composer.edit.setFocus(Qt.FocusReason.OtherFocusReason)

    # -- keys --------------------------------------------------------------------------------------

    def _keys(self) -> tuple[KeyGroup, ...]:
        return (
            KeyGroup(self.tr("Conversations"), self._conversation_keys()),
            KeyGroup(self.tr("Writing"), self._writing_keys()),
            KeyGroup(self.tr("Answers"), self._answer_keys()),
            KeyGroup(self.tr("Reading"), self._reading_keys()),
        )

    def _conversation_keys(self) -> tuple[Key, ...]:
        listed = self.conversations
        return (
            Key(("Ctrl+N",), self.tr("New conversation"), self.new),
            Key(("Ctrl+F", "Ctrl+K"), self.tr("Search conversations"), self._focus_search),
            Key(("Ctrl+PgDown",), self.tr("Next conversation"), lambda: listed.step(1)),
            Key(("Ctrl+PgUp",), self.tr("Previous conversation"), lambda: listed.step(-1)),
            Key(("F2",), self.tr("Rename the conversation"), self._rename),
            Key(
                ("Ctrl+Shift+D",),
                self.tr("Delete the conversation"),
                lambda: listed.delete(self._conversation_id),
            ),
            Key(
                ("Ctrl+Shift+S",),
                self.tr("Export as Markdown"),
                lambda: listed.export_markdown(self._conversation_id),
            ),
            Key(("Ctrl+B",), self.tr("Show or hide the list"), self.toggle_list),
            Key(("Ctrl+.",), self.tr("Settings of this conversation"), self.toggle_panel),
            Key(("F1", "Ctrl+/"), self.tr("This overview"), self.show_keys),
        )

    def _writing_keys(self) -> tuple[Key, ...]:
        return (
            Key(("Return",), self.tr("Send")),
            Key(("Shift+Return",), self.tr("New line")),
            Key(("Ctrl+L",), self.tr("Go to the message field"), self.focus_composer),
            Key(("Ctrl+O",), self.tr("Attach files"), self.pane.ask_for_files),
            Key(("Up",), self.tr("Edit the last message (in an empty field)")),
            Key(("Ctrl+Shift+E",), self.tr("Edit the last message"), self.pane.edit_last),
        )

    def _answer_keys(self) -> tuple[Key, ...]:
        return (
            Key(("Escape",), self.tr("Stop the answer")),
            Key(("Ctrl+Shift+X",), self.tr("Stop the answer"), self.pane.stop),
            Key(
                ("Ctrl+Shift+Return",),
                self.tr("Answer now, without more thinking"),
                self.pane.answer_now,
            ),
            Key(
                ("Ctrl+R",),
                self.tr("Another answer"),
                lambda: self._act_on_answer(MessageAction.REGENERATE),
            ),
            Key(
                ("Ctrl+Shift+O",),
                self.tr("Continue the answer"),
                lambda: self._act_on_answer(MessageAction.CONTINUE),
            ),
            Key(
                ("Alt+Left",),
                self.tr("Older version"),
                lambda: self._act_on_current(MessageAction.OLDER),
            ),
            Key(
                ("Alt+Right",),
                self.tr("Newer version"),
                lambda: self._act_on_current(MessageAction.NEWER),
            ),
            Key(
                ("Ctrl+Shift+C",),
                self.tr("Copy the answer"),
                lambda: self._act_on_current(MessageAction.COPY),
            ),
            Key(
                ("Ctrl+Shift+Backspace",),
                self.tr("Delete the chosen message, else the last answer"),
                lambda: self._act_on_current(MessageAction.DELETE),
            ),
            Key(("Ctrl+Shift+K",), self.tr("Copy the last code block"), self.copy_last_code),
            Key(("Ctrl+T",), self.tr("Show or hide the thinking"), self._toggle_thinking),
        )

    def _reading_keys(self) -> tuple[Key, ...]:
        transcript = self.pane.transcript
        return (
            Key(("Alt+Up",), self.tr("Previous message"), lambda: transcript.go_to_message(-1)),
            Key(("Alt+Down",), self.tr("Next message"), lambda: transcript.go_to_message(1)),
            Key(("Ctrl+End",), self.tr("Go to the end"), transcript.scroll_to_end),
            Key(("Menu",), self.tr("What can be done with the chosen message")),
            Key(("Ctrl+A",), self.tr("Select all")),
            Key(("Ctrl+C",), self.tr("Copy the selection, or the chosen message")),
        )

    def show_keys(self) -> None:
        """Show the overview of all keys."""
        KeyOverview(self._groups, self).open()

    def _rename(self) -> None:
        self._wants_list = True
        self.conversations.show()
        if self.conversations.is_searching:
            self.conversations.search.clear()
            self.conversations.refresh()
        self.conversations.rename_current()

    def _focus_search(self) -> None:
        self._wants_list = True
        self.conversations.show()
        self.conversations.search.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self.conversations.search.selectAll()

    def _act_on_answer(self, action: MessageAction) -> None:
        message = self.pane.last(Role.ASSISTANT)
        if message is not None:
            self.pane.act(action, message.id)

    def _act_on_current(self, action: MessageAction) -> None:
        """On the message that was chosen by keyboard, else on the last answer."""
        current = self.pane.transcript.current
        if current is not None and self.pane.transcript.hasFocus():
            self.pane.act(action, current.message.id)
        else:
            self._act_on_answer(action)

    def _toggle_thinking(self) -> None:
        transcript = self.pane.transcript
        section = transcript.current
        if section is None or not section.message.thinking:
            message = self.pane.last(Role.ASSISTANT)
            section = transcript.section(message.id) if message is not None else None
        if section is not None:
            section.toggle_thinking()

    def copy_last_code(self) -> None:
        """Copy the last code block of the conversation."""
        code = self.pane.transcript.last_code()
        if code is not None:
            QGuiApplication.clipboard().setText(code)
