"""What a pass costs by its rows, measured while serving.

A row more costs little as long as the weights must be read anyway, and much where it calls for
experts that no other row wanted. So before a number of rows was ever measured its time is foreseen
from the bytes that it touches: the dense part once, of the experts those that R rows choose among E,
k each: E * (1 - (1 - k / E) ** R) on average.
"""

from __future__ import annotations

import bisect
from dataclasses import dataclass

MOST_ROWS = 64
# Of a measured time in its average. What else the machine does makes passes slower, never faster.
_SLOWER_SHARE = 0.1
_FASTER_SHARE = 0.5
_OUTLIER = 1.5  # times the average; a longer time counts as this much


@dataclass(frozen=True, slots=True)
class ModelBytes:
    """What a token of a model reads.

    Attributes:
        dense: bytes that every pass reads.
        experts: bytes of the experts that one token uses.
        num_experts: in a layer.
        num_used: of them by one token.
    """

    dense: float
    experts: float
    num_experts: int
    num_used: int

    def touched(self, num_rows: int) -> float:
        """Bytes that a pass of so many rows reads on average."""
        if not self.num_used:
            return self.dense
        share = 1.0 - (1.0 - self.num_used / self.num_experts) ** num_rows
        return self.dense + self.experts * share * self.num_experts / self.num_used


class PassCosts:
    """Seconds of passes by their number of rows.

    Attributes:
        is_known: a pass that gave each of its requests one token was measured: what drafts are
            compared with.
    """

    def __init__(self, model: ModelBytes) -> None:
        one = model.touched(1)
        # A row computes too: a twentieth of the first one at least.
        self._foreseen = [
            model.touched(rows) / one + 0.05 * (rows - 1) for rows in range(1, MOST_ROWS + 1)
        ]
        self._measured = [0.0] * MOST_ROWS
        self._is_warm = [False] * MOST_ROWS
        self._known: list[int] = []  # numbers of rows that were measured, ascending
        self.is_known = False

    def note(self, num_rows: int, seconds: float, num_requests: int = 1) -> None:
        """A pass of so many rows, for so many requests, took so long."""
        if not 1 <= num_rows <= MOST_ROWS or seconds <= 0:  # a clock may be coarse
            return
        if not self._is_warm[num_rows - 1]:  # the first of its kind prepares what others use
            self._is_warm[num_rows - 1] = True
            return
        known = self._measured[num_rows - 1]
        if known:
            share = _FASTER_SHARE if seconds < known else _SLOWER_SHARE
            seconds = known + share * (min(seconds, _OUTLIER * known) - known)
        else:
            bisect.insort(self._known, num_rows)
        self.is_known = self.is_known or num_rows == num_requests
        self._measured[num_rows - 1] = seconds

    def of(self, num_rows: int) -> float:
        """Seconds of a pass of so many rows, measured or foreseen; only their ratios count.

        What was not measured is foreseen, scaled to what was measured with the next fewer and the
        next more rows.
        """
        num_rows = min(num_rows, MOST_ROWS)
        seconds = self._measured[num_rows - 1]
        if seconds:
            return seconds
        foreseen, known = self._foreseen[num_rows - 1], self._known
        if not known:
            return foreseen
        place = bisect.bisect_left(known, num_rows)
        if place == len(known):
            return foreseen * self._scale(known[-1])
        if place == 0:
            return foreseen * self._scale(known[0])
        low, high = known[place - 1], known[place]
        part = (num_rows - low) / (high - low)
        scale = self._scale(low) + part * (self._scale(high) - self._scale(low))
        return foreseen * scale

    def _scale(self, num_rows: int) -> float:
        """What was measured of so many rows, by what was foreseen."""
        return self._measured[num_rows - 1] / self._foreseen[num_rows - 1]
