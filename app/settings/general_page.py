"""The first page: when Stratum starts, what closing means, language, colours, notifications."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QCheckBox, QComboBox, QFormLayout, QLabel

from app import autostart
from app.app_settings import AppSettings, Theme
from app.settings.hub import Hub
from app.settings.page import Notice, SettingsPage, button, row_of
from app.settings.problem_words import error_sentence
from engine.core.errors import EngineError
from engine.core.language import Language

_SWITCHES = (
    *("closes_to_tray", "shows_tray", "starts_model"),
    *("notifies_ready", "notifies_answer", "notifies_error"),
)


class GeneralPage(SettingsPage):
    """The page.

    Attributes:
        switches: the check boxes, by the name of their setting.
    """

    def __init__(self, hub: Hub) -> None:
        super().__init__(hub)
        self._store = hub.context.app_settings
        self.add_title(self.tr("General"))
        self.notice = Notice()
        self.body.addWidget(self.notice)
        self.add_heading(self.tr("Starting and closing"))
        self.login = QCheckBox(self.tr("Start Stratum when I log in"))
        self.login.clicked.connect(self._set_login)
        self.body.addWidget(self.login)
        self.switches: dict[str, QCheckBox] = {}
        self._add_switch("starts_model", self.tr("Start the model together with Stratum"))
        self._add_switch(
            "closes_to_tray", self.tr("Closing the window leaves Stratum beside the clock")
        )
        self._add_switch("shows_tray", self.tr("Show the sign beside the clock"))
        self.add_hint(self.tr("Without the sign, closing the window ends Stratum."))
        self.add_heading(self.tr("Look"))
        self.language = QComboBox()
        self.language.addItem(self.tr("As the system"), None)
        for language in Language:
            self.language.addItem(language.own_name, language)
        self.theme = QComboBox()
        names = {
            Theme.SYSTEM: self.tr("As the system"),
            Theme.LIGHT: self.tr("Light"),
            Theme.DARK: self.tr("Dark"),
        }
        for theme, name in names.items():
            self.theme.addItem(name, theme)
        form = QFormLayout()
        for text, box in ((self.tr("Language"), self.language), (self.tr("Colours"), self.theme)):
            label = QLabel(text)
            label.setBuddy(box)
            box.setAccessibleName(text)
            box.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
            form.addRow(label, box)
        form.setFieldGrowthPolicy(QFormLayout.FieldGrowthPolicy.FieldsStayAtSizeHint)
        self.body.addLayout(form)
        self.language.activated.connect(self._set_language)
        self.theme.activated.connect(self._set_theme)
        self.add_heading(self.tr("Notifications"))
        self._add_switch("notifies_ready", self.tr("When the model is ready"))
        self._add_switch(
            "notifies_answer", self.tr("When a long answer is complete and the window is hidden")
        )
        self._add_switch("notifies_error", self.tr("When something fails"))
        about = button(self.tr("About Stratum"), "info")
        about.clicked.connect(hub.context.requests.show_about)
        log = button(self.tr("Show the log"), "log")
        log.clicked.connect(hub.context.requests.show_log)
        self.body.addSpacing(about.sizeHint().height() // 2)
        self.body.addLayout(row_of(about, log))
        self.body.addStretch(1)
        self._store.changed.connect(self._show)
        self.enter()

    def enter(self) -> None:
        """Ask the system about the start at login: the person can change it there too."""
        can = autostart.can_be_changed()
        self.login.setEnabled(can)
        self.login.setChecked(can and autostart.is_on())
        self.login.setToolTip(
            "" if can else self.tr("A portable copy changes nothing of the system.")
        )
        self._show(self._store.value)

    def _add_switch(self, name: str, text: str) -> None:
        box = QCheckBox(text)
        box.clicked.connect(
            lambda is_on, name=name: self._put({name: bool(is_on)}),
        )
        self.switches[name] = box
        self.body.addWidget(box)

    def _put(self, changes: dict[str, object]) -> None:
        self._store.put(self._store.value.model_copy(update=changes))

    def _show(self, value: AppSettings) -> None:
        for name in _SWITCHES:
            self.switches[name].setChecked(bool(getattr(value, name)))
        self.switches["closes_to_tray"].setEnabled(value.shows_tray)
        self.language.setCurrentIndex(max(0, self.language.findData(value.language)))
        self.theme.setCurrentIndex(max(0, self.theme.findData(value.theme)))

    def _set_login(self, is_on: bool) -> None:  # a slot
        try:
            autostart.set_on(self.hub.context.settings, is_on=is_on)
        except EngineError as error:
            self.notice.say(error_sentence(error), is_problem=True)
        else:
            self.notice.say("")
        self.login.setChecked(autostart.is_on())

    def _set_language(self, _index: int) -> None:
        self._put({"language": self.language.currentData()})

    def _set_theme(self, _index: int) -> None:
        self._put({"theme": self.theme.currentData()})
