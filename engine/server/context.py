"""Does the request fit into the context? Nothing is ever cut (spec/api.md section 2).

A cap on the output that does not fit is lowered to the room left, which is said in a header, or
refused; a prompt that does not fit is refused. Clients match the words of these errors.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.server.errors import ApiError

# With less room than this an answer is rarely of use, so its cap is not lowered silently.
MIN_FITTED_TOKENS = 256


@dataclass(frozen=True, slots=True)
class OutputRoom:
    """How many tokens the answer may have; `header` says so when that is less than was asked."""

    max_tokens: int
    header: str | None = None


def output_room(
    num_prompt: int, cap: int | None, context: int, *, fit: bool, param: str = "messages"
) -> OutputRoom:
    """The room for an answer.

    Args:
        num_prompt: tokens of the rendered prompt.
        cap: what the client asked for, None for as much as there is.
        context: tokens of prompt and answer together.
        fit: lower a cap that does not fit.
        param: the field that holds the prompt, for errors.

    Raises:
        ApiError: 400 `context_length_exceeded`.
    """
    room = context - num_prompt
    if room < 1:
        raise prompt_too_long(f"{num_prompt}", num_prompt, context, param)
    if cap is None:
        return OutputRoom(room)
    if cap <= room:
        return OutputRoom(cap)
    if fit and room >= MIN_FITTED_TOKENS:
        return OutputRoom(room, f"requested={cap}; used={room}")
    raise ApiError(
        400,
        "context_length_exceeded",
        f"This model's maximum context length is {context} tokens, and the request needs "
        f"{num_prompt + cap}: {num_prompt} in the {param} and {cap} in the completion. "
        "Shorten the prompt or lower the output limit.",
        param=param,
        extra={"n_prompt_tokens": num_prompt, "n_ctx": context, "max_tokens": cap},
    )


def prompt_too_long(has: str, num_prompt: int, context: int, param: str = "messages") -> ApiError:
    """400 for a prompt that has (`has`: in words) more tokens than the context."""
    return ApiError(
        400,
        "context_length_exceeded",
        f"This model's maximum context length is {context} tokens, and the prompt has {has} "
        "tokens. Shorten it.",
        param=param,
        extra={"n_prompt_tokens": num_prompt, "n_ctx": context},
    )
