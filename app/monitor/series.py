"""The last minutes of one figure, for a plot."""

from __future__ import annotations

import math
from collections import deque


class Series:
    """Values at the times of the samples; a missing one leaves a gap."""

    def __init__(self, length: int) -> None:
        self._values: deque[float] = deque([math.nan] * length, maxlen=length)

    def add(self, value: float | None) -> None:
        """Take the newest value; the oldest goes."""
        self._values.append(math.nan if value is None else float(value))

    def add_gap(self, samples: int) -> None:
        """Nothing was seen for so many samples."""
        for _ in range(min(samples, self._values.maxlen or 0)):
            self._values.append(math.nan)

    def values(self) -> list[float]:
        """All, the oldest first."""
        return list(self._values)

    @property
    def latest(self) -> float | None:
        """The newest; None for a gap."""
        value = self._values[-1]
        return None if math.isnan(value) else value

    @property
    def largest(self) -> float:
        """The largest that is known; 0 without any."""
        return max((value for value in self._values if not math.isnan(value)), default=0.0)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is known."""
        return all(math.isnan(value) for value in self._values)
