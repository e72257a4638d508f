"""Tokens per second over the last moments, from what `/status` counts.

The engine's own figure is an average since a request's first token; a person wants to see what
happens now. Prompt tokens that were taken from memory are not counted as read.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from app.engine_status import EngineStatus

WINDOW_S = 2.0


@dataclass(frozen=True, slots=True)
class Rates:
    """Speeds now; None when nothing of that kind happens."""

    reading_per_s: float | None = None
    generating_per_s: float | None = None


class TokenRates:
    """Looks at two answers of `/status` that are about two seconds apart."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, dict[str, tuple[int, int]]]] = deque()

    def note(self, status: EngineStatus, now_s: float) -> Rates:
        """Take one answer in; the speeds now."""
        counts = {
            request.request_id: (
                max(request.prompt_read - request.cached_tokens, 0),
                request.generated,
            )
            for request in status.requests
        }
        self._seen.append((now_s, counts))
        while len(self._seen) > 2 and now_s - self._seen[1][0] >= WINDOW_S:
            self._seen.popleft()
        if not counts:
            return Rates()
        then_s, before = self._seen[0]
        passed_s = now_s - then_s
        if passed_s <= 0:
            return Rates()
        read = generated = 0
        for request_id, (read_now, generated_now) in counts.items():
            read_then, generated_then = before.get(request_id, (0, 0))
            read += max(read_now - read_then, 0)
            generated += max(generated_now - generated_then, 0)
        return Rates(read / passed_s if read else None, generated / passed_s if generated else None)
