"""Thinking levels: what clients write, and what the chat template understands (spec/api.md 4).

Clients spell levels in many ways; the template accepts three words and raises on anything else, so
no client's string is ever passed through (spec/tools_format.md, T4).
"""

from __future__ import annotations

from engine.core.config import Effort
from engine.server.errors import invalid_type, invalid_value
from engine.server.fields import Fields

SPELLINGS = {
    **dict.fromkeys(("none", "off", "disabled", "false"), Effort.NONE),
    **dict.fromkeys(("minimal", "low"), Effort.LOW),
    "medium": Effort.MEDIUM,
    **dict.fromkeys(("high", "xhigh", "max", "maximum"), Effort.HIGH),
}
ACCEPTED = "one of none, minimal, low, medium, high, xhigh, max"


def effort_of(value: object, path: str) -> Effort | None:
    """The level that one field asks for; None when it is absent or null.

    Raises:
        ApiError: 400 for an unknown word.
    """
    if value is None:
        return None
    if value is False:
        return Effort.NONE
    if not isinstance(value, str):
        raise invalid_type(path, ACCEPTED, value)
    effort = SPELLINGS.get(value.strip().lower())
    if effort is None:
        raise invalid_value(path, f"must be {ACCEPTED}")
    return effort


def chat_effort(body: Fields, default: Effort) -> Effort:
    """The level of a chat request.

    An explicit "off" anywhere wins; then `reasoning_effort`, `reasoning.effort`, template keys.
    """
    kwargs = body.table("chat_template_kwargs") or Fields({}, "chat_template_kwargs")
    reasoning = body.table("reasoning") or Fields({}, "reasoning")
    given = [
        effort_of(table.get(key), table.at(key))
        for table, key in (
            (body, "reasoning_effort"),
            (body, "reasoningEffort"),
            (reasoning, "effort"),
            (kwargs, "reasoning_effort"),
        )
    ]
    switches = [table.boolean("enable_thinking") for table in (body, kwargs)]
    if Effort.NONE in given or False in switches:
        return Effort.NONE
    return next((effort for effort in given if effort is not None), default)


def preserve_thinking(body: Fields) -> bool | None:
    """Whether earlier turns keep their thinking in the prompt; None leaves it to the template."""
    kwargs = body.table("chat_template_kwargs")
    return kwargs.boolean("preserve_thinking") if kwargs is not None else None
