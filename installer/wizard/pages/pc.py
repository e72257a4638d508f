"""Your PC: one line a part with a light, and the verdict above them."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QGridLayout, QHBoxLayout, QLabel, QProgressBar, QPushButton, QWidget

from engine.core.errors import EngineError
from engine.core.survey import Survey
from installer.offers import title_of
from installer.pc_findings import Finding, Subject, pc_findings
from installer.recommend import Mark, Recommendation
from installer.steps import Step
from installer.wizard.background import Report, run_in_background
from installer.wizard.light import Light, LightSign
from installer.wizard.look import heading
from installer.wizard.page import Details, Page, text_label
from installer.wizard.session import Session


class PcPage(Page):
    """Looks at the PC when nobody has yet, and shows what was found."""

    step = Step.PC

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.is_looking = False
        self.findings: tuple[Finding, ...] = ()
        self.looking = text_label(self.say("looking"))
        self.bar = QProgressBar()
        self.bar.setRange(0, 0)
        self.bar.setTextVisible(False)
        self.bar.setAccessibleName(self.say("looking"))
        self.again = QPushButton(self.say("again"))
        self.again.setAutoDefault(False)
        self.details = Details(session.texts.say("button.details"))
        self._found = QWidget()
        self.body.addWidget(self.looking)
        self.body.addWidget(self.bar)
        self.body.addWidget(self._found)
        row = QHBoxLayout()
        row.addWidget(self.again)
        row.addStretch(1)
        self.body.addLayout(row)
        self.body.addWidget(self.details)
        self.body.addStretch(1)
        self.again.clicked.connect(self.look)

    def enter(self) -> None:
        """Show what is known; look, if nothing is."""
        if self.session.survey is None:
            self.look()
        else:
            self._show(self.session.survey)

    def can_go_on(self) -> bool:
        """Also while nothing could be found: the bundled model always works."""
        return not self.is_looking

    def look(self) -> None:
        """Look at the PC."""
        self._show_looking(is_looking=True)
        doors, folder = self.session.doors, self.session.installation.data_dir

        def work(_report: Report[None]) -> Survey:
            return doors.survey(folder)

        run_in_background(self, work, on_success=self._keep, on_failure=self._fail)

    def _keep(self, found: Survey) -> None:
        self.session.survey = found
        self._show(found)

    def _fail(self, error: EngineError) -> None:
        self._show_looking(is_looking=False)
        self._found.hide()
        self.looking.setText(self.say("failed", reason=str(error)))
        self.looking.show()

    def _show(self, found: Survey) -> None:
        recommendation = self.session.recommend()
        if recommendation is None:
            return
        self._show_looking(is_looking=False)
        texts = self.session.texts
        self.findings = pc_findings(found, self.session.installation.catalog)
        fresh = QWidget()
        self._lay_out(fresh, recommendation)
        self.body.replaceWidget(self._found, fresh)
        self._found.deleteLater()
        self._found = fresh
        self.details.set_lines([texts.note(note) for note in found.notes])
        self.details.setVisible(bool(found.notes))

    def _lay_out(self, parent: QWidget, recommendation: Recommendation) -> None:
        texts = self.session.texts
        em = self.fontMetrics().height()
        grid = QGridLayout(parent)
        grid.setContentsMargins(0, 0, 0, em // 2)
        grid.setHorizontalSpacing(round(em * 0.7))
        grid.setVerticalSpacing(round(em * 0.45))
        grid.setColumnStretch(2, 1)
        verdict = Light(recommendation.verdict.value)
        grid.addWidget(LightSign(verdict, texts.say(f"light.{verdict.value}"), 2.0), 0, 0)
        catalog = self.session.installation.catalog
        model = catalog.find(recommendation.choice.model_id)
        title = title_of(catalog, model, texts) if model is not None else ""
        sentence = text_label(self.say(f"verdict_{verdict.value}", model=title))
        heading(sentence, 1.1)
        grid.addWidget(sentence, 0, 1, 1, 2)
        reasons = text_label("\n".join(texts.note(note) for note in recommendation.reasons))
        grid.addWidget(reasons, 1, 1, 1, 2)
        grid.setRowMinimumHeight(2, em // 2)
        for row, subject in enumerate(Subject, start=3):
            self._add_subject(grid, row, subject)

    def _add_subject(self, grid: QGridLayout, row: int, subject: Subject) -> None:
        """All that was found about one part of the PC, with the worst light of it."""
        texts = self.session.texts
        found = [finding for finding in self.findings if finding.subject is subject]
        if not found:
            return
        marks = [finding.mark for finding in found]
        worst = next(mark for mark in (Mark.RED, Mark.AMBER, Mark.GREEN) if mark in marks)
        light = Light(worst.value)
        word = texts.say(f"light.{light.value}")
        name = QLabel(texts.say(f"check.{subject.value}"))
        words = text_label("\n".join(texts.note(finding.note) for finding in found))
        words.setAccessibleName(f"{name.text()}: {word}. {words.text()}")
        top = Qt.AlignmentFlag.AlignTop
        grid.addWidget(LightSign(light, word), row, 0, top | Qt.AlignmentFlag.AlignHCenter)
        grid.addWidget(name, row, 1, top)
        grid.addWidget(words, row, 2)

    def _show_looking(self, *, is_looking: bool) -> None:
        self.is_looking = is_looking
        self.looking.setText(self.say("looking"))
        self.looking.setVisible(is_looking)
        self.bar.setVisible(is_looking)
        self._found.setVisible(not is_looking)
        self.again.setEnabled(not is_looking)
        self.details.setVisible(False)
        self.changed.emit()
