"""How much an Anthropic request lets the model think (spec/api.md section 4).

A request that says nothing of thinking gets none: Anthropic's own rule, on which clients rely that
read `content[0].text`.
"""

from __future__ import annotations

from engine.core.config import AnthropicThinking, Effort, RunConfig
from engine.server.errors import invalid_value, missing
from engine.server.fields import Fields
from engine.server.levels import effort_of

KINDS = ("enabled", "adaptive", "between_tools", "disabled")

# Budgets below these think at the lower levels.
LOW_BUDGET = 2048
MEDIUM_BUDGET = 8192


def read_thinking(body: Fields, config: RunConfig) -> tuple[Effort, int | None]:
    """The level, and the most tokens to think for (None: no limit of the request's own).

    Raises:
        ApiError: 400 for an unknown kind or level, or a missing budget.
    """
    output = body.table("output_config")
    effort = None if output is None else effort_of(output.get("effort"), output.at("effort"))
    thinking = body.table("thinking")
    if thinking is None:
        return effort if effort is not None else _unasked(config), None
    kind = thinking.required_string("type")
    if kind not in KINDS:
        raise invalid_value(thinking.at("type"), f"must be one of {', '.join(KINDS)}")
    budget: int | None = None
    if kind == "enabled":
        budget = thinking.integer("budget_tokens", 1)
        if budget is None:
            raise missing(thinking.at("budget_tokens"))
    if kind == "disabled" or effort is Effort.NONE:  # an explicit "off" wins over everything
        return Effort.NONE, None
    if effort is not None:
        return effort, budget
    return (Effort.HIGH if budget is None else _effort_of_budget(budget)), budget


def _unasked(config: RunConfig) -> Effort:
    if config.anthropic_thinking is AnthropicThinking.ALWAYS:
        return config.default_reasoning_effort
    return Effort.NONE


def _effort_of_budget(budget: int) -> Effort:
    if budget < LOW_BUDGET:
        return Effort.LOW
    return Effort.MEDIUM if budget < MEDIUM_BUDGET else Effort.HIGH
