"""The rules of a chat answer that only token ids can express, made from the tokenizer.

Thinking that stops in mid-thought or outgrows its budget is closed by tokens that the worker puts in
by itself: a command from outside would come some tokens late.
"""

from __future__ import annotations

from dataclasses import replace

from engine.text.tokenizer import Tokenizer
from engine.worker.messages import Start

# What closes thinking that used up its budget; the answer follows.
BUDGET_SENTENCE = "\n\nI have thought about this long enough and will answer now.\n"
AFTER_THINKING = "\n\n"


def with_call_rules(start: Start, tokenizer: Tokenizer) -> Start:
    """The request with penalties off inside tool calls."""
    ids = tokenizer.structure
    if ids.tool_call is None:
        return start
    close_id = -1 if ids.tool_call_end is None else ids.tool_call_end
    return replace(start, call_open_id=ids.tool_call, call_close_id=close_id)


def with_thinking_rules(
    start: Start, tokenizer: Tokenizer, budget: int | None, *, is_rescued: bool = True
) -> Start:
    """The request, whose prompt ends inside thinking, with the rules that close thinking.

    Args:
        start: the request; its cap leaves room for the closing sentence and one token.
        tokenizer: gives the ids.
        budget: most thinking tokens, None or 0 = no limit.
        is_rescued: an answer that ends in mid-thought goes on behind the thinking by itself. Not
            where the thinking may end with a call that was meant: then who reads the answer decides.
    """
    close = close_ids(tokenizer)
    if not close:
        return start
    start = replace(start, think_close_id=close[0], rescue_ids=close if is_rescued else ())
    if not budget:
        return start
    budget_ids = thinking_end_ids(tokenizer)
    budget = max(1, min(budget, start.max_tokens - len(budget_ids) - 1))
    return replace(start, think_budget=budget, budget_ids=budget_ids)


def thinking_end_ids(tokenizer: Tokenizer) -> tuple[int, ...]:
    """What ends thinking from outside: a sentence, the close, a blank line; empty = no thinking."""
    close = close_ids(tokenizer)
    return (*tokenizer.encode(BUDGET_SENTENCE), *close) if close else ()


def close_ids(tokenizer: Tokenizer) -> tuple[int, ...]:
    """The close of thinking and a blank line; empty = a model that does not think."""
    close_id = tokenizer.structure.think_end
    return () if close_id is None else (close_id, *tokenizer.encode(AFTER_THINKING))


def ordered_stop_ids(tokenizer: Tokenizer) -> tuple[int, ...]:
    """The tokens that end an answer, the turn's end first."""
    turn_end = tokenizer.structure.im_end
    return tuple(sorted(tokenizer.eos_ids, key=lambda token_id: (token_id != turn_end, token_id)))
