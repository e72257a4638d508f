"""The editor of the run config: every setting of `RunConfig`, by groups, with a search field.

What is typed is checked at once by `RunConfig` itself; nothing is written before "Save".
"""

from __future__ import annotations

import contextlib

from PySide6.QtCore import QTimer
from PySide6.QtGui import QPalette
from PySide6.QtWidgets import QFrame, QGridLayout, QLabel, QLineEdit, QToolButton, QWidget

from app.background import Operation, in_background
from app.look.icons import put_icon
from app.look.look import em, enlarge
from app.model_report import ModelReport, NoReportError, read_model_report
from app.settings.config_draft import ConfigDraft, Problem, can_undo
from app.settings.config_fields import ConfigRow, Group, JsonValue, Kind, config_rows
from app.settings.config_texts import allowed_in_words, description_of, group_title, label_of
from app.settings.editors import make_editor
from app.settings.hub import Hub
from app.settings.page import Notice, SettingsPage, button, hint_label, plain_label, row_of
from app.settings.problem_words import error_sentence, problem_sentence
from app.settings.resolved import ask_engine, resolved_values
from engine.core.config import RunConfig
from engine.core.errors import EngineError

_CHECK_AFTER_MS = 250


class RowWidget(QFrame):
    """One setting: name, editor, what it does, what is wrong."""

    def __init__(self, row: ConfigRow) -> None:
        super().__init__()
        self.row = row
        self.editor = make_editor(row)
        self.label = plain_label(label_of(row))
        self.label.setBuddy(self.editor.focus_widget())
        self.editor.focus_widget().setAccessibleName(label_of(row))
        self.editor.focus_widget().setAccessibleDescription(description_of(row))
        key = hint_label(row.key)
        enlarge(key, 0.95)
        self.reset = QToolButton()
        self.reset.setAutoRaise(True)
        put_icon(self.reset, "undo")
        self.reset.setToolTip(self.tr("Back to the default"))
        self.reset.setAccessibleName(
            self.tr("{name}: back to the default").format(name=label_of(row))
        )
        self.hint = hint_label()
        self.problem = plain_label()
        self.problem.hide()
        self.state = hint_label()
        self.state.hide()
        layout = QGridLayout(self)
        layout.setContentsMargins(0, em(self) // 4, 0, em(self) // 4)
        layout.setVerticalSpacing(0)
        layout.setHorizontalSpacing(em(self))
        layout.addWidget(self.label, 0, 0)
        layout.addWidget(key, 1, 0)
        layout.addWidget(self.editor, 0, 1)
        layout.addWidget(self.reset, 0, 2)
        layout.addWidget(self.hint, 1, 1, 1, 2)
        layout.addWidget(self.problem, 2, 1, 1, 2)
        layout.addWidget(self.state, 3, 1, 1, 2)
        layout.setColumnMinimumWidth(0, 14 * em(self))
        layout.setColumnStretch(1, 1)
        policy = self.reset.sizePolicy()
        policy.setRetainSizeWhenHidden(True)
        self.reset.setSizePolicy(policy)

    def show_value(self, value: JsonValue, *, is_set: bool, auto: str) -> None:
        """Bring it up to date."""
        self.editor.show_value(value, is_set=is_set, auto=auto)
        self.reset.setVisible(is_set)
        parts = [description_of(self.row)]
        if self.row.kind in (Kind.INTEGER, Kind.NUMBER):
            parts.append(self.tr("Allowed: {words}.").format(words=allowed_in_words(self.row)))
        if auto:
            parts.append(self.tr("Here “auto” is {value}.").format(value=auto))
        parts.append(self.tr("Needs a restart."))
        text = " ".join(part for part in parts if part)
        if text != self.hint.text():
            self.hint.setText(text)

    def show_problem(self, problem: Problem | None) -> None:
        """Say what is wrong; None: nothing."""
        self.problem.setText(problem_sentence(problem) if problem is not None else "")
        self.problem.setVisible(problem is not None)

    def show_pending(self, *, is_pending: bool) -> None:
        """Say that the running engine has another value."""
        self.state.setText(self.tr("Saved; waits for a restart.") if is_pending else "")
        self.state.setVisible(is_pending)

    def matches(self, words: str) -> bool:
        """Whether a search finds it."""
        text = (
            f"{self.row.key} {label_of(self.row)} {description_of(self.row)} {self.row.description}"
        )
        text = text.casefold()
        return all(word in text for word in words.casefold().split())


class RunPage(SettingsPage):
    """The page."""

    def __init__(self, hub: Hub) -> None:
        super().__init__(hub)
        self._draft: ConfigDraft | None = None
        self._auto: dict[str, str] = {}
        self._operation: Operation | None = None
        self._check_soon = QTimer(self)
        self._check_soon.setSingleShot(True)
        self._check_soon.setInterval(_CHECK_AFTER_MS)
        self._check_soon.timeout.connect(self._check)
        self.add_title(self.tr("Model and engine"))
        self.subtitle = self.add_hint("")
        self.search = QLineEdit()
        self.search.setPlaceholderText(self.tr("Search settings"))
        self.search.setAccessibleName(self.tr("Search settings"))
        self.search.setClearButtonEnabled(True)
        self.search.textChanged.connect(self._filter)
        self.body.addWidget(self.search)
        self.nothing = self.add_hint(self.tr("No setting has these words."))
        self.nothing.hide()
        self.rows: dict[str, RowWidget] = {}
        self._headings: dict[Group, QLabel] = {}
        self._add_rows()
        self.body.addStretch(1)
        self.notice = Notice()
        self.save = button(self.tr("Save"), "check")
        self.discard = button(self.tr("Discard changes"))
        self.undo = button(self.tr("Undo the last save"), "undo")
        self.save.clicked.connect(self._save)
        self.discard.clicked.connect(self._discard)
        self.undo.clicked.connect(self._undo)
        foot = QWidget()
        foot.setAutoFillBackground(True)
        foot.setBackgroundRole(QPalette.ColorRole.AlternateBase)
        line = row_of(self.save, self.discard, self.undo)
        line.setContentsMargins(em(self), em(self) // 2, em(self), em(self) // 2)
        foot.setLayout(line)
        layout = self.layout()
        if layout is not None:
            layout.addWidget(self.notice)
            layout.addWidget(foot)
        hub.saved.connect(self._saved_elsewhere)
        hub.config_changed.connect(self.enter)
        hub.pending.changed.connect(self._show_pending)

    def enter(self) -> None:
        """Read the file again, unless something in it is being changed."""
        path = self.hub.config_path
        if self._draft is not None and self._draft.path == path and self._draft.changed_keys:
            return
        self._draft = None
        if path is None:
            self.subtitle.setText(
                self.tr("No model is installed yet. Add one on the page “Models”.")
            )
            self._show()
            return
        self.subtitle.setText(self.tr("These settings are in {file}").format(file=path))
        try:
            self._draft = ConfigDraft(path)
        except EngineError as error:
            self.notice.say(error_sentence(error), is_problem=True)
        else:
            self.notice.say("")
            self._ask_auto()
        self._show()

    # -- building ----------------------------------------------------------------------------------

    def _add_rows(self) -> None:
        for row in config_rows():
            if row.group not in self._headings:
                self._headings[row.group] = self.add_heading(group_title(row.group))
            if row.kind is Kind.ELSEWHERE:
                continue
            widget = RowWidget(row)
            self.rows[row.key] = widget
            self.body.addWidget(widget)
            widget.editor.changed.connect(lambda value, key=row.key: self._edit(key, value))
            widget.reset.clicked.connect(lambda _checked=False, key=row.key: self._reset(key))

    # -- changing ----------------------------------------------------------------------------------

    def _edit(self, key: str, value: JsonValue) -> None:
        if self._draft is None:
            return
        self._draft.set(key, value)
        self._show_buttons()
        self._check_soon.start()

    def _reset(self, key: str) -> None:
        if self._draft is not None:
            self._draft.reset(key)
            self._show()

    def _check(self) -> None:
        problems = self._draft.problems() if self._draft is not None else {}
        for key, widget in self.rows.items():
            widget.show_problem(problems.get(key))
            if self._draft is not None:
                widget.reset.setVisible(self._draft.is_set(key))
        elsewhere = [problem for key, problem in problems.items() if key not in self.rows]
        if elsewhere:
            self.notice.say(
                f"{elsewhere[0].key}: {problem_sentence(elsewhere[0])}", is_problem=True
            )
        self._show_buttons(has_problem=bool(problems))

    def _save(self) -> None:
        if self._draft is None:
            return
        self._check_soon.stop()
        try:
            self._draft.save()
        except EngineError as error:
            self.notice.say(error_sentence(error), is_problem=True)
            self._check()
            return
        self.notice.say(
            self.tr("Saved.")
            if not self.hub.is_engine_running
            else self.tr("Saved. It takes effect when the model is started again.")
        )
        self.hub.tell_saved()
        self._show()
        self._ask_auto()

    def _discard(self) -> None:
        if self._draft is not None:
            self._draft.discard()
            self.notice.say("")
            self._show()

    def _undo(self) -> None:
        if self._draft is None:
            return
        try:
            self._draft.undo_save()
        except EngineError as error:
            self.notice.say(error_sentence(error), is_problem=True)
            return
        self.notice.say(self.tr("The settings before the last save hold again."))
        self.hub.tell_saved()
        self._show()

    def _saved_elsewhere(self) -> None:
        if self._draft is None:
            return
        try:
            self._draft.read_again()
        except EngineError as error:
            self.notice.say(error_sentence(error), is_problem=True)
        self._show()

    # -- showing -----------------------------------------------------------------------------------

    def _show(self) -> None:
        draft = self._draft
        for key, widget in self.rows.items():
            widget.setEnabled(draft is not None)
            value = draft.value(key) if draft is not None else widget.row.default
            is_set = draft.is_set(key) if draft is not None else False
            auto = self._auto.get(key, "") if not is_set else ""
            widget.show_value(value, is_set=is_set, auto=auto)
        self._check()
        self._show_pending()

    def _show_buttons(self, *, has_problem: bool = False) -> None:
        draft = self._draft
        is_changed = draft is not None and bool(draft.changed_keys)
        self.save.setEnabled(is_changed and not has_problem)
        self.discard.setEnabled(is_changed)
        self.undo.setEnabled(draft is not None and not is_changed and can_undo(draft.path))

    def _show_pending(self) -> None:
        waiting = self.hub.pending.keys
        for key, widget in self.rows.items():
            widget.show_pending(is_pending=key.partition(".")[0] in waiting)

    def _filter(self, words: str) -> None:
        shown: set[Group] = set()
        for widget in self.rows.values():
            is_found = widget.matches(words)
            widget.setVisible(is_found)
            if is_found:
                shown.add(widget.row.group)
        for group, heading in self._headings.items():
            heading.setVisible(group in shown)
        self.nothing.setVisible(not shown)

    # -- what "auto" comes to ----------------------------------------------------------------------

    def _ask_auto(self) -> None:
        path, http, config = self.hub.config_path, self.hub.context.http, self.hub.config()
        if self._operation is not None:
            self._operation.cancel()

        def ask(_task: object) -> dict[str, str]:
            props, status = ask_engine(http)
            report: ModelReport | None = None
            with contextlib.suppress(NoReportError):  # the engine itself says what is wrong
                report = read_model_report(path)
            return resolved_values(config, props, status, report)

        self._operation = in_background(self, ask, on_success=self._take_auto)

    def _take_auto(self, found: dict[str, str]) -> None:
        self._auto = found
        self._show()

    def config(self) -> RunConfig | None:
        """What is being edited; None while it cannot be used."""
        return self._draft.config() if self._draft is not None else None
