"""Answers of a loaded model with drafts and without, for tests that compare the two."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from engine.decode.constraint import AnswerConstraint
from engine.decode.draft.costs import PassCosts
from engine.decode.draft.drafting import Drafting, DraftSettings
from engine.decode.draft.head import HeadDrafter
from engine.decode.draft.policy import DraftPolicy
from engine.sequence.scheduler import Scheduler
from engine.sequence.sessions import Sessions
from engine.text.tokenizer import Tokenizer
from engine.worker.drafters import model_bytes
from engine.worker.loading import LoadedModel
from engine.worker.messages import Done, PromptProgress, Start, Tokens

SETTINGS = {
    "lookup": DraftSettings(use_head=False, is_fixed=True),
    "head": DraftSettings(use_lookup=False, is_fixed=True),
    "long chains": DraftSettings(use_lookup=False, most_head=8, is_fixed=True),
    "both": DraftSettings(is_fixed=True),
    "sure heads": DraftSettings(use_lookup=False, min_p=0.5, is_fixed=True),
    "policy": DraftSettings(),
}

Answers = tuple[dict[str, list[int]], dict[str, Done]]


def named_drafting(loaded: LoadedModel, name: str) -> Drafting:
    """Drafters as one of `SETTINGS` wants them."""
    settings = SETTINGS[name]
    head = None
    if loaded.model.mtp is not None:
        head = HeadDrafter(
            loaded.model.mtp,
            loaded.model.limits.of_head().max_rows,
            loaded.model.store.pages.page_tokens,
        )
    costs = PassCosts(model_bytes(loaded.model, loaded.header))
    return Drafting(settings, DraftPolicy(costs), head)


def chat(tokenizer: Tokenizer, text: str) -> tuple[int, ...]:
    """The prompt of a question, answered without thinking."""
    source = f"<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
    return tuple(tokenizer.encode(source, parse_special=True))


def answers_of(
    loaded: LoadedModel,
    starts: Sequence[Start],
    drafts: Drafting | None = None,
    sessions: Sessions | None = None,
    constrain: Callable[[Start], AnswerConstraint] | None = None,
) -> Answers:
    """Answers and ends of requests, which arrive two steps apart."""
    events: list[PromptProgress | Tokens | Done] = []
    scheduler = Scheduler(
        loaded.model,
        # What a request shares its passes with shall not depend on the time of day.
        replace(loaded.limits, prompt_slice_s=1000.0),
        events.append,
        sessions=sessions,
        constrain=constrain,
        drafting=drafts,
    )
    for start in starts:
        scheduler.submit(start)
        scheduler.step()
        scheduler.step()
    while scheduler.has_work:
        scheduler.step()
    ids: dict[str, list[int]] = {start.request_id: [] for start in starts}
    ends: dict[str, Done] = {}
    for event in events:
        if isinstance(event, Tokens):
            ids[event.request_id] += event.token_ids
        elif isinstance(event, Done):
            ends[event.request_id] = event
    return ids, ends
