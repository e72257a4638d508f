"""The switches of the app itself, as one page: `AppSwitches(context)`.

Each takes effect at once. "Start at login" is read from the system whenever the page is shown, since it
can be changed in the system's own list too.
"""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QEvent, QSignalBlocker, Qt
from PySide6.QtGui import QPalette, QShowEvent
from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QFormLayout,
    QGroupBox,
    QLabel,
    QVBoxLayout,
    QWidget,
)

from app import autostart
from app.app_settings import AppSettings, Theme
from app.context import AppContext
from app.error_words import error_words
from app.look.look import em
from engine.core.errors import EngineError
from engine.core.language import Language

# In the order in which they can be chosen; a combo box would give back mere strings.
_LANGUAGES: tuple[Language | None, ...] = (None, *Language)
_THEMES = (Theme.SYSTEM, Theme.LIGHT, Theme.DARK)


class AppSwitches(QWidget):
    """The page."""

    def __init__(self, context: AppContext) -> None:
        super().__init__()
        self._context = context
        self._boxes: dict[str, QCheckBox] = {}
        self._notes: dict[str, QLabel] = {}
        self._groups: dict[str, QGroupBox] = {}
        self._layout = QVBoxLayout(self)
        self._layout.setSpacing(em(self))
        start = self._add_group("start")
        self.at_login = self._add_box(start, "at_login", self._set_at_login)
        self._add_box(start, "starts_model", self._setter("starts_model"))
        tray = self._add_group("tray")
        self._add_box(tray, "shows_tray", self._setter("shows_tray"))
        self._add_box(tray, "closes_to_tray", self._setter("closes_to_tray"))
        notices = self._add_group("notices")
        for name in ("notifies_ready", "notifies_answer", "notifies_error"):
            self._add_box(notices, name, self._setter(name))
        look = self._add_group("look")
        form = QFormLayout()
        look.addLayout(form)
        self.language, self.theme = QComboBox(), QComboBox()
        self._language_label, self._theme_label = QLabel(), QLabel()
        for label, choice in (
            (self._language_label, self.language),
            (self._theme_label, self.theme),
        ):
            label.setBuddy(choice)
            form.addRow(label, choice)
        self._layout.addStretch(1)
        self._say()
        self._show(context.app_settings.value)
        self.language.activated.connect(self._set_language)
        self.theme.activated.connect(self._set_theme)
        context.app_settings.changed.connect(self._show)

    def box(self, name: str) -> QCheckBox:
        """A switch by the name of its setting."""
        return self._boxes[name]

    def note(self, name: str) -> str:
        """What stands under a switch; empty when nothing does."""
        return self._notes[name].text()

    def showEvent(self, event: QShowEvent) -> None:  # Qt's name
        """Look at what the system says."""
        self._look_at_login()
        super().showEvent(event)

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802  # Qt's name
        """Speak the new language."""
        if event.type() is QEvent.Type.LanguageChange:
            self._say()
            self._show(self._context.app_settings.value)
        super().changeEvent(event)

    # -- building ----------------------------------------------------------------------------------

    def _add_group(self, name: str) -> QVBoxLayout:
        group = QGroupBox()
        self._groups[name] = group
        self._layout.addWidget(group)
        return QVBoxLayout(group)

    def _add_box(self, layout: QVBoxLayout, name: str, change: Callable[[bool], None]) -> QCheckBox:
        box = QCheckBox()
        note = QLabel()
        note.setTextFormat(Qt.TextFormat.PlainText)
        note.setWordWrap(True)
        note.setForegroundRole(QPalette.ColorRole.PlaceholderText)
        note.setIndent(round(em(self) * 1.5))
        note.hide()
        box.toggled.connect(change)
        layout.addWidget(box)
        layout.addWidget(note)
        self._boxes[name], self._notes[name] = box, note
        return box

    def _say(self) -> None:
        groups = {
            "start": self.tr("Start"),
            "tray": self.tr("Beside the clock"),
            "notices": self.tr("Notifications"),
            "look": self.tr("Language and colours"),
        }
        for name, text in groups.items():
            self._groups[name].setTitle(text)
        boxes = {
            "at_login": self.tr("Start Stratum when I log in"),
            "starts_model": self.tr("Start the model together with Stratum"),
            "shows_tray": self.tr("Show a sign beside the clock"),
            "closes_to_tray": self.tr("Closing the window leaves the sign and the model"),
            "notifies_ready": self.tr("When the model is ready"),
            "notifies_answer": self.tr("When a long answer has ended and no window is in front"),
            "notifies_error": self.tr("When something fails"),
        }
        for name, text in boxes.items():
            self._boxes[name].setText(text)
        self._say_note("at_login", self.tr("It then starts beside the clock, without a window."))
        self._language_label.setText(self.tr("&Language"))
        self._theme_label.setText(self.tr("&Colours"))
        as_system = self.tr("As the system")
        self._fill(self.language, [as_system, *(one.own_name for one in Language)])
        self._fill(self.theme, [as_system, self.tr("Light"), self.tr("Dark")])

    def _fill(self, choice: QComboBox, texts: list[str]) -> None:
        with QSignalBlocker(choice):
            choice.clear()
            choice.addItems(texts)

    def _say_note(self, name: str, text: str) -> None:
        self._notes[name].setText(text)
        self._notes[name].setVisible(bool(text))

    # -- showing and changing ----------------------------------------------------------------------

    def _show(self, settings: AppSettings) -> None:
        for name, box in self._boxes.items():
            if name != "at_login":
                with QSignalBlocker(box):
                    box.setChecked(bool(getattr(settings, name)))
        self._boxes["closes_to_tray"].setEnabled(settings.shows_tray)
        self._say_note(
            "closes_to_tray",
            "" if settings.shows_tray else self.tr("Without the sign, closing the window quits."),
        )
        self.language.setCurrentIndex(_LANGUAGES.index(settings.language))
        self.theme.setCurrentIndex(_THEMES.index(settings.theme))

    def _look_at_login(self) -> None:
        with QSignalBlocker(self.at_login):
            self.at_login.setChecked(autostart.is_on())
        self.at_login.setEnabled(autostart.can_be_changed())
        if not autostart.can_be_changed():
            text = self.tr("This copy keeps everything in its own folder and changes no system.")
            self._say_note("at_login", text)

    def _setter(self, name: str) -> Callable[[bool], None]:
        def change(is_on: bool) -> None:  # a slot
            self._change(name, is_on)

        return change

    def _change(self, name: str, value: object) -> None:
        store = self._context.app_settings
        store.put(store.value.model_copy(update={name: value}))

    def _set_at_login(self, is_on: bool) -> None:  # a slot
        try:
            autostart.set_on(self._context.settings, is_on=is_on)
        except EngineError as error:
            self._look_at_login()
            self._say_note("at_login", error_words(error))

    def _set_language(self, index: int) -> None:
        self._change("language", _LANGUAGES[index])

    def _set_theme(self, index: int) -> None:
        self._change("theme", _THEMES[index])
