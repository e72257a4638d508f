"""What a message needs of the transcript that shows it."""

from __future__ import annotations

from typing import Protocol

from PySide6.QtWidgets import QWidget

from app.chat.activity import Activity
from app.chat.view.transcript.block_views import Surroundings
from app.chat.view.transcript.code_view import CodeView
from app.chat.view.transcript.widgets import MessageAction
from app.history.records import Message


class Host(Protocol):
    """What a section needs of the transcript."""

    @property
    def surroundings(self) -> Surroundings:
        """What rows are drawn with."""

    @property
    def activity(self) -> Activity:
        """What happens now."""

    def latest(self, message: Message) -> Message:
        """A growing message with all that it has by now."""

    def act(self, action: MessageAction, message_id: str) -> None:
        """The person wants this done."""

    def answer_now(self) -> None:
        """End the thinking."""

    def answer_tool(self, call_id: str, *, allow: bool, always: bool) -> None:
        """Allow or refuse a call."""

    def copy_button(self, parent: QWidget, view: CodeView) -> QWidget:
        """A button that copies code."""

    def rows_changed(self) -> None:
        """Rows came, went or changed their height."""
