"""Diagnostics for a supporter: looked at first, listed, readable, and only then saved."""

from __future__ import annotations

import datetime
from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtGui import QFontDatabase
from PySide6.QtWidgets import QFileDialog, QListWidget, QPlainTextEdit, QSplitter

from app.about import facts
from app.background import Operation, Task, in_background
from app.look.look import em
from app.settings.diagnostics import Bundle, Sources, collect
from app.settings.hub import Hub
from app.settings.page import Notice, SettingsPage, button, row_of
from app.settings.problem_words import error_sentence
from engine.core.errors import EngineError
from engine.core.sizes import size_in_words


class DiagnosticsPage(SettingsPage):
    """The page."""

    def __init__(self, hub: Hub) -> None:
        super().__init__(hub)
        self._operation: Operation | None = None
        self.bundle: Bundle | None = None
        self.add_title(self.tr("Diagnostics"))
        self.add_hint(
            self.tr(
                "For somebody who helps you: versions, what works on this PC, its hardware, your settings "
                "and the last lines of the logs. Keys, chats, and the names of you and your PC are not in "
                "it. Nothing is sent; you see everything before it is saved."
            )
        )
        self.notice = Notice()
        self.body.addWidget(self.notice)
        self.collect_button = button(self.tr("Look at this PC"), "search")
        self.collect_button.clicked.connect(self.collect)
        self.save_button = button(self.tr("Save as a zip file…"), "export")
        self.save_button.setEnabled(False)
        self.save_button.clicked.connect(self._choose_file)
        self.body.addLayout(row_of(self.collect_button, self.save_button))
        self.list = QListWidget()
        self.list.setAccessibleName(self.tr("Files of the bundle"))
        self.text = QPlainTextEdit()
        self.text.setReadOnly(True)
        self.text.setTabChangesFocus(True)
        self.text.setFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont))
        self.text.setAccessibleName(self.tr("Content of the chosen file"))
        self.splitter = QSplitter(Qt.Orientation.Horizontal)
        self.splitter.addWidget(self.list)
        self.splitter.addWidget(self.text)
        self.splitter.setStretchFactor(1, 1)
        self.splitter.setSizes([14 * em(self), 40 * em(self)])
        self.splitter.setMinimumHeight(24 * em(self))
        self.splitter.hide()
        self.body.addWidget(self.splitter, 1)
        self.body.addStretch(0)
        self.list.currentRowChanged.connect(self._show_member)

    def leave(self) -> None:
        """Stop looking."""
        if self._operation is not None:
            self._operation.cancel()
            self._operation = None
            self.collect_button.setEnabled(True)
            self.notice.say("")

    def collect(self) -> None:
        """Look; that takes some seconds."""
        context = self.hub.context
        engine_log = context.supervisor.log_path
        sources = Sources(
            data_dir=context.data_dir,
            config_path=self.hub.config_path,
            logs=tuple(dict.fromkeys([engine_log, *sorted(context.logs_dir.glob("*.log"))])),
            facts=tuple(facts(context)),
        )

        def work(task: Task[str]) -> Bundle:
            return collect(sources, task)

        self.collect_button.setEnabled(False)
        self.notice.say(self.tr("Looking at this PC…"))
        self._operation = in_background(
            self, work, on_success=self._take, on_failure=self._fail, on_progress=self._progress
        )

    def save(self, path: Path) -> None:
        """Write what was shown."""
        if self.bundle is None:
            return
        try:
            self.bundle.save(path)
        except EngineError as error:
            self.notice.say(error_sentence(error), is_problem=True)
        else:
            self.notice.say(self.tr("Saved as {path}").format(path=path))

    def _progress(self, name: str) -> None:
        self.notice.say(self.tr("Looking at this PC: {name}").format(name=name))

    def _take(self, bundle: Bundle) -> None:
        self._operation = None
        self.bundle = bundle
        self.collect_button.setEnabled(True)
        self.save_button.setEnabled(True)
        self.notice.say(self.tr("This would be saved. Choose a file to read it."))
        self.list.clear()
        for member in bundle.members:
            self.list.addItem(f"{member.name} ({size_in_words(member.num_bytes)})")
        self.splitter.show()
        self.list.setCurrentRow(0)

    def _fail(self, error: EngineError) -> None:
        self._operation = None
        self.collect_button.setEnabled(True)
        self.notice.say(error_sentence(error), is_problem=True)

    def _show_member(self, row: int) -> None:
        if self.bundle is not None and 0 <= row < len(self.bundle.members):
            self.text.setPlainText(self.bundle.members[row].text)

    def _choose_file(self) -> None:
        today = datetime.datetime.now(tz=datetime.UTC).strftime("%Y-%m-%d")
        dialog = QFileDialog(self, self.tr("Save diagnostics"))
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
        dialog.setDefaultSuffix("zip")
        dialog.selectFile(f"stratum-diagnostics-{today}.zip")
        dialog.fileSelected.connect(lambda name: self.save(Path(name)))
        dialog.open()
