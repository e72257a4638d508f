"""Model: all that can be installed, the recommended one first, each with its light and its risks."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import (
    QButtonGroup,
    QCheckBox,
    QFrame,
    QGridLayout,
    QRadioButton,
    QVBoxLayout,
    QWidget,
)

from engine.core.catalog import CatalogModel
from installer.i18n.texts import Texts
from installer.offers import choice_of, choices_in_order, title_of
from installer.recommend import Choice, Recommendation
from installer.steps import Step
from installer.wizard.light import Light, LightSign
from installer.wizard.page import Page, text_label
from installer.wizard.session import Session


class ModelPage(Page):
    """One choice a row; a warning, but never a locked row."""

    step = Step.MODEL

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        em = self.fontMetrics().height()
        self.agents = QCheckBox(self.say("agents"))
        self.agents.setChecked(session.installation.choices.is_for_agents)
        self.agents.toggled.connect(self._ask_again)
        self.body.addWidget(self.agents)
        hint = text_label(self.say("agents_hint"), is_small=True)
        hint.setContentsMargins(round(em * 1.4), 0, 0, 0)
        self.agents.setAccessibleDescription(hint.text())
        self.body.addWidget(hint)
        self.body.addSpacing(em // 2)
        self.buttons: dict[str, QRadioButton] = {}
        self._group = QButtonGroup(self)
        self._list = QWidget()
        self.body.addWidget(self._list)
        self.body.addStretch(1)

    def enter(self) -> None:
        """Show the models; the recommended one is chosen when none was."""
        recommendation = self.session.recommend()
        installation = self.session.installation
        catalog = installation.catalog
        best = recommendation.choice.model_id if recommendation is not None else catalog.bundled.id
        if installation.model is None:
            self._choose(best)
        self._show(recommendation, best)

    def _ask_again(self, is_for_agents: bool) -> None:  # Qt's signal
        installation = self.session.installation
        installation.choose(
            installation.choices.model_copy(
                update={"is_for_agents": is_for_agents, "context": None}
            )
        )
        recommendation = self.session.recommend()
        best = (
            recommendation.choice.model_id
            if recommendation is not None
            else installation.catalog.bundled.id
        )
        self._show(recommendation, best)

    def _choose(self, model_id: str) -> None:
        installation = self.session.installation
        update: dict[str, object] = {"model_id": model_id}
        if model_id != installation.choices.model_id:
            update |= {"context": None, "effort": None}  # what suits the other one
        installation.choose(installation.choices.model_copy(update=update))
        self.changed.emit()

    def _show(self, recommendation: Recommendation | None, best: str) -> None:
        catalog = self.session.installation.catalog
        models = list(catalog.models)
        if recommendation is not None:
            order = [choice.model_id for choice in choices_in_order(recommendation)]
            models.sort(key=lambda model: order.index(model.id))
        else:
            models.sort(key=lambda model: not model.is_bundled)
        fresh = QWidget()
        rows = QVBoxLayout(fresh)
        rows.setContentsMargins(0, 0, 0, 0)
        self._group = QButtonGroup(self)
        self.buttons = {}
        for model in models:
            choice = choice_of(recommendation, model)
            rows.addWidget(self._row(model, choice, is_best=model.id == best))
        self.body.replaceWidget(self._list, fresh)
        self._list.deleteLater()
        self._list = fresh

    def _row(self, model: CatalogModel, choice: Choice | None, *, is_best: bool) -> QWidget:
        texts, catalog = self.session.texts, self.session.installation.catalog
        em = self.fontMetrics().height()
        frame = QFrame()
        grid = QGridLayout(frame)
        grid.setContentsMargins(0, em // 4, 0, em // 4)
        grid.setHorizontalSpacing(round(em * 0.6))
        grid.setColumnStretch(2, 1)
        title = title_of(catalog, model, texts)
        if is_best:
            title = f"{title}  ({self.say('recommended')})"
        button = QRadioButton(title.replace("&", "&&"))
        font = button.font()
        font.setBold(is_best)
        button.setFont(font)
        button.setChecked(self.session.installation.choices.model_id == model.id)
        button.toggled.connect(lambda is_on: self._choose(model.id) if is_on else None)
        self._group.addButton(button)
        self.buttons[model.id] = button
        light = Light(choice.mark.value) if choice is not None else Light.GREY
        word = texts.say(f"light.{light.value}")
        grid.addWidget(LightSign(light, word), 0, 0, Qt.AlignmentFlag.AlignTop)
        grid.addWidget(button, 0, 1, 1, 2)
        facts = text_label(_facts(model, choice, texts))
        grid.addWidget(facts, 1, 1, 1, 2)
        remarks = [] if choice is None else [texts.note(note) for note in choice.notes]
        if light is Light.RED:
            remarks.append(self.say("risk"))
        if remarks:
            grid.addWidget(text_label(" ".join(remarks), is_small=True), 2, 1, 1, 2)
        button.setAccessibleName(f"{title}. {word}")
        button.setAccessibleDescription(" ".join([facts.text(), *remarks]))
        return frame


def _facts(model: CatalogModel, choice: Choice | None, texts: Texts) -> str:
    facts = []
    if model.is_bundled:
        facts.append(texts.say("model.bundled"))
    else:
        num_bytes = model.known_bytes or model.needs.download_bytes
        facts.append(texts.say("model.download", num_bytes=num_bytes))
    if choice is not None:
        facts.append(texts.say("model.speed", low=choice.speed.low, high=choice.speed.high))
        facts.append(texts.say("model.context", context=choice.context))
    return " · ".join(facts)
