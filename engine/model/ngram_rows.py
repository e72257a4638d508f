"""Which rows of the n-gram table tokens read, asked for before they are needed.

Beside the hash and the table it knows nothing: what a pass reads is written by `write`, what later ones
will read is only announced. A table that lies in memory needs no announcements (docs/how-it-works/table.md).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from engine.memory.ngram_table import NgramTable, TableFigures
from engine.model.ple_hash import PleHash


class NgramRows:
    """Rows of a table on the disk.

    Attributes:
        table: reads them.
    """

    def __init__(self, hashing: PleHash, table: NgramTable) -> None:
        self.table = table
        self._hash = hashing

    def expect(
        self, token_ids: Sequence[int] | npt.NDArray[np.integer], previous: Sequence[int]
    ) -> None:
        """Tokens will probably be computed soon: begin to read their rows.

        Args:
            token_ids: consecutive tokens of one sequence.
            previous: the sequence's ids before them, oldest first; the last few count.
        """
        self.table.request(self._hash.rows(token_ids, previous))

    @property
    def figures(self) -> TableFigures:
        """What has been read up to now."""
        return self.table.figures
