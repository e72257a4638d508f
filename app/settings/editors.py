"""Widgets that edit one value of the run config, by its kind.

    editor = make_editor(row)
    editor.show_value(8080, is_set=True, auto="")
    editor.changed.connect(...)          # with the new value; None leaves it to the program

A number is typed as text: what cannot be one goes on as text, and the run config's own check says so.
"""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QCoreApplication, QEvent, QObject, Qt, Signal
from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QFileDialog,
    QHBoxLayout,
    QLineEdit,
    QPlainTextEdit,
    QToolButton,
    QWidget,
)

from app.look.icons import put_icon
from app.look.look import em
from app.settings.config_fields import ConfigRow, JsonValue, Kind


class Editor(QWidget):
    """Base of the editors.

    Signals:
        changed: the person changed the value; with the new one, None for "as the program chooses".
    """

    changed = Signal(object)

    def __init__(self, row: ConfigRow) -> None:
        super().__init__()
        self.row = row
        self.inner = QHBoxLayout(self)
        self.inner.setContentsMargins(0, 0, 0, 0)

    def show_value(self, value: JsonValue, *, is_set: bool, auto: str) -> None:
        """Show a value without telling of a change.

        Args:
            value: of the draft, or the default.
            is_set: whether the file would name it.
            auto: what the program chooses, when that is known.
        """
        raise NotImplementedError

    def focus_widget(self) -> QWidget:
        """What takes the keyboard."""
        raise NotImplementedError


class SwitchEditor(Editor):
    """On or off."""

    def __init__(self, row: ConfigRow) -> None:
        super().__init__(row)
        self.box = QCheckBox()
        self.inner.addWidget(self.box)
        self.inner.addStretch(1)
        self.box.toggled.connect(self.changed.emit)

    def show_value(self, value: JsonValue, *, is_set: bool, auto: str) -> None:
        """As above."""
        del is_set, auto
        self.box.blockSignals(True)
        self.box.setChecked(value is True)
        self.box.blockSignals(False)

    def focus_widget(self) -> QWidget:
        """The box."""
        return self.box


class ChoiceEditor(Editor):
    """One of some words; the wheel scrolls the page, not the choice."""

    def __init__(self, row: ConfigRow) -> None:
        super().__init__(row)
        self.box = QComboBox()
        self.box.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.box.installEventFilter(self)
        for choice in row.choices:
            self.box.addItem(choice_word(row.key, choice), choice)
        self.inner.addWidget(self.box)
        self.inner.addStretch(1)
        self.box.activated.connect(lambda _index: self.changed.emit(self.box.currentData()))

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802  # Qt's name
        """Leave the wheel to the page."""
        if event.type() is QEvent.Type.Wheel and not self.box.hasFocus():
            event.ignore()
            return True
        return super().eventFilter(watched, event)

    def show_value(self, value: JsonValue, *, is_set: bool, auto: str) -> None:
        """As above; a value that is none of the choices is shown as it is."""
        del is_set, auto
        index = self.box.findData(value)
        if index < 0:
            self.box.addItem(str(value), value)
            index = self.box.count() - 1
        self.box.setCurrentIndex(index)

    def focus_widget(self) -> QWidget:
        """The box."""
        return self.box


class TextEditor(Editor):
    """A line of text, or a number."""

    def __init__(self, row: ConfigRow) -> None:
        super().__init__(row)
        self.line = QLineEdit()
        self.inner.addWidget(self.line, 1)
        if row.kind in (Kind.INTEGER, Kind.NUMBER):
            self.line.setMaximumWidth(12 * em(self))
            self.inner.addStretch(1)
        if row.is_secret:
            self.line.setEchoMode(QLineEdit.EchoMode.Password)
            self.inner.addWidget(_eye(self.line))
        if row.kind is Kind.PATH:
            self.inner.addWidget(self._browse_button())
        self.line.textEdited.connect(self._edited)

    def show_value(self, value: JsonValue, *, is_set: bool, auto: str) -> None:
        """As above."""
        text = text_of(value) if is_set else ""
        default = text_of(self.row.default) if self.row.default not in (None, "") else ""
        auto_word = QCoreApplication.translate("Editors", "auto: {value}").format(value=auto)
        empty = QCoreApplication.translate("Editors", "auto") if self.row.is_optional else default
        self.line.setPlaceholderText(auto_word if auto else empty)
        if text != self.line.text() and value_of(self.row, self.line.text()) != value:
            self.line.setText(text)
        elif not is_set and self.line.text():
            self.line.clear()

    def focus_widget(self) -> QWidget:
        """The line."""
        return self.line

    def _edited(self, text: str) -> None:
        self.changed.emit(value_of(self.row, text))

    def _browse_button(self) -> QToolButton:
        browse = QToolButton()
        put_icon(browse, "folder")
        browse.setToolTip(QCoreApplication.translate("Editors", "Choose a file"))
        browse.setAccessibleName(QCoreApplication.translate("Editors", "Choose a file"))
        browse.clicked.connect(self._browse)
        return browse

    def _browse(self) -> None:
        dialog = QFileDialog(self)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.setFileMode(QFileDialog.FileMode.ExistingFile)
        dialog.setNameFilters([QCoreApplication.translate("Editors", "Models (*.gguf)"), "*"])
        if self.line.text():
            dialog.setDirectory(str(Path(self.line.text()).parent))
        dialog.fileSelected.connect(self._chosen)
        dialog.open()

    def _chosen(self, name: str) -> None:
        self.line.setText(name)
        self.changed.emit(name)


class LinesEditor(Editor):
    """A list of texts, one a line."""

    def __init__(self, row: ConfigRow) -> None:
        super().__init__(row)
        self.text = QPlainTextEdit()
        self.text.setTabChangesFocus(True)
        self.text.setFixedHeight(4 * em(self))
        self.inner.addWidget(self.text, 1)
        self._is_showing = False
        self.text.textChanged.connect(self._edited)

    def show_value(self, value: JsonValue, *, is_set: bool, auto: str) -> None:
        """As above."""
        del auto
        lines = [str(item) for item in value] if isinstance(value, list) and is_set else []
        if lines != lines_of(self.text.toPlainText()):
            self._is_showing = True
            self.text.setPlainText("\n".join(lines))
            self._is_showing = False

    def focus_widget(self) -> QWidget:
        """The text."""
        return self.text

    def _edited(self) -> None:
        if not self._is_showing:
            lines: list[JsonValue] = list(lines_of(self.text.toPlainText()))
            self.changed.emit(lines or None)


def make_editor(row: ConfigRow) -> Editor:
    """The editor for a kind of value."""
    match row.kind:
        case Kind.SWITCH:
            return SwitchEditor(row)
        case Kind.CHOICE:
            return ChoiceEditor(row)
        case Kind.LINES:
            return LinesEditor(row)
        case _:
            return TextEditor(row)


def value_of(row: ConfigRow, text: str) -> JsonValue:
    """The value that somebody typed; None for nothing, the text itself for what is no number."""
    text = text.strip()
    if not text:
        return None
    if row.kind is Kind.INTEGER:
        try:
            return int(text.replace(" ", "").replace("_", ""))
        except ValueError:
            return text
    if row.kind is Kind.NUMBER:
        try:
            return float(text.replace(",", ".")) if "." in text or "," in text else int(text)
        except ValueError:
            return text
    return text


def text_of(value: JsonValue) -> str:
    """A value as it is typed."""
    if isinstance(value, float):
        return f"{value:g}" if abs(value) < 1e6 else str(int(value))
    return "" if value is None else str(value)


def lines_of(text: str) -> list[str]:
    """The lines that hold something."""
    return [line.strip() for line in text.splitlines() if line.strip()]


def choice_word(key: str, choice: str) -> str:
    """A choice in words; those that are names stay."""
    translate = QCoreApplication.translate
    words = {
        ("ops", "auto"): translate("Choices", "auto (the fastest that works)"),
        ("ops", "reference"): translate("Choices", "reference (plain and slow)"),
        ("ops", "host"): translate("Choices", "host (the processor's kernels)"),
        ("ops", "cuda"): translate("Choices", "cuda (the graphics card and the processor)"),
        ("default_reasoning_effort", "none"): translate("Choices", "none"),
        ("default_reasoning_effort", "low"): translate("Choices", "low"),
        ("default_reasoning_effort", "medium"): translate("Choices", "medium"),
        ("default_reasoning_effort", "high"): translate("Choices", "high"),
        ("anthropic_thinking", "when_asked"): translate("Choices", "when asked"),
        ("anthropic_thinking", "always"): translate("Choices", "always"),
    }
    return words.get((key, choice), choice)


def _eye(line: QLineEdit) -> QToolButton:
    """A button that shows what a line hides."""
    eye = QToolButton()
    eye.setCheckable(True)
    put_icon(eye, "eye")
    eye.setToolTip(QCoreApplication.translate("Editors", "Show"))
    eye.setAccessibleName(QCoreApplication.translate("Editors", "Show"))

    def show(is_shown: bool) -> None:  # a slot
        mode = QLineEdit.EchoMode.Normal if is_shown else QLineEdit.EchoMode.Password
        line.setEchoMode(mode)
        put_icon(eye, "eye-off" if is_shown else "eye")

    eye.toggled.connect(show)
    return eye
