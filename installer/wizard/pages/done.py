"""Done: start it, open the chat, and the address for other programs."""

from __future__ import annotations

from PySide6.QtCore import QUrl
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QApplication, QHBoxLayout, QLineEdit, QPushButton

from engine.core.errors import EngineError
from installer.launch import Started, chat_url, last_words, stays
from installer.steps import Step
from installer.wizard.background import Report, run_in_background
from installer.wizard.page import Page, text_label
from installer.wizard.pages.welcome import buddy
from installer.wizard.session import Session

_START_S = 900.0  # a large model from a hard disk


class DonePage(Page):
    """The last page."""

    step = Step.DONE

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._open_chat_when_ready = False
        self._is_starting = False
        em = self.fontMetrics().height()
        self.start = QPushButton(self.say("start"))
        self.chat = QPushButton(self.say("chat"))
        self.other = QPushButton(self.say("other"))
        self.status = text_label()
        self.address = QLineEdit()
        self.address.setReadOnly(True)
        self.copy = QPushButton(self.say("copy"))
        buttons = QHBoxLayout()
        for button in (self.start, self.chat):
            buttons.addWidget(button)
        buttons.addStretch(1)
        self.body.addLayout(buttons)
        self.body.addWidget(self.status)
        self.body.addSpacing(em)
        self.body.addWidget(buddy(self.say("address"), self.address))
        row = QHBoxLayout()
        row.addWidget(self.address, 1)
        row.addWidget(self.copy)
        self.body.addLayout(row)
        self.body.addWidget(
            text_label(self.say("folder", path=str(session.installation.data_dir)), is_small=True)
        )
        self.body.addSpacing(em)
        other = QHBoxLayout()
        other.addWidget(self.other)
        other.addStretch(1)
        self.body.addLayout(other)
        self.body.addStretch(1)
        self.start.clicked.connect(self.begin)
        self.chat.clicked.connect(self._chat)
        self.copy.clicked.connect(lambda: QApplication.clipboard().setText(self.address.text()))
        self.other.clicked.connect(self._install_another)

    @property
    def intro(self) -> str:
        """Which model is installed."""
        return self.say("intro", model=self.session.model_title)

    def enter(self) -> None:
        """Show the address."""
        config = self.session.installation.config_path
        if config is None:
            return
        try:
            self._url = chat_url(config)
        except EngineError as error:
            self.status.setText(self.session.texts.error(error))
            return
        self.address.setText(f"{self._url}/v1")

    def begin(self) -> None:
        """Start what is installed."""
        config = self.session.installation.config_path
        if config is None or self._is_starting:
            return
        self._is_starting = True
        self.start.setEnabled(False)
        self.status.setText(self.say("starting"))
        doors = self.session.doors

        def work(_report: Report[None]) -> tuple[Started, bool]:
            started = doors.start(config)
            if doors.has_app():
                return started, stays(started)
            return started, doors.wait_until_ready(started, _START_S)

        run_in_background(self, work, on_success=self._started, on_failure=self._fail)

    def _started(self, result: tuple[Started, bool]) -> None:
        started, is_ready = result
        self._is_starting = False
        if not is_ready:
            self.start.setEnabled(True)
            self.status.setText(self.say("not_running", reason=last_words(started.log)))
            return
        self.status.setText(self.say("running"))
        if self._open_chat_when_ready:
            self._open_chat_when_ready = False
            if not self.session.doors.has_app():  # which shows its own chat
                QDesktopServices.openUrl(QUrl(started.url))

    def _fail(self, error: EngineError) -> None:
        self._is_starting = False
        self.start.setEnabled(True)
        self.status.setText(self.session.texts.error(error))

    def _chat(self) -> None:
        """Open the chat page as soon as the server answers."""
        if self.start.isEnabled() or self._is_starting or self.session.doors.has_app():
            self._open_chat_when_ready = True
            self.begin()  # the app that runs is told to show itself
        else:
            QDesktopServices.openUrl(QUrl(self._url))

    def _install_another(self) -> None:
        self.session.installation.begin_again()
        self.go_to.emit(self.session.installation.step)
