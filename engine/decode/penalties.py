"""Penalties on tokens that the answer already holds, and fixed biases.

Only generated tokens count, never the prompt. With n the times that a token occurs among the newest
`penalty_last_n` generated ones (-1: all of them), in this order:

    repetition:  logit / r where the logit is positive, else logit * r        (n > 0)
    frequency:   logit - f * n
    presence:    logit - p                                                    (n > 0)
"""

from __future__ import annotations

from collections import deque

import numpy as np
import numpy.typing as npt

from engine.worker.messages import SamplingParams

FloatArray = npt.NDArray[np.float32]

# A bias at the end of its range is a ban (OpenAI: "-100 ... should result in a ban"): far below any
# logit, and finite, so that a request that bans everything still gets a token.
BAN_BIAS = -100.0
BANNED = -1e9
# Changed logits end here, so that no setting, however wild, makes an infinity of them.
LARGEST = 1e38


class Penalties:
    """Counts of one answer's tokens, kept up to date token by token."""

    def __init__(self, params: SamplingParams) -> None:
        self._repetition = params.repetition_penalty
        self._frequency = params.frequency_penalty
        self._presence = params.presence_penalty
        self._window = params.penalty_last_n
        is_neutral = self._repetition == 1 and self._frequency == 0 and self._presence == 0
        self.is_active = not is_neutral and self._window != 0
        self._recent: deque[int] = deque()
        self._counts: dict[int, int] = {}

    def note(self, token_id: int) -> None:
        """A token was generated."""
        if not self.is_active:
            return
        self._counts[token_id] = self._counts.get(token_id, 0) + 1
        if self._window < 0:
            return
        self._recent.append(token_id)
        if len(self._recent) > self._window:
            oldest = self._recent.popleft()
            self._counts[oldest] -= 1
            if not self._counts[oldest]:
                del self._counts[oldest]

    def apply(self, logits: FloatArray) -> None:
        """Change `logits` `[V]` in place."""
        if not self._counts:
            return
        ids = np.fromiter(self._counts.keys(), np.int64, len(self._counts))  # (n,)
        counts = np.fromiter(self._counts.values(), np.float64, len(self._counts))  # (n,)
        seen = logits[ids].astype(np.float64)
        with np.errstate(over="ignore"):  # a tiny repetition penalty
            seen = np.where(seen > 0, seen / self._repetition, seen * self._repetition)
        logits[ids] = np.clip(seen - self._frequency * counts - self._presence, -LARGEST, LARGEST)


class Biases:
    """Fixed additions to some logits."""

    def __init__(self, pairs: tuple[tuple[int, float], ...]) -> None:
        self.is_active = bool(pairs)
        sums: dict[int, float] = {}  # an id given twice counts twice
        for token_id, value in pairs:
            bias = BANNED if value <= BAN_BIAS else min(value, LARGEST)
            sums[token_id] = sums.get(token_id, 0.0) + bias
        self._ids = np.array(list(sums), np.int64)  # (n,)
        self._values = np.array(list(sums.values()), np.float64)  # (n,)

    def apply(self, logits: FloatArray) -> None:
        """Change `logits` `[V]` in place."""
        logits[self._ids] = np.clip(logits[self._ids] + self._values, -LARGEST, LARGEST)
