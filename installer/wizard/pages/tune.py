"""Tune: measures which settings are fastest on this PC; may be skipped."""

from __future__ import annotations

from collections.abc import Mapping

from PySide6.QtWidgets import QHBoxLayout, QProgressBar, QPushButton

from engine.core.errors import EngineError
from installer.errors import StoppedError
from installer.steps import Step, Tuning
from installer.tune import TuneProgress, TuneRun
from installer.tune_words import setting_name, tuning_words
from installer.wizard.background import Report, run_in_background
from installer.wizard.page import Details, Page, text_label
from installer.wizard.session import Session


class TunePage(Page):
    """Offers the measurement."""

    step = Step.TUNE

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._run: TuneRun | None = None
        em = self.fontMetrics().height()
        self.status = text_label()
        self.bar = QProgressBar()
        self.bar.setTextVisible(False)
        self.bar.setMinimumHeight(round(em * 1.1))
        self.bar.hide()
        self.start = QPushButton(self.say("start"))
        self.skip = QPushButton(self.say("skip"))
        self.stop = QPushButton(self.say("stop"))
        self.stop.hide()
        self.details = Details(session.texts.say("button.details"))
        self.body.addWidget(self.status)
        self.body.addWidget(self.bar)
        buttons = QHBoxLayout()
        for button in (self.start, self.skip, self.stop):
            buttons.addWidget(button)
        buttons.addStretch(1)
        self.body.addLayout(buttons)
        self.body.addWidget(self.details)
        self.body.addStretch(1)
        self.start.clicked.connect(self.begin)
        self.skip.clicked.connect(self._skip)
        self.stop.clicked.connect(self._stop)

    def enter(self) -> None:
        """Offer it, or say what it came to."""
        installation = self.session.installation
        if not self.session.doors.can_tune():
            self.status.setText(self.say("unavailable"))
            self.start.hide()
            self.skip.hide()
            self.details.hide()
            if installation.tuning is Tuning.NOT_RUN:
                installation.tuned(Tuning.SKIPPED)
        elif installation.tuning is Tuning.DONE and self.session.tuning_report is not None:
            self._show_report(self.session.tuning_report)
        elif installation.tuning is Tuning.SKIPPED:
            self.status.setText(self.say("skipped"))
        else:
            self.status.setText(self.say("offer"))

    def leave(self) -> None:
        """A measurement does not go on without its page."""
        run, self._run = self._run, None
        if run is not None:
            run.stop()

    def is_busy(self) -> bool:
        """Whether it measures."""
        return self._run is not None

    def begin(self) -> None:
        """Measure."""
        config = self.session.installation.config_path
        if config is None:
            return
        run = self._run = self.session.doors.make_tuning(config)
        self._show_running(is_running=True)
        self.bar.setRange(0, 0)
        self.status.setText(self.say("running_unknown"))

        def work(report: Report[TuneProgress]) -> Mapping[str, object]:
            return run.run(report)

        run_in_background(
            self,
            work,
            on_progress=self._show_progress,
            on_success=self._finish,
            on_failure=self._fail,
        )

    def _show_progress(self, progress: TuneProgress) -> None:
        if progress.total:
            self.bar.setRange(0, progress.total)
            self.bar.setValue(progress.done)
            self.status.setText(
                self.say(
                    "running",
                    name=setting_name(progress.name, self.session.texts),
                    done=progress.done,
                    total=progress.total,
                )
            )
            self.bar.setAccessibleName(self.status.text())
        if progress.line:
            self.details.add_line(progress.line)

    def _finish(self, report: Mapping[str, object]) -> None:
        self._run = None
        self.session.tuning_report = report
        self.session.installation.tuned(Tuning.DONE)
        self._show_running(is_running=False)
        self._show_report(report)

    def _show_report(self, report: Mapping[str, object]) -> None:
        words = tuning_words(report, self.session.texts)
        self.status.setText(words.summary)
        for line in words.lines:
            self.details.add_line(line)
        self.changed.emit()

    def _fail(self, error: EngineError) -> None:
        was_left = self._run is None
        self._run = None
        if was_left:
            return
        self._show_running(is_running=False)
        if isinstance(error, StoppedError):
            self.status.setText(self.say("offer"))
        else:
            self.session.installation.tuned(Tuning.FAILED)
            self.status.setText(self.session.texts.error(error))
        self.changed.emit()

    def _skip(self) -> None:
        self.session.installation.tuned(Tuning.SKIPPED)
        self.status.setText(self.say("skipped"))
        self.changed.emit()
        self.advance.emit()

    def _stop(self) -> None:
        if self._run is not None:
            self._run.stop()

    def _show_running(self, *, is_running: bool) -> None:
        self.bar.setVisible(is_running)
        self.start.setVisible(not is_running)
        self.skip.setVisible(not is_running)
        self.stop.setVisible(is_running)
        self.changed.emit()
