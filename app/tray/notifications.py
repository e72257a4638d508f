"""What is told when nobody looks: ready, a long answer has ended, something failed.

Each kind has its switch. Who shows a notice (the tray, or the window's entry in the task bar where there
is no tray) is connected to `shown`; nothing here knows a widget of ours.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QApplication

from app.app_settings import AppSettings, AppSettingsStore
from app.supervisor.reason_words import explain
from app.supervisor.state import EngineState, Phase, ReasonCode
from app.views import View

# A shorter answer is still being waited for.
LONG_ANSWER_S = 30.0
_TITLE_CHARS = 60


class NoticeKind(enum.StrEnum):
    """What a notice is about."""

    READY = "ready"
    ANSWER = "answer"
    ERROR = "error"
    NOTE = "note"  # about the program itself; has no switch, comes once


@dataclass(frozen=True, slots=True)
class Notice:
    """One notice.

    Attributes:
        view: what a click on it opens.
    """

    kind: NoticeKind
    title: str
    text: str
    view: View = View.CHAT


class Notifier(QObject):
    """Decides what is told.

    Signals:
        shown: with a `Notice` to show.
    """

    shown = Signal(object)

    def __init__(self, app_settings: AppSettingsStore, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._app_settings = app_settings
        self._before = EngineState()

    def state_changed(self, state: EngineState) -> None:
        """Tell what is new about the engine."""
        before, self._before = self._before, state
        was_coming = before.phase in {Phase.STARTING, Phase.LOADING}
        if state.phase is Phase.READY and was_coming and state.is_loaded:
            text = self.tr("{model} can be used now.").format(model=state.model or "Stratum")
            self.tell(Notice(NoticeKind.READY, self.tr("Ready"), text))
        elif state.phase is Phase.FAILED and before.phase is not Phase.FAILED:
            reason = state.reason
            if reason is None or reason.code is not ReasonCode.NO_MODEL:  # that is no surprise
                text = explain(reason) if reason is not None else ""
                self.tell(Notice(NoticeKind.ERROR, self.tr("The model does not run"), text))
        elif state.phase is Phase.STARTING and state.reason is not None and before.reason is None:
            title = self.tr("The model is started again")
            self.tell(Notice(NoticeKind.ERROR, title, explain(state.reason)))

    def answer_ended(self, title: str, seconds: float) -> None:
        """Tell of an answer that took long enough for the person to have turned away.

        Args:
            title: of the conversation.
            seconds: from the question to the end.
        """
        if seconds >= LONG_ANSWER_S:
            short = title if len(title) <= _TITLE_CHARS else title[: _TITLE_CHARS - 1] + "…"
            self.tell(Notice(NoticeKind.ANSWER, self.tr("The answer is there"), short))

    def error(self, sentence: str) -> None:
        """Tell of something that failed."""
        self.tell(Notice(NoticeKind.ERROR, self.tr("Something failed"), sentence))

    def tell(self, notice: Notice) -> None:
        """Show a notice if it is wanted and nobody looks at a window of ours."""
        if not _is_wanted(notice.kind, self._app_settings.value):
            return
        if notice.kind is not NoticeKind.NOTE and QApplication.activeWindow() is not None:
            return
        self.shown.emit(notice)


def _is_wanted(kind: NoticeKind, settings: AppSettings) -> bool:
    return {
        NoticeKind.READY: settings.notifies_ready,
        NoticeKind.ANSWER: settings.notifies_answer,
        NoticeKind.ERROR: settings.notifies_error,
        NoticeKind.NOTE: True,
    }[kind]
