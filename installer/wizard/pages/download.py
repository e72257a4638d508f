"""Download: one honest bar, what is happening in a sentence, details on demand."""

from __future__ import annotations

import enum
import threading

from PySide6.QtWidgets import QCheckBox, QHBoxLayout, QMessageBox, QProgressBar, QPushButton

from engine.core.catalog_file import PROGRAM_DIR
from engine.core.errors import EngineError
from engine.core.login_start import is_portable, set_login_start
from installer.download.installed import InstalledModel
from installer.download.job import DownloadJob
from installer.download.plan import DownloadPlan
from installer.download.progress import DownloadProgress, Phase
from installer.errors import CancelledError, PreparationError, StoppedError
from installer.progress_words import plan_lines, progress_words
from installer.steps import Step
from installer.wizard.background import Report, run_in_background
from installer.wizard.page import Details, Page, text_label
from installer.wizard.session import Session

_BAR_STEPS = 1000
_END_S = 5.0


class State(enum.Enum):
    """What the page is doing."""

    PLANNING = enum.auto()
    READY = enum.auto()  # the person looks at sizes, nothing is fetched
    RUNNING = enum.auto()
    PAUSED = enum.auto()
    STOPPED = enum.auto()  # by an error or a cancel; it can go on
    DONE = enum.auto()


class DownloadPage(Page):
    """Plans, waits for the person's word when there is something to fetch, and downloads."""

    step = Step.DOWNLOAD

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.state = State.PLANNING
        self._job: DownloadJob | None = None
        self._thread: threading.Thread | None = None
        self._last_phase: tuple[Phase, str] | None = None
        em = self.fontMetrics().height()
        self.status = text_label()
        self.bar = QProgressBar()
        self.bar.setRange(0, 0)
        self.bar.setTextVisible(False)
        self.bar.setMinimumHeight(round(em * 1.1))
        self.figures = text_label(is_small=True)
        self.error = text_label()
        self.error.hide()
        self.start = QPushButton(self.say("start"))
        self.pause = QPushButton(self.say("pause"))
        self.cancel = QPushButton(self.say("cancel"))
        self.without_head = QPushButton(self.say("without_head"))
        self.other_folder = QPushButton(self.say("other_folder"))
        self.other_model = QPushButton(self.say("other_model"))
        self.after_restart = QCheckBox(self.say("after_restart"))
        self.after_restart.setChecked(session.installation.choices.resumes_at_login)
        self.details = Details(session.texts.say("button.details"))
        for widget in (self.status, self.bar, self.figures, self.error):
            self.body.addWidget(widget)
        for row in (
            (self.start, self.pause, self.cancel),
            (self.without_head, self.other_folder, self.other_model),
        ):
            buttons = QHBoxLayout()
            for button in row:
                buttons.addWidget(button)
            buttons.addStretch(1)
            self.body.addLayout(buttons)
        self.body.addWidget(self.after_restart)
        self.body.addWidget(self.details)
        self.body.addStretch(1)
        self.start.clicked.connect(self.begin)
        self.after_restart.toggled.connect(self._set_after_restart)
        self.pause.clicked.connect(self.pause_or_resume)
        self.cancel.clicked.connect(self._ask_to_cancel)
        self.without_head.clicked.connect(self._go_on_without_head)
        self.other_folder.clicked.connect(lambda: self.go_to.emit(Step.OPTIONS))
        self.other_model.clicked.connect(lambda: self.go_to.emit(Step.MODEL))

    @property
    def status_line(self) -> str:
        """What is happening, in one line."""
        return " · ".join(text for text in (self.status.text(), self.figures.text()) if text)

    @property
    def is_paused(self) -> bool:
        """Whether the person paused it."""
        return self.state is State.PAUSED

    def is_busy(self) -> bool:
        """Whether it downloads, or waits in a pause."""
        return self.state in (State.RUNNING, State.PAUSED)

    # -- entering and leaving ------------------------------------------------------------------------

    def enter(self) -> None:
        """Plan; a download that was begun before goes on by itself."""
        if self.session.installation.problem is None:
            self._set_state(State.DONE)
            self._say_done()
        else:
            self._plan()

    def leave(self) -> None:
        """Stop; what was fetched is kept."""
        if self._job is not None:
            self._job.stop()
            if self._thread is not None:
                self._thread.join(_END_S)
            self._job = None
            if self.is_busy():
                self._stop_with(StoppedError(self.say("stopped")), is_error=False)

    def _plan(self) -> None:
        self._set_state(State.PLANNING)
        self.status.setText(self.say("planning"))
        self.bar.setRange(0, 0)
        job = self._make_job()

        def work(report: Report[DownloadProgress]) -> DownloadPlan:
            return job.plan(report)

        self._thread = run_in_background(
            self,
            work,
            on_progress=self._show_progress,
            on_success=self._show_plan,
            on_failure=self._fail,
        )

    def _make_job(self) -> DownloadJob:
        installation = self.session.installation
        model = installation.model
        if model is None:
            raise ValueError("there is no download without a model")
        options = installation.download_options(self.session.token, self.session.proxy)
        self._job = self.session.doors.make_job(installation.catalog, model.id, options)
        return self._job

    def _show_plan(self, plan: DownloadPlan) -> None:
        texts = self.session.texts
        self.details.set_lines(plan_lines(plan, texts))
        self.bar.setRange(0, _BAR_STEPS)
        self.bar.setValue(0)
        if plan.fetch_bytes == 0:
            self.status.setText(self.say("nothing_to_fetch"))
            self.figures.setText("")
            self.begin()
            return
        self.status.setText(self.say("ready", fetch_bytes=plan.fetch_bytes, path=str(plan.folder)))
        self.figures.setText(self.say("ready_free", free_bytes=plan.disk_free_bytes))
        if self.session.installation.is_download_started and plan.fits_on_disk:
            self.begin()
        else:
            self._set_state(State.READY)

    # -- the download --------------------------------------------------------------------------------

    def begin(self) -> None:
        """Download, or go on."""
        self.error.hide()
        try:
            self.session.installation.download_started()
        except EngineError as error:
            self._fail(error)
            return
        self._set_state(State.RUNNING)
        job = self._make_job()

        def work(report: Report[DownloadProgress]) -> InstalledModel:
            return job.run(report)

        self._thread = run_in_background(
            self,
            work,
            on_progress=self._show_progress,
            on_success=self._finish,
            on_failure=self._fail,
        )

    def pause_or_resume(self) -> None:
        """Pause, or go on after a pause."""
        if self._job is None:
            return
        if self.is_paused:
            self._job.resume()
            self._set_state(State.RUNNING)
        elif self.state is State.RUNNING:
            self._job.pause()
            self._set_state(State.PAUSED)

    def _show_progress(self, progress: DownloadProgress) -> None:
        if self.state not in (State.PLANNING, State.RUNNING, State.PAUSED):
            return  # a report that was on its way when it ended
        words = progress_words(progress, self.session.texts)
        self.status.setText(words.what)
        self.figures.setText(words.figures)
        if words.share is None:
            self.bar.setRange(0, 0)
        else:
            self.bar.setRange(0, _BAR_STEPS)
            self.bar.setValue(round(words.share * _BAR_STEPS))
        self.bar.setAccessibleName(self.status_line)
        if (progress.phase, progress.file) != self._last_phase:
            self._last_phase = (progress.phase, progress.file)
            self.details.add_line(words.what)
        if self.is_busy():
            self.changed.emit()

    def _finish(self, model: InstalledModel) -> None:
        try:
            self.session.installation.prepared(model)
        except EngineError as error:
            self._fail(error)
            return
        self._job = None
        self._set_state(State.DONE)
        self._say_done()

    def _say_done(self) -> None:
        self.bar.setRange(0, _BAR_STEPS)
        self.bar.setValue(_BAR_STEPS)
        self.status.setText(self.say("done", model=self.session.model_title))
        self.figures.setText("")
        self.bar.setAccessibleName(self.status.text())
        self.changed.emit()

    # -- what goes wrong -----------------------------------------------------------------------------

    def _fail(self, error: EngineError) -> None:
        if self._job is None:
            return  # the page was left, which is why
        self._job = None
        if isinstance(error, CancelledError):
            self.session.installation.download_cancelled()
            self._stop_with(error, is_error=False)
            self.status.setText(self.say("cancelled"))
        else:
            self._stop_with(error, is_error=not isinstance(error, StoppedError))

    def _stop_with(self, error: EngineError, *, is_error: bool) -> None:
        self.bar.setRange(0, _BAR_STEPS)
        self.status.setText(self.say("stopped"))
        self.figures.setText("")
        if is_error:
            sentence = self.session.texts.error(error)
            self.error.setText(sentence)
            self.error.setAccessibleName(sentence)
            self.error.show()
            self.details.add_line(f"{error.code}: {error.message}")
        self._set_state(State.STOPPED)
        self.without_head.setVisible(isinstance(error, PreparationError))
        for button in (self.other_folder, self.other_model):
            button.setVisible(is_error)

    def _set_after_restart(self, is_on: bool) -> None:  # Qt's signal
        installation = self.session.installation
        choices = installation.choices.model_copy(update={"resumes_at_login": is_on})
        installation.choose(choices)
        set_login_start(PROGRAM_DIR, is_on=is_on)

    def _go_on_without_head(self) -> None:
        installation = self.session.installation
        installation.choose(installation.choices.model_copy(update={"has_draft_head": False}))
        self.begin()

    def _ask_to_cancel(self) -> None:
        box = QMessageBox(self)
        box.setWindowTitle(self.say("cancel_title"))
        box.setText(self.say("cancel_question"))
        yes = box.addButton(self.say("cancel_yes"), QMessageBox.ButtonRole.DestructiveRole)
        box.setDefaultButton(
            box.addButton(self.say("cancel_no"), QMessageBox.ButtonRole.RejectRole)
        )
        yes.clicked.connect(self._cancel)
        box.finished.connect(box.deleteLater)
        box.open()

    def _cancel(self) -> None:
        if self._job is not None:
            self._job.cancel()

    # -- buttons -------------------------------------------------------------------------------------

    def _set_state(self, state: State) -> None:
        self.state = state
        again = state is State.STOPPED
        self.start.setVisible(state in (State.READY, State.STOPPED))
        self.start.setText(self.session.texts.say("button.again") if again else self.say("start"))
        self.pause.setVisible(self.is_busy())
        self.pause.setText(self.say("resume" if state is State.PAUSED else "pause"))
        self.cancel.setVisible(self.is_busy())
        lasts = state not in (State.PLANNING, State.DONE)
        self.after_restart.setVisible(lasts and not is_portable())
        if not again:
            self.error.hide()
        for button in (self.without_head, self.other_folder, self.other_model):
            button.setVisible(False)
        self.changed.emit()
