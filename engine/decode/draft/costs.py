"""What a pass costs by its rows, measured while serving.

A row more costs little as long as the weights must be read anyway, and much where it calls for
experts that no other row wanted. So before a number of rows was ever measured its time is foreseen
from the bytes that it touches: the dense part once, of the experts those that R rows choose among E,
k each: E * (1 - (1 - k / E) ** R) on average.
"""

from __future__ import annotations

from dataclasses import dataclass

MOST_ROWS = 64
_NEWEST_SHARE = 0.125  # of a measured time in its average
_OUTLIER = 4.0  # times the average: the machine did something else; counts as this much


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
    """Seconds of passes by their number of rows."""

    def __init__(self, model: ModelBytes) -> None:
        one = model.touched(1)
        # A row computes too: a twentieth of the first one at least.
        self._foreseen = [
            model.touched(rows) / one + 0.05 * (rows - 1) for rows in range(1, MOST_ROWS + 1)
        ]
        self._measured = [0.0] * MOST_ROWS
        self._costs: list[float] = []

    @property
    def is_known(self) -> bool:
        """Whether a pass of one row was measured."""
        return self._measured[0] > 0

    def note(self, num_rows: int, seconds: float) -> None:
        """A pass of so many rows took so long."""
        if not 1 <= num_rows <= MOST_ROWS:
            return
        known = self._measured[num_rows - 1]
        if known:
            seconds = known + _NEWEST_SHARE * (min(seconds, _OUTLIER * known) - known)
        self._measured[num_rows - 1] = seconds
        self._costs.clear()

    def of(self, num_rows: int) -> float:
        """Seconds of a pass of so many rows, measured or foreseen; only their ratios count."""
        if not self._costs:
            self._costs = self._filled()
        return self._costs[min(num_rows, MOST_ROWS) - 1]

    def _filled(self) -> list[float]:
        """A time for every number of rows: foreseen ones are scaled to the measured ones around."""
        known = [i for i, seconds in enumerate(self._measured) if seconds]
        if not known:
            return list(self._foreseen)
        filled: list[float] = []
        for i, foreseen in enumerate(self._foreseen):
            below = [k for k in known if k <= i]
            above = [k for k in known if k >= i]
            near = below[-1] if below else above[0]
            scale = self._measured[near] / self._foreseen[near]
            if below and above and above[0] != near:
                far = above[0]
                part = (i - near) / (far - near)
                scale += part * (self._measured[far] / self._foreseen[far] - scale)
            # More rows never take less time: a lucky measurement would pull everything along.
            filled.append(max(foreseen * scale, filled[-1] if filled else 0.0))
        return filled
