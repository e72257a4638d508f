"""Installed models: which one is active, their sizes; adding, choosing, moving and removing them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtWidgets import (
    QFileDialog,
    QFrame,
    QGridLayout,
    QMessageBox,
    QProgressBar,
    QVBoxLayout,
    QWidget,
)

from app.background import Operation, Task, in_background
from app.look.layouts import clear
from app.look.look import em, enlarge
from app.settings.hub import Hub
from app.settings.model_list import Kind, ModelEntry, list_models, usable_config
from app.settings.model_moving import (
    MovePlan,
    MoveProgress,
    copy_files,
    delete_old,
    finish_moves,
    plan_move,
    remove_model,
    remove_unfinished,
    switch_to,
)
from app.settings.page import Notice, SettingsPage, button, hint_label, plain_label, row_of
from app.settings.problem_words import error_sentence
from app.supervisor.state import EngineState, Phase
from engine.core.errors import EngineError
from engine.core.sizes import size_in_words

_ENDED = frozenset({Phase.STOPPED, Phase.FAILED})


class ModelsPage(SettingsPage):
    """The page."""

    def __init__(self, hub: Hub) -> None:
        super().__init__(hub)
        self._data_dir = hub.context.data_dir
        self._listing: Operation | None = None
        self._moving: Operation | None = None
        self._when_stopped: Callable[[], None] | None = None
        self.entries: list[ModelEntry] = []
        self.rows: dict[str, ModelRow] = {}
        self.add_title(self.tr("Models"))
        self.folder = self.add_hint(
            self.tr("Models and chats are in {folder}").format(folder=self._data_dir)
        )
        self.notice = Notice()
        self.body.addWidget(self.notice)
        self.progress = QFrame()
        self.progress.setFrameShape(QFrame.Shape.StyledPanel)
        self.progress_text = plain_label()
        self.bar = QProgressBar()
        self.bar.setRange(0, 1000)
        self.cancel = button(self.tr("Cancel"), "close")
        self.cancel.clicked.connect(self._cancel_move)
        inside = QVBoxLayout(self.progress)
        inside.addWidget(self.progress_text)
        line = row_of(self.bar, self.cancel, stretch=False)
        line.setStretch(0, 1)
        inside.addLayout(line)
        self.progress.hide()
        self.body.addWidget(self.progress)
        self.list = QVBoxLayout()
        self.body.addLayout(self.list)
        self.add = button(self.tr("Add a model"), "add")
        self.add.clicked.connect(hub.context.requests.add_model)
        self.body.addLayout(row_of(self.add))
        self.body.addStretch(1)
        hub.config_changed.connect(self.enter)
        hub.context.supervisor.state_changed.connect(self._state_changed)

    def enter(self) -> None:
        """Look again; sizes may take a moment on a drive that sleeps."""
        if self._listing is not None and not self._listing.is_finished:
            return
        data_dir = self._data_dir
        may_finish = self._moving is None

        def look(_task: object) -> list[ModelEntry]:
            entries = list_models(data_dir)
            if may_finish:
                finish_moves(entry.installed for entry in entries if entry.installed is not None)
            return entries

        self._listing = in_background(
            self, look, on_success=self._show_entries, on_failure=self._say
        )

    # -- showing -----------------------------------------------------------------------------------

    def _show_entries(self, entries: list[ModelEntry]) -> None:
        self.entries = entries
        clear(self.list)
        self.rows = {}
        active = self.hub.config_path
        for entry in entries:
            is_active = entry.config_path is not None and entry.config_path == active
            row = ModelRow(entry, is_active=is_active)
            row.use.clicked.connect(lambda _checked=False, entry=entry: self.use(entry))
            row.move_button.clicked.connect(
                lambda _checked=False, entry=entry: self._choose_folder(entry)
            )
            row.remove.clicked.connect(lambda _checked=False, entry=entry: self._ask_remove(entry))
            self.rows[entry.model_id] = row
            self.list.addWidget(row)
        self._enable()

    def _enable(self) -> None:
        for row in self.rows.values():
            row.setEnabled(self._moving is None)

    def _say(self, error: EngineError) -> None:
        self.notice.say(error_sentence(error), is_problem=True)

    # -- choosing ----------------------------------------------------------------------------------

    def use(self, entry: ModelEntry) -> None:
        """Make a model the active one."""
        try:
            path = usable_config(entry)
        except EngineError as error:
            self._say(error)
            return
        if path is not None:
            self.notice.say("")
            self.hub.context.supervisor.choose(path)
            self.enter()

    # -- removing ----------------------------------------------------------------------------------

    def _ask_remove(self, entry: ModelEntry) -> None:
        box = QMessageBox(self)
        box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        box.setIcon(QMessageBox.Icon.Warning)
        box.setWindowTitle(self.tr("Remove a model"))
        box.setText(
            self.tr("Delete {title} and free {size}?").format(
                title=entry.title, size=size_in_words(entry.freed_bytes)
            )
        )
        box.setInformativeText(
            self.tr(
                "Its files in {folder} are deleted. Chats stay. To have it again it must be downloaded "
                "again."
            ).format(folder=entry.folder)
        )
        delete = box.addButton(self.tr("Delete"), QMessageBox.ButtonRole.DestructiveRole)
        keep = box.addButton(QMessageBox.StandardButton.Cancel)
        box.setDefaultButton(keep)
        delete.clicked.connect(lambda: self.remove(entry))
        box.open()

    def remove(self, entry: ModelEntry) -> None:
        """Delete a model that is not the active one."""
        configs_dir = self.hub.context.configs_dir

        def work(_task: object) -> None:
            if entry.installed is not None:
                remove_model(entry.installed, configs_dir)
            elif entry.kind is Kind.UNFINISHED and entry.folder is not None:
                remove_unfinished(entry.folder)

        def done(_result: object) -> None:
            self.notice.say(self.tr("{title} was deleted.").format(title=entry.title))
            self.enter()

        def failed(error: EngineError) -> None:
            self._say(error)
            self.enter()

        in_background(self, work, on_success=done, on_failure=failed)

    # -- moving ------------------------------------------------------------------------------------

    def _choose_folder(self, entry: ModelEntry) -> None:
        dialog = QFileDialog(self, self.tr("Move {title} to").format(title=entry.title))
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.setFileMode(QFileDialog.FileMode.Directory)
        dialog.setOption(QFileDialog.Option.ShowDirsOnly)
        dialog.fileSelected.connect(lambda name: self.move_to(entry, Path(name)))
        dialog.open()

    def move_to(self, entry: ModelEntry, target: Path) -> None:
        """Move a model below another folder; it can be used meanwhile."""
        model = entry.installed
        if model is None or self._moving is not None:
            return
        try:
            plan = plan_move(model, target)
        except EngineError as error:
            self._say(error)
            return
        self.notice.say("")
        self.progress.show()
        self.cancel.setEnabled(True)
        self.progress_text.setText(
            self.tr("Copying {title} to {folder}").format(title=entry.title, folder=plan.folder)
        )
        self.bar.setValue(0)

        def work(task: Task[MoveProgress]) -> None:
            copy_files(plan, task)

        self._moving = in_background(
            self,
            work,
            on_success=lambda _result: self._copied(entry, plan),
            on_failure=self._move_failed,
            on_progress=self._show_progress,
        )
        self._moving.finished.connect(self._copy_finished)
        self._enable()

    @property
    def is_moving(self) -> bool:
        """Whether a model is on its way."""
        return self._moving is not None

    def _show_progress(self, progress: MoveProgress) -> None:
        self.bar.setValue(round(1000 * progress.done_bytes / max(progress.total_bytes, 1)))

    def _cancel_move(self) -> None:
        if self._moving is not None:
            self.cancel.setEnabled(False)
            self._moving.cancel()

    def _copy_finished(self) -> None:
        if self._moving is not None and self._moving.is_cancelled:
            self.notice.say(self.tr("The model stays where it is."))
            self._end_move()

    def _move_failed(self, error: EngineError) -> None:
        self._say(error)
        self._end_move()

    def _copied(self, entry: ModelEntry, plan: MovePlan) -> None:
        """Everything is there twice now. An engine that runs this model must let it go first."""
        self.cancel.setEnabled(False)
        supervisor = self.hub.context.supervisor
        uses_it = entry.config_path is not None and entry.config_path == self.hub.config_path
        if not uses_it or supervisor.state.phase in _ENDED:
            self._switch(plan, starts_again=False)
            return
        self.progress_text.setText(self.tr("The model is stopped for a moment"))
        self._when_stopped = lambda: self._switch(plan, starts_again=True)
        supervisor.stop()

    def _state_changed(self, state: EngineState) -> None:
        if self._when_stopped is not None and state.phase in _ENDED:
            go_on, self._when_stopped = self._when_stopped, None
            go_on()

    def _switch(self, plan: MovePlan, *, starts_again: bool) -> None:
        configs_dir = self.hub.context.configs_dir

        def work(_task: object) -> None:
            switch_to(plan, configs_dir)
            delete_old(plan)

        def ended() -> None:
            self._end_move()
            self.hub.tell_saved()
            if starts_again:
                self.hub.context.supervisor.start()

        def done(_result: object) -> None:
            self.notice.say(self.tr("The model is in {folder} now.").format(folder=plan.folder))
            ended()

        def failed(error: EngineError) -> None:
            self._say(error)
            ended()

        in_background(self, work, on_success=done, on_failure=failed)

    def _end_move(self) -> None:
        self._moving = None
        self.progress.hide()
        self.enter()


class ModelRow(QFrame):
    """One model of the list."""

    def __init__(self, entry: ModelEntry, *, is_active: bool) -> None:
        super().__init__()
        self.setFrameShape(QFrame.Shape.StyledPanel)
        title = plain_label(entry.title)
        enlarge(title, 1.05, is_bold=is_active)
        self.state = plain_label(self._words(entry, is_active=is_active))
        self.where = hint_label(str(entry.folder or ""))
        self.use = button(self.tr("Use"), "check")
        self.move_button = button(self.tr("Move…"), "folder")
        self.remove = button(self.tr("Remove…"), "delete")
        self.use.setEnabled(not is_active and entry.config_path is not None and entry.is_there)
        self.move_button.setVisible(entry.kind is Kind.INSTALLED)
        self.move_button.setEnabled(entry.is_there)
        self.remove.setVisible(entry.kind in (Kind.INSTALLED, Kind.UNFINISHED))
        self.remove.setEnabled(not is_active)
        if is_active:
            self.remove.setToolTip(self.tr("Choose another model first."))
        self.use.setVisible(entry.kind is not Kind.UNFINISHED)
        for widget, words in (
            (self.use, self.tr("Use {title}")),
            (self.move_button, self.tr("Move {title}")),
            (self.remove, self.tr("Remove {title}")),
        ):
            widget.setAccessibleName(words.format(title=entry.title))
        buttons = QWidget()
        line = row_of(self.use, self.move_button, self.remove, stretch=False)
        buttons.setLayout(line)
        layout = QGridLayout(self)
        layout.setContentsMargins(em(self) // 2, em(self) // 2, em(self) // 2, em(self) // 2)
        layout.addWidget(title, 0, 0)
        layout.addWidget(self.state, 1, 0)
        layout.addWidget(self.where, 2, 0, 1, 2)
        layout.addWidget(buttons, 0, 1, 2, 1)
        layout.setColumnStretch(0, 1)

    def _words(self, entry: ModelEntry, *, is_active: bool) -> str:
        parts = [size_in_words(entry.num_bytes)] if entry.num_bytes else []
        if is_active:
            parts.append(self.tr("active"))
        if entry.kind is Kind.BUNDLED:
            parts.append(self.tr("came with Stratum"))
        if entry.kind is Kind.UNFINISHED:
            parts.append(self.tr("download not finished; “Add a model” goes on with it"))
        if not entry.is_there:
            parts.append(self.tr("files not found: is its drive connected?"))
        if entry.kind is Kind.INSTALLED and entry.freed_bytes < entry.num_bytes:
            shared = size_in_words(entry.num_bytes - entry.freed_bytes)
            parts.append(self.tr("{size} of it shared or used where it lies").format(size=shared))
        return ", ".join(parts)
