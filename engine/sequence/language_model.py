"""What the scheduler needs of a model: sequences, and passes that can be left between layers."""

from __future__ import annotations

from collections.abc import Generator
from typing import Protocol

from engine.sequence.batch import Batch, PassResult
from engine.sequence.rows_ahead import RowsReader
from engine.sequence.state import SequenceState


class Passes(Protocol):
    """Computes passes, one at a time."""

    def layers(self, batch: Batch) -> Generator[int, None, PassResult]:
        """A pass, one layer per step; leaving it abandons the pass without a trace."""


class LanguageModel(Passes, Protocol):
    """What the scheduler needs of a model.

    Attributes:
        ngram_rows: reads rows of its n-gram table early; None when there is nothing to read.
    """

    @property
    def ngram_rows(self) -> RowsReader | None:
        """See above."""

    def new_sequence(self) -> SequenceState:
        """An empty sequence, or a ResourceError."""

    def new_lane(self, max_rows: int) -> Passes:
        """For passes of at most so many rows, while one of the model's own is left open."""
