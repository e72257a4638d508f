"""Fields of all generation routes that are no sampling values (spec/api.md sections 2 to 4)."""

from __future__ import annotations

from engine.core.config import RunConfig
from engine.server.errors import invalid_value
from engine.server.fields import Fields

MAX_MODEL_CHARS = 512


def read_model(body: Fields) -> str | None:
    """The model's name; None when the client gave none, or an empty one.

    Raises:
        ApiError: 400: it is no string, or too long.
    """
    model = body.string("model")
    if model is not None and len(model) > MAX_MODEL_CHARS:  # it is echoed, in streams many times
        raise invalid_value("model", f"may be at most {MAX_MODEL_CHARS} characters long")
    return model or None


def read_budget(body: Fields, config: RunConfig, own: int | None = None) -> int | None:
    """The most tokens of thinking: the smallest of the limits that are set; 0 is no limit.

    Args:
        body: of the request.
        config: may set one.
        own: what the protocol has of its own.
    """
    limits = (own, body.integer("reasoning_budget_tokens", 0), config.reasoning_budget_tokens)
    return min((limit for limit in limits if limit), default=None)


def read_fit(body: Fields, config: RunConfig) -> bool:
    """Whether an output cap that does not fit is lowered instead of refused."""
    fit = body.boolean("fit_max_tokens")
    return config.fit_max_tokens if fit is None else fit
