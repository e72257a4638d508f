"""The largest logits of a row whose others have stayed on a card: what sampling mostly needs of it.

A card gives 64 of a vocabulary's 150,000 and more: 0.5 KB instead of 1 MB over the bus, and nothing to
search on the host. What is drawn of them is decided in engine/decode/best_draw.py, which asks for all
logits where 64 are not enough.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float32]
IntArray = npt.NDArray[np.int32]
IdArray = npt.NDArray[np.int64]

MOST_CANDIDATES = 64  # `MOST_CANDIDATES` of engine/kernels/cuda/sampling.cu
ROW_WORDS = 2 * MOST_CANDIDATES + 1  # of 4 bytes: `RowBest` of the same file

FetchRow = Callable[[], FloatArray]


class BestLogits:
    """The largest logits of one row.

    Attributes:
        ids: `[n]`, of the largest logits, best first, ties by lower id; fewer than 64 when there are
            no more above minus infinity.
        values: `[n]`, these logits.
        log_sum: ln of the sum of exp of all logits; NaN when one is NaN or the largest is not finite.
        fetch: gives all logits `[V]` of the row, until the next pass; None = they are gone.
    """

    __slots__ = ("_all", "fetch", "ids", "log_sum", "values")

    def __init__(self, packed: IntArray, fetch: FetchRow | None) -> None:
        """Look at what a card wrote for a row: `[ROW_WORDS]` int32, not copied."""
        ids = packed[:MOST_CANDIDATES]
        values = packed[MOST_CANDIDATES : 2 * MOST_CANDIDATES].view(np.float32)
        if ids[-1] < 0:
            count = int(np.count_nonzero(ids >= 0))
            ids, values = ids[:count], values[:count]
        self.ids, self.values, self.fetch = ids, values, fetch
        self.log_sum = float(packed[-1:].view(np.float32)[0])
        self._all: FloatArray | None = None

    @property
    def is_usable(self) -> bool:
        """Whether all logits are numbers and the largest one is finite."""
        return self.log_sum == self.log_sum  # not NaN

    @property
    def is_all(self) -> bool:
        """Whether all other logits are minus infinity."""
        return len(self.ids) < MOST_CANDIDATES

    def all_logits(self) -> FloatArray:
        """All logits `[V]`.

        Raises:
            ValueError: they are gone.
        """
        if self._all is None:
            if self.fetch is None:
                raise ValueError("the other logits of this row are gone")
            self._all = self.fetch()
        return self._all

    def share_of(self, token_id: int) -> float:
        """Probability by softmax of a token that is among them."""
        at = int(np.flatnonzero(self.ids == token_id)[0])
        return float(np.exp(float(self.values[at]) - self.log_sum))


RowLogits = FloatArray | BestLogits  # of one row: all `[V]`, or the best of them


class BestRows:
    """What a card wrote for the rows of a pass; the next pass overwrites it.

    Attributes:
        packed: `[n, ROW_WORDS]` int32.
    """

    def __init__(
        self,
        packed: IntArray,
        fetch: Callable[[int], FloatArray] | None = None,
        token_ids: IdArray | None = None,
    ) -> None:
        """Look at the rows.

        Args:
            packed: `[n, ROW_WORDS]`.
            fetch: gives all logits `[V]` of one of them.
            token_ids: ascending, the tokens that the ids stand for; None = themselves.
        """
        self.packed = packed
        self._fetch = fetch
        self._token_ids = token_ids

    def row(self, index: int) -> BestLogits:
        """One row, as long as the pass's results are there; only where ids stand for themselves."""
        fetch = self._fetch
        if fetch is None:
            return BestLogits(self.packed[index], None)
        return BestLogits(self.packed[index], lambda: fetch(index))

    def kept(self, index: int) -> BestLogits:
        """A copy of one row, without the way to its other logits."""
        packed = self.packed[index].copy()
        if self._token_ids is not None:
            ids = packed[:MOST_CANDIDATES]
            ids[ids >= 0] = self._token_ids[ids[ids >= 0]]
        return BestLogits(packed, None)
