"""The engine as all conversations share it: requests, whether it runs, and what its model can do."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from PySide6.QtCore import QObject, Signal

from app.background import Task, in_background
from app.chat.activity import ModelFacts
from app.chat.link import EngineLink
from app.engine_http import EngineHttp
from engine.core.config import Effort

logger = logging.getLogger(__name__)

SAMPLING_NAMES = (
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "presence_penalty",
    "frequency_penalty",
    "repetition_penalty",
)


class EngineSide(QObject):
    """The engine.

    Signals:
        link_changed(link): it can or cannot be asked now.
        facts_changed(facts): another model, or the first that is known.

    Attributes:
        http: requests to it, for every thread.
    """

    link_changed = Signal(object)
    facts_changed = Signal(object)

    _facts_read = Signal(object)

    def __init__(self, http: EngineHttp, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.http = http
        self._link = EngineLink()
        self._facts = ModelFacts()
        self._facts_read.connect(self._take_facts)

    @property
    def link(self) -> EngineLink:
        """Whether it can be asked."""
        return self._link

    @property
    def facts(self) -> ModelFacts:
        """What is known about the model."""
        return self._facts

    def set_link(self, link: EngineLink) -> None:
        """Note a new state; asks for the model's facts when another process answers."""
        before, self._link = self._link, link
        if link == before:
            return
        is_new = not before.can_answer or link.generation != before.generation
        if link.can_answer and is_new:
            self.ask_for_facts()
        self.link_changed.emit(link)

    def ask_for_facts(self) -> None:
        """Read the model's facts in the background; `facts_changed` if they are new."""

        def work(_task: Task[None]) -> ModelFacts:
            return self.read_facts()

        in_background(self, work)

    def read_facts(self) -> ModelFacts:
        """What the engine says about its model; for threads other than the main one.

        Raises:
            EngineHttpError: it cannot be asked.
        """
        facts = facts_of(self.http.get("/props"))
        self._facts_read.emit(facts)
        return facts

    def _take_facts(self, facts: object) -> None:
        if isinstance(facts, ModelFacts) and facts != self._facts:
            self._facts = facts
            self.facts_changed.emit(facts)


def facts_of(props: Mapping[str, object]) -> ModelFacts:
    """The facts in the answer of `/props`."""
    defaults = _table(props.get("default_generation_settings"))
    params = _table(defaults.get("params"))
    reasoning = _table(props.get("reasoning"))
    levels = reasoning.get("levels")
    efforts = tuple(
        effort for effort in Effort if not isinstance(levels, list) or effort.value in levels
    )
    default = reasoning.get("default")
    context = defaults.get("n_ctx")
    sampling = []
    for name in SAMPLING_NAMES:
        value = params.get(name)
        if isinstance(value, int | float):
            sampling.append((name, float(value)))
    return ModelFacts(
        name=str(props.get("model_alias") or ""),
        context_size=context if isinstance(context, int) else 0,
        sees_pictures=bool(_table(props.get("modalities")).get("vision")),
        efforts=efforts,
        default_effort=next((e for e in Effort if e.value == default), Effort.HIGH),
        sampling=tuple(sampling),
    )


def _table(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}
