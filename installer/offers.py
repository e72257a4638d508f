"""From a recommendation to what the person is offered: models in order, contexts, thinking levels."""

from __future__ import annotations

from engine.core.catalog import Catalog, CatalogModel
from engine.core.config import Effort, RunConfig
from engine.core.placement import DEFAULT_CONTEXT
from installer.i18n.texts import Texts
from installer.recommend import Choice, Mark, Recommendation

_MARKS = (Mark.GREEN, Mark.AMBER, Mark.RED)


def choices_in_order(recommendation: Recommendation) -> list[Choice]:
    """All models: the recommended one, then by how well they suit, then as in the catalogue."""
    best = recommended_choice(recommendation)
    return sorted(
        recommendation.choices,
        key=lambda choice: (choice.model_id != best.model_id, _MARKS.index(choice.mark)),
    )


def recommended_choice(recommendation: Recommendation) -> Choice:
    """The recommended model (of a recommendation that no model was wished for)."""
    return recommendation.choice


def choice_of(recommendation: Recommendation | None, model: CatalogModel | None) -> Choice | None:
    """What the recommendation says of a model."""
    if recommendation is None or model is None:
        return None
    return next((c for c in recommendation.choices if c.model_id == model.id), None)


def title_of(catalog: Catalog, model: CatalogModel, texts: Texts) -> str:
    """How a model is called in the person's language."""
    key = f"family.{model.family}"
    title = texts.say(key) if texts.has(key) else catalog.family_of(model).title
    return title if model.is_bundled else f"{title}, {model.size}"


def suggested_context(recommendation: Recommendation | None, model: CatalogModel) -> int:
    """The context to begin with; the usual one when nobody has looked at the PC."""
    choice = choice_of(recommendation, model)
    return choice.context if choice is not None else DEFAULT_CONTEXT


def context_choices(catalog: Catalog, model: CatalogModel, suggested: int) -> list[int]:
    """The contexts to offer: those of the catalogue that the model was trained for."""
    trained = catalog.family_of(model).shape.trained_context
    offered = {context for context in catalog.context_choices if context <= trained}
    return sorted(offered | {min(suggested, trained)})


def suggested_effort(recommendation: Recommendation | None, model: CatalogModel | None) -> Effort:
    """The thinking level to begin with."""
    choice = choice_of(recommendation, model)
    return choice.effort if choice is not None else RunConfig().default_reasoning_effort
