"""The requests that ended last, as `/status` names them; counts and times, never text."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EndedRequest:
    """One request.

    Attributes:
        ended_at: seconds since 1970.
        protocol: `chat`, `completions`, `responses` or `messages`.
        finish: `stop`, `length`, `tool_calls`, `cancelled`, `error`, ...
        first_token_s: from its arrival to its first token; None when there was none.
        tokens_per_s: generation speed; None for answers of a token or none.
    """

    request_id: str
    ended_at: float
    protocol: str
    finish: str
    prompt_tokens: int
    cached_tokens: int
    generated: int
    waited_s: float
    first_token_s: float | None
    elapsed_s: float
    tokens_per_s: float | None
    draft_tokens: int
    draft_accepted: int


def parse_recent(status: Mapping[str, object]) -> tuple[EndedRequest, ...]:
    """The list in an answer of `/status`; empty when the engine does not report it."""
    entries = status.get("recent")
    if not isinstance(entries, list):
        return ()
    return tuple(_ended(entry) for entry in entries if isinstance(entry, dict))


def _ended(entry: Mapping[str, object]) -> EndedRequest:
    generated, generated_s = _count(entry, "generated"), _number(entry, "generated_s") or 0.0
    return EndedRequest(
        request_id=str(entry.get("request_id", "")),
        ended_at=_number(entry, "ended_at") or 0.0,
        protocol=str(entry.get("protocol", "")),
        finish=str(entry.get("finish", "")),
        prompt_tokens=_count(entry, "prompt_tokens"),
        cached_tokens=_count(entry, "cached_tokens"),
        generated=generated,
        waited_s=_number(entry, "waited_s") or 0.0,
        first_token_s=_number(entry, "first_token_s"),
        elapsed_s=_number(entry, "elapsed_s") or 0.0,
        tokens_per_s=(generated - 1) / generated_s if generated > 1 and generated_s > 0 else None,
        draft_tokens=_count(entry, "draft_tokens"),
        draft_accepted=_count(entry, "draft_accepted"),
    )


def _number(entry: Mapping[str, object], key: str) -> float | None:
    value = entry.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def _count(entry: Mapping[str, object], key: str) -> int:
    return int(_number(entry, key) or 0)
