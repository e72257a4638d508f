"""The engine's counts of an answer as `MessageStats`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from app.chat.activity import ModelFacts
from app.chat.stream import Usage
from app.history.records import ConversationSettings, MessageStats, Sampling


def stats_of(
    usage: Usage,
    facts: ModelFacts,
    settings: ConversationSettings,
    context_used: int,
    sampling: Sampling,
) -> MessageStats:
    """The statistics of one request."""
    counts, timings = usage.usage, usage.timings
    details = counts.get("completion_tokens_details")
    thinking = _int(details, "reasoning_tokens") if isinstance(details, Mapping) else 0
    prompt_tokens = _int(counts, "prompt_tokens")
    generated = _int(counts, "completion_tokens")
    return MessageStats(
        prompt_tokens=prompt_tokens,
        cached_tokens=_int(timings, "cache_n"),
        generated_tokens=generated,
        thinking_tokens=thinking,
        prompt_s=_float(timings, "prompt_ms") / 1000,
        generated_s=_float(timings, "predicted_ms") / 1000,
        prompt_per_s=_float(timings, "prompt_per_second"),
        generated_per_s=_float(timings, "predicted_per_second"),
        draft_tokens=_int(timings, "draft_n"),
        draft_accepted=_int(timings, "draft_n_accepted"),
        context_used=context_used or prompt_tokens + generated,
        context_size=facts.context_size,
        model=facts.name,
        effort=(settings.effort or facts.default_effort).value,
        sampling=sampling,
    )


def sampling_used(values: Mapping[str, float]) -> Sampling:
    """The values that the engine says it used."""
    integers = {name: int(values[name]) if name in values else None for name in ("top_k", "seed")}
    return Sampling(
        temperature=values.get("temperature"),
        top_p=values.get("top_p"),
        top_k=integers["top_k"],
        min_p=values.get("min_p"),
        presence_penalty=values.get("presence_penalty"),
        frequency_penalty=values.get("frequency_penalty"),
        repetition_penalty=values.get("repetition_penalty"),
        seed=integers["seed"],
    )


def added(before: MessageStats | None, now: MessageStats | None) -> MessageStats | None:
    """The statistics of an answer that was made in two requests."""
    if before is None or now is None:
        return now or before
    generated_s = before.generated_s + now.generated_s
    generated = before.generated_tokens + now.generated_tokens
    return replace(
        now,
        generated_tokens=generated,
        thinking_tokens=before.thinking_tokens + now.thinking_tokens,
        prompt_s=before.prompt_s + now.prompt_s,
        generated_s=generated_s,
        generated_per_s=generated / generated_s if generated_s > 0 else now.generated_per_s,
        draft_tokens=before.draft_tokens + now.draft_tokens,
        draft_accepted=before.draft_accepted + now.draft_accepted,
    )


def _int(data: Mapping[str, object], key: str) -> int:
    value = data.get(key)
    return int(value) if isinstance(value, int | float) else 0


def _float(data: Mapping[str, object], key: str) -> float:
    value = data.get(key)
    return float(value) if isinstance(value, int | float) else 0.0
