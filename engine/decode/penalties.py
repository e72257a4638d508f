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
_FIRST_IDS = 128


class Penalties:
    """Counts of one answer's tokens, kept up to date token by token, in arrays ready for use.

    Attributes:
        is_active: whether any penalty is set.
        ids: tokens that count, the first `num_seen` of the array; other arrays when it grows.
        counts: how often each of them came.
    """

    def __init__(self, params: SamplingParams) -> None:
        self._repetition = params.repetition_penalty
        self._frequency = params.frequency_penalty
        self._presence = params.presence_penalty
        self._window = params.penalty_last_n
        is_neutral = self._repetition == 1 and self._frequency == 0 and self._presence == 0
        self.is_active = not is_neutral and self._window != 0
        self._recent: deque[int] = deque()
        self._places: dict[int, int] = {}  # of each id in the arrays
        self.ids = np.zeros(_FIRST_IDS, np.int64)
        self.counts = np.zeros(_FIRST_IDS, np.float32)
        self._look_again()

    def _look_again(self) -> None:
        """The arrays as Python writes single numbers quickest: a fifth of what numpy takes."""
        self._id_at = self.ids.data.cast("B").cast("q")
        self._count_at = self.counts.data.cast("B").cast("f")

    @property
    def num_seen(self) -> int:
        """How many entries of the arrays are in use."""
        return len(self._places)

    def count_of(self, token_id: int) -> float:
        """How often a token counts; 0 for one that does not."""
        place = self._places.get(token_id)
        return 0.0 if place is None else self._count_at[place]

    def note(self, token_id: int) -> None:
        """A token was generated."""
        if not self.is_active:
            return
        place = self._places.get(token_id)
        if place is None:
            place = self._places[token_id] = len(self._places)
            if place == len(self.ids):
                self.ids = np.concatenate((self.ids, np.zeros_like(self.ids)))
                self.counts = np.concatenate((self.counts, np.zeros_like(self.counts)))
                self._look_again()
            self._id_at[place] = token_id
            self._count_at[place] = 1.0
        else:
            self._count_at[place] += 1.0
        if self._window < 0:
            return
        self._recent.append(token_id)
        if len(self._recent) > self._window:
            self._forget(self._recent.popleft())

    def _forget(self, token_id: int) -> None:
        place = self._places[token_id]
        count = self._count_at[place] - 1.0
        if count > 0:
            self._count_at[place] = count
            return
        del self._places[token_id]
        last = len(self._places)
        if place < last:  # the last entry takes the free place
            moved = self._id_at[last]
            self._id_at[place], self._count_at[place] = moved, self._count_at[last]
            self._places[moved] = place

    def apply(self, logits: FloatArray) -> None:
        """Change `logits` `[V]` in place."""
        size = len(self._places)
        if not size:
            return
        ids = self.ids[:size]  # (n,)
        seen = logits[ids]  # (n,)
        with np.errstate(over="ignore", divide="ignore"):  # extreme settings
            if self._repetition != 1:
                seen = np.where(seen > 0, seen / self._repetition, seen * self._repetition)
            if self._frequency:
                seen -= self._frequency * self.counts[:size]
            seen -= self._presence
        np.maximum(seen, -LARGEST, out=seen)
        logits[ids] = np.minimum(seen, LARGEST, out=seen)


class Biases:
    """Fixed additions to some logits.

    Attributes:
        is_active: whether there are any.
        ids: of these logits, each once.
        values: what is added.
    """

    def __init__(self, pairs: tuple[tuple[int, float], ...]) -> None:
        self.is_active = bool(pairs)
        sums: dict[int, float] = {}  # an id given twice counts twice
        for token_id, value in pairs:
            bias = BANNED if value <= BAN_BIAS else min(value, LARGEST)
            sums[token_id] = sums.get(token_id, 0.0) + bias
        self.ids = np.array(list(sums), np.int64)  # (n,)
        self.values = np.array(list(sums.values()), np.float64)  # (n,)

    def apply(self, logits: FloatArray) -> None:
        """Change `logits` `[V]` in place."""
        logits[self.ids] = np.clip(logits[self.ids] + self.values, -LARGEST, LARGEST)
