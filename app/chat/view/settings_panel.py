"""The settings of one conversation: preset, system prompt, thinking, sampling.

They hold from the next answer on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from PySide6.QtCore import QCoreApplication, Qt, QTimer, Signal
from PySide6.QtWidgets import (
    QCheckBox,
    QComboBox,
    QDoubleSpinBox,
    QFormLayout,
    QFrame,
    QHBoxLayout,
    QInputDialog,
    QLabel,
    QPlainTextEdit,
    QScrollArea,
    QSpinBox,
    QVBoxLayout,
    QWidget,
)

from app.chat.activity import ModelFacts
from app.chat.presets import Preset, PresetStore, applied
from app.chat.view import words
from app.chat.view.theme import theme_of
from app.chat.view.transcript.widgets import colour_text, small_font
from app.history.records import ConversationSettings, Sampling
from app.look.icons import icon_button
from app.look.look import enlarge
from engine.core.config import Effort
from engine.core.errors import EngineError

_TYPING_MS = 400
# name, least, most, step, digits
_DECIMALS = (
    ("temperature", 0.0, 2.0, 0.05, 2),
    ("top_p", 0.01, 1.0, 0.01, 2),
    ("min_p", 0.0, 1.0, 0.01, 2),
    ("presence_penalty", -2.0, 2.0, 0.1, 2),
    ("frequency_penalty", -2.0, 2.0, 0.1, 2),
    ("repetition_penalty", 0.05, 2.0, 0.05, 2),
)
_MOST_SEED = 2**31 - 1


def preset_title(preset: Preset) -> str:
    """A preset's name in the person's language."""
    translate = QCoreApplication.translate
    if not preset.is_built_in:
        return preset.title
    return {
        "balanced": translate("ChatPresets", "Balanced"),
        "precise": translate("ChatPresets", "Precise"),
        "creative": translate("ChatPresets", "Creative"),
        "quick": translate("ChatPresets", "Quick"),
    }.get(preset.id, preset.title)


def preset_description(preset: Preset) -> str:
    """What a preset is for."""
    translate = QCoreApplication.translate
    if not preset.is_built_in:
        return preset.description
    return {
        "balanced": translate("ChatPresets", "What the model's authors recommend."),
        "precise": translate(
            "ChatPresets",
            "For facts, code and calculations: the likeliest words, and time to think.",
        ),
        "creative": translate("ChatPresets", "For stories and ideas: less likely words too."),
        "quick": translate("ChatPresets", "Answers at once, without thinking."),
    }.get(preset.id, preset.description)


class SettingsPanel(QWidget):
    """See above.

    Signals:
        changed: the new `ConversationSettings`.
        close_wanted: hide the panel.
        refused: a sentence; a preset could not be kept.
    """

    changed = Signal(object)
    close_wanted = Signal()
    refused = Signal(str)

    def __init__(self, presets: PresetStore, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._presets = presets
        self._settings = ConversationSettings()
        self._facts = ModelFacts()
        self._is_filling = False
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(_TYPING_MS)
        self._timer.timeout.connect(self._take)
        self.preset = QComboBox(self)
        self.description = QLabel(self)
        self.system_prompt = QPlainTextEdit(self)
        self.effort = QComboBox(self)
        self.budget = QSpinBox(self)
        self.max_tokens = QSpinBox(self)
        self.tools = QCheckBox(self.tr("The model may use tools"), self)
        self.decimals: dict[str, QDoubleSpinBox] = {}
        self.top_k = QSpinBox(self)
        self.seed = QSpinBox(self)
        self._lay_out()
        self._connect()
        self._fill()

    def _lay_out(self) -> None:
        em = self.fontMetrics().height()
        head = QHBoxLayout()
        title = QLabel(self.tr("This conversation"), self)
        enlarge(title, 1.1, is_bold=True)
        close = icon_button(self, "close", self.tr("Close (Ctrl+.)"))
        close.clicked.connect(lambda _checked=False: self.close_wanted.emit())
        head.addWidget(title, 1)
        head.addWidget(close)
        page = QWidget()
        form = QVBoxLayout(page)
        form.setContentsMargins(0, 0, round(em * 0.4), 0)
        form.setSpacing(round(em * 0.35))
        self._add_presets(form)
        form.addSpacing(round(em * 0.5))
        form.addWidget(self._named(self.tr("System prompt"), self.system_prompt))
        self.system_prompt.setPlaceholderText(
            self.tr("What the model should always keep in mind, such as a role or a style")
        )
        self.system_prompt.setTabChangesFocus(True)
        self.system_prompt.setMinimumHeight(em * 6)
        form.addWidget(self.system_prompt, 1)
        form.addSpacing(round(em * 0.5))
        form.addLayout(self._thinking_form())
        form.addWidget(self.tools)
        form.addSpacing(round(em * 0.5))
        sampling = QLabel(self.tr("Sampling"), page)
        enlarge(sampling, 1.0, is_bold=True)
        form.addWidget(sampling)
        form.addLayout(self._sampling_form())
        note = QLabel(self.tr("Changes hold from the next answer on."), page)
        note.setWordWrap(True)
        note.setFont(small_font(theme_of(self)))
        colour_text(note, theme_of(self).muted)
        form.addWidget(note)
        scroll = QScrollArea(self)
        scroll.setWidget(page)
        scroll.setWidgetResizable(True)
        scroll.setFrameShape(QFrame.Shape.NoFrame)
        scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        whole = QVBoxLayout(self)
        margin = round(em * 0.7)
        whole.setContentsMargins(margin, margin, margin, margin)
        whole.addLayout(head)
        whole.addWidget(scroll, 1)
        bar = scroll.verticalScrollBar().sizeHint().width()
        scroll.setMinimumWidth(page.minimumSizeHint().width() + bar)

    def _named(self, text: str, field: QWidget) -> QLabel:
        label = QLabel(text, self)
        label.setBuddy(field)
        field.setAccessibleName(text)
        return label

    def _add_presets(self, form: QVBoxLayout) -> None:
        form.addWidget(self._named(self.tr("Preset"), self.preset))
        row = QHBoxLayout()
        row.addWidget(self.preset, 1)
        self.keep_button = icon_button(self, "add", self.tr("Keep these settings as a preset"))
        self.remove_button = icon_button(self, "delete", self.tr("Remove this preset"))
        self.default_button = icon_button(
            self, "check", self.tr("Use this preset for new conversations")
        )
        for button in (self.keep_button, self.default_button, self.remove_button):
            row.addWidget(button)
        form.addLayout(row)
        self.description.setWordWrap(True)
        self.description.setTextFormat(Qt.TextFormat.PlainText)
        self.description.setFont(small_font(theme_of(self)))
        colour_text(self.description, theme_of(self).muted)
        form.addWidget(self.description)

    def _thinking_form(self) -> QFormLayout:
        form = QFormLayout()
        form.addRow(self._named(self.tr("Thinking"), self.effort), self.effort)
        # One below the least value stands for "as the engine does by itself".
        self.budget.setRange(-1, 1_000_000)
        self.budget.setSingleStep(512)
        self.budget.setSpecialValueText(self.tr("a quarter of the context"))
        self.budget.setToolTip(self.tr("Most tokens that the model thinks; 0 = no limit"))
        form.addRow(self._named(self.tr("At most"), self.budget), self.budget)
        self.max_tokens.setRange(0, 1_000_000)
        self.max_tokens.setSingleStep(512)
        self.max_tokens.setSpecialValueText(self.tr("as long as it takes"))
        form.addRow(self._named(self.tr("Longest answer"), self.max_tokens), self.max_tokens)
        return form

    def _sampling_form(self) -> QFormLayout:
        form = QFormLayout()
        names = {
            "temperature": self.tr("Temperature"),
            "top_p": self.tr("Top-p"),
            "min_p": self.tr("Min-p"),
            "presence_penalty": self.tr("Presence penalty"),
            "frequency_penalty": self.tr("Frequency penalty"),
            "repetition_penalty": self.tr("Repetition penalty"),
        }
        for name, least, most, step, digits in _DECIMALS:
            box = QDoubleSpinBox(self)
            box.setDecimals(digits)
            box.setRange(least - step, most)
            box.setSingleStep(step)
            self.decimals[name] = box
            form.addRow(self._named(names[name], box), box)
            if name == "top_p":
                self.top_k.setRange(-1, 1000)
                form.addRow(self._named(self.tr("Top-k"), self.top_k), self.top_k)
        self.seed.setRange(-1, _MOST_SEED)
        self.seed.setSpecialValueText(self.tr("random"))
        form.addRow(self._named(self.tr("Seed"), self.seed), self.seed)
        return form

    def _connect(self) -> None:
        self.preset.activated.connect(self._choose_preset)
        self.effort.activated.connect(lambda _place: self._take())
        self.tools.clicked.connect(lambda _checked: self._take())
        self.system_prompt.textChanged.connect(self._soon)
        for box in (self.budget, self.max_tokens, self.top_k, self.seed):
            box.valueChanged.connect(lambda _value: self._soon())
        for decimal in self.decimals.values():
            decimal.valueChanged.connect(lambda _value: self._soon())
        self.keep_button.clicked.connect(lambda _checked=False: self._ask_title())
        self.remove_button.clicked.connect(lambda _checked=False: self._remove_preset())
        self.default_button.clicked.connect(lambda _checked=False: self._make_default())

    # -- what is shown -----------------------------------------------------------------------------

    def show_settings(self, settings: ConversationSettings) -> None:
        """Show a conversation's settings."""
        if settings == self._settings and not self._timer.isActive():
            return
        self._timer.stop()
        self._settings = settings
        self._fill()

    def show_facts(self, facts: ModelFacts) -> None:
        """Know what the model can do, and what "standard" means for it."""
        self._facts = facts
        self._fill()

    @property
    def settings(self) -> ConversationSettings:
        """As shown."""
        return self._settings

    def flush(self) -> None:
        """Take what was typed a moment ago: another conversation comes."""
        if self._timer.isActive():
            self._timer.stop()
            self._take()

    def _fill(self) -> None:
        self._is_filling = True
        settings = self._settings
        self._fill_presets()
        if self.system_prompt.toPlainText() != settings.system_prompt:
            self.system_prompt.setPlainText(settings.system_prompt)
        self.effort.clear()
        standard = words.effort_words(self._facts.default_effort)
        self.effort.addItem(self.tr("Standard ({0})").format(standard), None)
        for effort in self._facts.efforts:
            self.effort.addItem(words.effort_words(effort), effort.value)
        chosen = settings.effort.value if settings.effort is not None else None
        self.effort.setCurrentIndex(max(0, self.effort.findData(chosen)))
        budget = settings.thinking_budget
        self.budget.setValue(-1 if budget is None else budget)
        self.max_tokens.setValue(settings.max_tokens or 0)
        self.tools.setChecked(settings.uses_tools)
        defaults = dict(self._facts.sampling)
        for name, box in self.decimals.items():
            box.setSpecialValueText(self._standard(defaults.get(name)))
            value = getattr(settings.sampling, name)
            box.setValue(box.minimum() if value is None else value)
        self.top_k.setSpecialValueText(self._standard(defaults.get("top_k")))
        top_k = settings.sampling.top_k
        self.top_k.setValue(-1 if top_k is None else top_k)
        seed = settings.sampling.seed
        self.seed.setValue(-1 if seed is None else min(seed, _MOST_SEED))
        self._is_filling = False

    def _standard(self, value: float | None) -> str:
        if value is None:
            return self.tr("Standard")
        return self.tr("Standard ({0})").format(f"{value:g}")

    def _fill_presets(self) -> None:
        self.preset.clear()
        for preset in self._presets.all():
            self.preset.addItem(preset_title(preset), preset.id)
        place = self.preset.findData(self._settings.preset)
        self.preset.setCurrentIndex(max(0, place))
        self._describe()

    def _describe(self) -> None:
        preset = self._presets.get(self._settings.preset)
        text = preset_description(preset)
        is_changed = replace(applied(preset, self._settings), preset="") != replace(
            self._settings, preset=""
        )
        if is_changed:
            text = (text + " " + self.tr("Changed since.")).strip()
        self.description.setText(text)
        self.description.setVisible(bool(text))
        self.remove_button.setEnabled(not preset.is_built_in)
        self.default_button.setEnabled(self._presets.default_id != preset.id)

    # -- what the person does ----------------------------------------------------------------------

    def _soon(self) -> None:
        if not self._is_filling:
            self._timer.start()

    def _take(self) -> None:
        """Make settings of the fields."""
        if self._is_filling:
            return
        self._timer.stop()
        chosen = self.effort.currentData()
        values = {
            name: None
            if box.value() < box.minimum() + box.singleStep() / 2
            else round(box.value(), 4)
            for name, box in self.decimals.items()
        }
        sampling = Sampling(
            temperature=values["temperature"],
            top_p=values["top_p"],
            top_k=None if self.top_k.value() < 0 else self.top_k.value(),
            min_p=values["min_p"],
            presence_penalty=values["presence_penalty"],
            frequency_penalty=values["frequency_penalty"],
            repetition_penalty=values["repetition_penalty"],
            seed=None if self.seed.value() < 0 else self.seed.value(),
        )
        self._put(
            replace(
                self._settings,
                system_prompt=self.system_prompt.toPlainText(),
                effort=None if chosen is None else Effort(chosen),
                thinking_budget=None if self.budget.value() < 0 else self.budget.value(),
                max_tokens=self.max_tokens.value() or None,
                uses_tools=self.tools.isChecked(),
                sampling=sampling,
            )
        )

    def _put(self, settings: ConversationSettings) -> None:
        if settings != self._settings:
            self._settings = settings
            self._describe()
            self.changed.emit(settings)

    def _choose_preset(self, place: int) -> None:
        self.flush()
        preset = self._presets.get(str(self.preset.itemData(place)))
        settings = applied(preset, self._settings)
        if settings != self._settings:
            self._settings = settings
            self._fill()
            self.changed.emit(settings)

    def _ask_title(self) -> None:
        self.flush()
        dialog = QInputDialog(self)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.setWindowTitle(self.tr("Preset"))
        dialog.setLabelText(self.tr("Name of the preset:"))
        dialog.textValueSelected.connect(self.keep_preset)
        dialog.open()

    def keep_preset(self, title: str) -> None:
        """Keep the settings under a name."""

        def keep() -> None:
            preset = self._presets.save(title, self._settings)
            self._put(replace(self._settings, preset=preset.id))
            self._fill()

        if title.strip():
            self._try(keep)

    def _remove_preset(self) -> None:
        def remove() -> None:
            self._presets.remove(self._settings.preset)
            self._fill()

        self._try(remove)

    def _make_default(self) -> None:
        def choose() -> None:
            self._presets.set_default(self._settings.preset)
            self._describe()

        self._try(choose)

    def _try(self, work: Callable[[], None]) -> None:
        try:
            work()
        except EngineError as error:
            self.refused.emit(error.message)
