"""Tune: checks the graphics card, then measures which settings are fastest; both may be skipped."""

from __future__ import annotations

from collections.abc import Mapping

from PySide6.QtWidgets import QHBoxLayout, QProgressBar, QPushButton

from engine.core.errors import EngineError
from installer.engine_run import EngineRun, RunProgress
from installer.errors import StoppedError
from installer.steps import Step, Tuning
from installer.tune import TuneProgress
from installer.tune_words import setting_name, tuning_words
from installer.wizard.background import Report, run_in_background
from installer.wizard.page import Details, Page, text_label
from installer.wizard.session import Session


class TunePage(Page):
    """Offers the measurement."""

    step = Step.TUNE

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._run: EngineRun | None = None
        em = self.fontMetrics().height()
        self.card = text_label()  # what the check of the graphics card came to
        self.card.hide()
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
        self.body.addWidget(self.card)
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
        """Check the card if that was not done, then offer the measurement, or say what it came to."""
        if self.session.wants_card_check:
            self._check_card()
        else:
            self._offer()

    def _offer(self) -> None:
        lines = self.session.card_lines
        self.card.setText("\n".join(lines or ()))
        self.card.setVisible(bool(lines))
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

    def _check_card(self) -> None:
        run = self._run = self.session.doors.make_card_check()
        self._show_running(is_running=True)
        self.bar.setRange(0, 0)
        self.status.setText(self.say("card_checking"))
        self.bar.setAccessibleName(self.status.text())
        run_in_background(
            self,
            run.run,
            on_progress=self._show_check,
            on_success=self._take_card,
            on_failure=self._fail_card,
        )

    def _show_check(self, progress: RunProgress) -> None:
        if progress.total:
            self.bar.setRange(0, progress.total)
            self.bar.setValue(progress.done)
        if progress.line:
            self.details.add_line(progress.line)

    def _take_card(self, report: Mapping[str, object]) -> None:
        if self._run is None:
            return
        try:
            self.session.take_card_report(report)
        except EngineError as error:  # the run config cannot be written
            self._fail_card(error)
            return
        self._end_check()

    def _fail_card(self, error: EngineError) -> None:
        if self._run is None:
            return
        is_stopped = isinstance(error, StoppedError)  # the engine makes it at its start
        self.session.card_lines = () if is_stopped else (self.session.texts.error(error),)
        self._end_check()

    def _end_check(self) -> None:
        self._run = None
        self._show_running(is_running=False)
        self._offer()
        self.changed.emit()

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
