"""One conversation on the screen: its messages, the composer, and what was not done.

The pane shows a controller and lets it go again; answers go on without it.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import QSize, Qt, QTimer, Signal, SignalInstance
from PySide6.QtGui import QDragEnterEvent, QDropEvent, QGuiApplication, QResizeEvent
from PySide6.QtWidgets import (
    QFileDialog,
    QHBoxLayout,
    QLabel,
    QSizePolicy,
    QStackedLayout,
    QVBoxLayout,
    QWidget,
)

from app.chat.activity import Activity, ModelFacts, Phase
from app.chat.controller import ChatController
from app.chat.view import words
from app.chat.view.composer import Composer, SendState, is_picture
from app.chat.view.notice_bar import NoticeBar
from app.chat.view.problems import problem_words
from app.chat.view.theme import theme_of
from app.chat.view.transcript.reading import ReadingTranscript
from app.chat.view.transcript.widgets import MessageAction, colour_text
from app.history.records import Conversation, Draft, Message, Problem, Role
from app.look.icons import app_icon, icon_button
from app.look.look import enlarge
from engine.core.config import Effort

_REFUSED_S = 15.0
_UNDO_S = 20.0
_COMPOSER_EMS = 52


class ChatPane(QWidget):
    """See above.

    Signals:
        branch_wanted: id of a message from which a new conversation begins.
        settings_wanted: show or hide the settings of the conversation.
        list_wanted: show or hide the list of conversations.
        asking: the model is about to be asked; what was typed elsewhere must be taken now.
    """

    asking = Signal()

    branch_wanted = Signal(str)
    settings_wanted = Signal()
    list_wanted = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.controller: ChatController | None = None
        self._links: list[tuple[SignalInstance, object]] = []
        self._facts = ModelFacts()
        self._editing_id = ""
        self._kept_draft = ""
        self._num_pending = 0
        self.title = QLabel(self)
        self.transcript = ReadingTranscript(self)
        self.greeting = QWidget(self)
        self.notice = NoticeBar(self)
        self.composer = Composer(self)
        self.setAcceptDrops(True)
        self._set_up_greeting()
        self._lay_out()
        self._connect()

    # -- how it looks ------------------------------------------------------------------------------

    def _set_up_greeting(self) -> None:
        em = self.fontMetrics().height()
        layout = QVBoxLayout(self.greeting)
        layout.addStretch(2)
        sign = QLabel(self.greeting)
        sign.setPixmap(app_icon().pixmap(QSize(em * 4, em * 4)))
        sign.setAlignment(Qt.AlignmentFlag.AlignHCenter)
        layout.addWidget(sign)
        question = QLabel(self.tr("What shall we talk about?"), self.greeting)
        enlarge(question, 1.5, is_bold=True)
        question.setAlignment(Qt.AlignmentFlag.AlignHCenter)
        question.setWordWrap(True)
        layout.addWidget(question)
        self._greeting_facts = QLabel(self.greeting)
        self._greeting_facts.setTextFormat(Qt.TextFormat.PlainText)
        self._greeting_facts.setAlignment(Qt.AlignmentFlag.AlignHCenter)
        self._greeting_facts.setWordWrap(True)
        colour_text(self._greeting_facts, theme_of(self).muted)
        layout.addWidget(self._greeting_facts)
        layout.addStretch(3)

    def _lay_out(self) -> None:
        em = self.fontMetrics().height()
        head = QHBoxLayout()
        head.setContentsMargins(round(em * 0.6), round(em * 0.35), round(em * 0.6), 0)
        self.list_button = icon_button(self, "menu", self.tr("Conversations (Ctrl+B)"))
        self.settings_button = icon_button(
            self, "settings", self.tr("Settings of this conversation (Ctrl+.)")
        )
        self.list_button.clicked.connect(lambda _checked=False: self.list_wanted.emit())
        self.settings_button.clicked.connect(lambda _checked=False: self.settings_wanted.emit())
        self.title.setTextFormat(Qt.TextFormat.PlainText)
        self.title.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        head.addWidget(self.list_button)
        head.addWidget(self.title, 1)
        head.addWidget(self.settings_button)
        self._middle = QStackedLayout()
        self._middle.addWidget(self.transcript)
        self._middle.addWidget(self.greeting)
        self._below = QWidget(self)
        below = QVBoxLayout(self._below)
        below.setContentsMargins(0, 0, 0, 0)
        below.setSpacing(round(em * 0.4))
        below.addWidget(self.notice)
        below.addWidget(self.composer)
        centred = QHBoxLayout()
        centred.setContentsMargins(
            round(em * 0.8), round(em * 0.2), round(em * 0.8), round(em * 0.8)
        )
        self._below.setMaximumWidth(em * _COMPOSER_EMS)
        self._below.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Maximum)
        centred.addStretch(1)
        centred.addWidget(self._below, 1000)
        centred.addStretch(1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        layout.addLayout(head)
        layout.addLayout(self._middle, 1)
        layout.addLayout(centred)
        self.setMinimumWidth(em * 20)
        self.setBackgroundRole(self.transcript.viewport().backgroundRole())
        self.setAutoFillBackground(True)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """The title takes what room there is."""
        super().resizeEvent(event)
        self._show_title()

    # -- wiring ------------------------------------------------------------------------------------

    def _connect(self) -> None:
        composer, transcript = self.composer, self.transcript
        composer.send_wanted.connect(self.send)
        composer.stop_wanted.connect(self.stop)
        composer.text_edited.connect(self._text_edited)
        composer.files_given.connect(self.attach)
        composer.picture_given.connect(self._attach_picture)
        composer.attach_wanted.connect(self.ask_for_files)
        composer.attachment_removed.connect(self._remove_attachment)
        composer.recall_wanted.connect(self.edit_last)
        composer.edit_cancelled.connect(self.cancel_edit)
        composer.effort_chosen.connect(self._choose_effort)
        transcript.action_wanted.connect(self.act)
        transcript.answer_now_wanted.connect(self.answer_now)
        transcript.tool_answered.connect(self._answer_tool)
        transcript.typed.connect(self._type)

    def show_conversation(self, controller: ChatController | None) -> None:
        """Show another conversation."""
        if controller is self.controller:
            return
        self.leave()
        self.controller = controller
        self.transcript.fetch = None if controller is None else controller.message
        self.transcript.clear()
        self.notice.hide()
        if controller is None:
            self.composer.put_text("")
            return
        for signal, slot in (
            (controller.path_changed, self._show_path),
            (controller.message_changed, self._show_message),
            (controller.text_arrived, self._add_text),
            (controller.thinking_arrived, self._add_thinking),
            (controller.activity_changed, self._show_activity),
            (controller.conversation_changed, self._show_conversation),
            (controller.draft_changed, self._show_draft),
            (controller.attachments_pending, self._show_pending),
            (controller.refused, self._refused),
        ):
            signal.connect(slot)
            self._links.append((signal, slot))
        self._show_conversation(controller.conversation)
        self._show_path()
        self._show_activity(controller.activity)
        self._show_draft(controller.draft)
        self.composer.put_text(controller.draft.text)
        self.transcript.scroll_to_end()

    def leave(self) -> None:
        """Let the conversation go; it goes on."""
        if self._editing_id:
            self.cancel_edit()
        for signal, slot in self._links:
            signal.disconnect(slot)
        self._links = []
        self.controller = None

    def show_facts(self, facts: ModelFacts) -> None:
        """Know the model."""
        self._facts = facts
        lines = [facts.name] if facts.name else []
        if facts.context_size:
            lines.append(self.tr("Context: {0} tokens").format(words.number(facts.context_size)))
        self._greeting_facts.setText("  ·  ".join(lines))
        if self.controller is not None:
            self._show_conversation(self.controller.conversation)

    # -- what the controller says ------------------------------------------------------------------

    def _show_path(self) -> None:
        controller = self.controller
        if controller is None:
            return
        path = controller.path()
        self.transcript.show_messages(path, controller.siblings)
        self._middle.setCurrentWidget(self.transcript if path else self.greeting)

    def _show_message(self, message_id: str) -> None:
        if self.controller is not None and self.transcript.section(message_id) is not None:
            message = self.controller.message(message_id)
            self.transcript.update_message(message, self.controller.siblings(message_id))

    def _add_text(self, message_id: str, text: str) -> None:
        self.transcript.append_text(message_id, text)

    def _add_thinking(self, message_id: str, text: str) -> None:
        section = self.transcript.section(message_id)
        if section is not None and not section.message.thinking:
            # The fold appears, with all thinking so far. Not at once: the text that came with it
            # is told only now.
            QTimer.singleShot(0, self, lambda: self._show_message(message_id))
        else:
            self.transcript.append_thinking(message_id, text)

    def _show_activity(self, activity: Activity) -> None:
        self.transcript.show_activity(activity)
        state = SendState.SEND
        if activity.phase is Phase.STOPPING:
            state = SendState.STOPPING
        elif activity.is_busy:
            state = SendState.STOP
        self.composer.set_state(state)

    def _show_conversation(self, conversation: Conversation) -> None:
        settings = conversation.settings
        self._show_title()
        self.composer.show_efforts(self._facts.efforts, settings.effort, self._facts.default_effort)

    def _show_title(self) -> None:
        title = self.controller.conversation.title if self.controller is not None else ""
        title = title or self.tr("New conversation")
        metrics = self.title.fontMetrics()
        width = max(10, self.title.width())
        self.title.setText(metrics.elidedText(title, Qt.TextElideMode.ElideRight, width))
        self.title.setToolTip(title)

    def _show_draft(self, draft: Draft) -> None:
        if self._editing_id:
            return
        if draft.text != self.composer.text:
            self.composer.put_text(draft.text)
        self.composer.show_attachments(draft.attachments, self._num_pending)

    def _show_pending(self, count: int) -> None:
        self._num_pending = count
        if self.controller is not None and not self._editing_id:
            self.composer.show_attachments(self.controller.draft.attachments, count)

    def _refused(self, problem: Problem) -> None:
        self.say(problem)

    def say(self, problem: Problem) -> None:
        """Say why something was not done."""
        self.notice.say(problem_words(problem), seconds=_REFUSED_S)

    # -- what the person does ----------------------------------------------------------------------

    def send(self) -> None:
        """Send what is written, or the new version of a message."""
        controller = self.controller
        if controller is None:
            return
        self.asking.emit()
        self.notice.hide()
        if self._editing_id:
            message_id, text = self._editing_id, self.composer.text
            if controller.edit(message_id, text):
                self._end_edit()
                self.transcript.scroll_to_end()
            return
        if controller.send(self.composer.text):
            self.composer.put_text("")
            self.transcript.scroll_to_end()

    def stop(self) -> None:
        """Stop the answer."""
        if self.controller is not None:
            self.controller.stop()

    def answer_now(self) -> None:
        """End the thinking."""
        if self.controller is not None:
            self.controller.answer_now()

    def _answer_tool(self, call_id: str, allow: bool, always: bool) -> None:  # a signal
        if self.controller is not None:
            self.controller.answer_tool(call_id, allow=allow, always=always)

    def _text_edited(self, text: str) -> None:
        if self.controller is not None and not self._editing_id:
            self.controller.set_draft_text(text)

    def _type(self, text: str) -> None:
        self.composer.edit.setFocus(Qt.FocusReason.OtherFocusReason)
        self.composer.edit.insertPlainText(text)

    def attach(self, files: list[Path]) -> None:
        """Attach files; pictures only where the model sees them."""
        if self.controller is None:
            return
        if self._editing_id:
            self.cancel_edit()
        for path in files:
            if is_picture(path) and path.is_file():
                try:
                    data = path.read_bytes()
                except OSError:
                    self.controller.add_file(path)  # which says why it cannot be read
                    continue
                self.controller.add_picture(data, path.name)
            else:
                self.controller.add_file(path)

    def _attach_picture(self, data: bytes) -> None:
        if self.controller is not None:
            self.controller.add_picture(data, "")

    def ask_for_files(self) -> None:
        """Choose files to attach."""
        dialog = QFileDialog(self, self.tr("Attach files"))
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.setFileMode(QFileDialog.FileMode.ExistingFiles)
        dialog.filesSelected.connect(lambda names: self.attach([Path(name) for name in names]))
        dialog.open()

    def _remove_attachment(self, attachment_id: str) -> None:
        if self.controller is not None:
            self.controller.remove_attachment(attachment_id)

    def _choose_effort(self, effort: Effort | None) -> None:
        if self.controller is not None:
            settings = replace(self.controller.conversation.settings, effort=effort)
            self.controller.set_settings(settings)

    def act(self, action: MessageAction, message_id: str) -> None:
        """What a button under a message, or its menu, asks for."""
        controller = self.controller
        if controller is None:
            return
        self.asking.emit()
        if action is MessageAction.COPY:
            QGuiApplication.clipboard().setText(controller.message(message_id).text)
        elif action is MessageAction.EDIT:
            self.edit_message(message_id)
        elif action is MessageAction.REGENERATE:
            if controller.regenerate(message_id):
                self.transcript.scroll_to_end()
        elif action is MessageAction.CONTINUE:
            if controller.continue_answer(message_id):
                self.transcript.scroll_to_end()
        elif action is MessageAction.BRANCH:
            self.branch_wanted.emit(message_id)
        elif action is MessageAction.DELETE:
            self._delete(message_id)
        else:
            self._step_version(message_id, -1 if action is MessageAction.OLDER else 1)

    def _delete(self, message_id: str) -> None:
        controller = self.controller
        if controller is None:
            return
        if message_id == self._editing_id:
            self.cancel_edit()
        if controller.delete_message(message_id):
            self.notice.say(
                self.tr("The message is deleted."),
                seconds=_UNDO_S,
                action=self.tr("Undo"),
                on_action=controller.undo_delete,
            )

    def _step_version(self, message_id: str, step: int) -> None:
        controller = self.controller
        if controller is None:
            return
        versions = controller.siblings(message_id)
        place = versions.index(message_id) + step
        if 0 <= place < len(versions):
            controller.show_version(versions[place])

    def last(self, role: Role) -> Message | None:
        """The last message of someone."""
        path = self.controller.path() if self.controller is not None else []
        return next((message for message in reversed(path) if message.role is role), None)

    # -- editing -----------------------------------------------------------------------------------

    def edit_message(self, message_id: str) -> None:
        """Write another version of a message in the composer."""
        controller = self.controller
        if controller is None:
            return
        message = controller.message(message_id)
        if not self._editing_id:
            self._kept_draft = self.composer.text
        self._editing_id = message_id
        self.composer.set_editing(
            self.tr("A new version of the answer; the old one is kept")
            if message.is_answer
            else self.tr("A new version of your message; the old one is kept")
        )
        self.composer.put_text(message.text)
        self.composer.show_attachments((), 0)
        self.composer.edit.setFocus(Qt.FocusReason.OtherFocusReason)

    def edit_last(self) -> None:
        """Edit the last message of the person."""
        message = self.last(Role.USER)
        if message is not None and self.composer.is_editing is False:
            self.edit_message(message.id)

    def cancel_edit(self) -> None:
        """Do not edit after all: the unsent text comes back."""
        if self._editing_id:
            self._end_edit()

    def _end_edit(self) -> None:
        self._editing_id = ""
        self.composer.set_editing("")
        self.composer.put_text(self._kept_draft)
        self._kept_draft = ""
        if self.controller is not None:
            draft = self.controller.draft
            self.composer.show_attachments(draft.attachments, self._num_pending)

    # -- dropping ----------------------------------------------------------------------------------

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:  # noqa: N802  # Qt's name
        """Files may be dropped anywhere in the conversation."""
        if event.mimeData().hasUrls() or event.mimeData().hasImage():
            event.acceptProposedAction()

    def dropEvent(self, event: QDropEvent) -> None:  # noqa: N802  # Qt's name
        """Attach what was dropped."""
        if self.composer.edit.take(event.mimeData()):
            event.acceptProposedAction()
