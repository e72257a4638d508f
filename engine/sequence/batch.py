"""A pass in words: which sequences go on with which tokens, and what comes out of it."""

from __future__ import annotations

import enum
import functools
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from engine.ops.best_logits import BestRows, RowLogits
from engine.sequence.state import SequenceState

FloatArray = npt.NDArray[np.float32]
IntArray = npt.NDArray[np.int32]


class LogitsWanted(enum.Enum):
    """Which of an entry's rows get logits."""

    NONE = "none"
    LAST = "last"
    ALL = "all"


class LogitsForm(enum.Enum):
    """What of a row's logits is wanted; where they lie on the host anyway it is all of them."""

    ALL = "all"
    CANDIDATES = "candidates"  # the largest ones, and the others on request
    BEST = "best"  # the token of the largest one


# Entries and results are made for each token: a frozen dataclass takes three times as long.


class BatchEntry(NamedTuple):
    """One sequence's part of a pass.

    Attributes:
        state: the sequence; must appear once in a batch.
        token_ids: the tokens that follow its committed ones, at least one.
        logits: which rows get logits.
        rope_positions: `[n, 3]` positions (time, row, column) where an image is; None for text.
    """

    state: SequenceState
    token_ids: Sequence[int]
    logits: LogitsWanted = LogitsWanted.LAST
    rope_positions: IntArray | None = None


class Batch:
    """The entries of one pass; their rows follow each other in this order.

    Attributes:
        num_rows: tokens of all entries.
        starts: first row of each entry, and the number of rows at the end.
        form: in which logits are wanted: all, or candidates.
    """

    def __init__(self, entries: Iterable[BatchEntry], form: LogitsForm = LogitsForm.ALL) -> None:
        """Put entries together.

        Raises:
            ValueError: they cannot be computed together, or one of them not at all.
        """
        self.entries = tuple(entries)
        self.form = form
        self.starts = [0]
        self.num_rows = 0
        for _, token_ids, _, positions in self.entries:
            count = len(token_ids)
            if count == 0:
                raise ValueError("an entry needs tokens")
            if positions is not None and positions.shape != (count, 3):
                raise ValueError(f"rope positions of shape {positions.shape}")
            self.num_rows += count
            self.starts.append(self.num_rows)
        if not self.entries:
            raise ValueError("a batch needs entries")
        if len(self.entries) > 1 and len({id(e.state) for e in self.entries}) < len(self.entries):
            raise ValueError("a sequence appears twice in one batch")


class PassResult(NamedTuple):
    """What a pass computed. The arrays are views of buffers that the next pass reuses.

    Attributes:
        logits: of the rows where they were asked for.
        logit_rows: the row that each of them belongs to, ascending.
        streams: residual streams of every row after the last layer, before the final mixer.
        seq_start: first row of each entry, and the number of rows at the end.
        best: the tokens with the largest logits, where these were asked for instead; -1 where there
            is none.
        candidates: the largest logits of these rows, where they were asked for instead.
    """

    logits: FloatArray  # (n, V)
    logit_rows: IntArray  # (n,)
    streams: FloatArray  # (R, hc, H)
    seq_start: Sequence[int] | IntArray  # (S + 1,)
    best: IntArray | None = None  # (n,)
    candidates: BestRows | None = None  # n of them

    def rows(self, first: int, stop: int) -> FloatArray | list[RowLogits]:
        """What there is of the rows with logits, from one of them to before another."""
        if self.candidates is None:
            return self.logits[first:stop]
        return [self.candidates.row(row) for row in range(first, stop)]

    def last_row_of(self, entry: int) -> int:
        """Of the rows with logits, the last one of an entry."""
        return int(self.logit_rows.searchsorted(self.seq_start[entry + 1])) - 1

    def best_of(self, entry: int) -> IntArray | None:
        """The best tokens of one entry's rows, `[k]`."""
        if self.best is None:
            return None
        first, stop = self.logit_rows.searchsorted(self.seq_start[entry : entry + 2])
        return self.best[first:stop]

    def logits_of(self, entry: int) -> FloatArray:
        """Logits of one entry's rows, `[k, V]`."""
        first, stop = self.logit_rows.searchsorted(self.seq_start[entry : entry + 2])
        return self.logits[first:stop]

    def streams_of(self, entry: int) -> FloatArray:
        """Streams of one entry's rows, `[n, hc, H]`."""
        return self.streams[self.seq_start[entry] : self.seq_start[entry + 1]]


def logit_rows(wanted: Sequence[LogitsWanted], seq_start: Sequence[int] | IntArray) -> IntArray:
    """Rows that get logits, ascending; not to be written to."""
    rows: list[int] = []
    for i, want in enumerate(wanted):
        first, stop = seq_start[i], seq_start[i + 1]
        if want is LogitsWanted.ALL:
            rows.extend(range(first, stop))
        elif want is LogitsWanted.LAST:
            rows.append(stop - 1)
    return _row_array(tuple(rows))


@functools.lru_cache(maxsize=256)
def _row_array(rows: tuple[int, ...]) -> IntArray:
    """The same few again and again."""
    made = np.array(rows, np.int32)
    made.flags.writeable = False
    return made
