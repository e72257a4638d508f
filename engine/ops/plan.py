"""What one pass computes: the ragged batch as small arrays that operations read.

Rows are tokens. A pass holds S sequences; sequence s owns rows `seq_start[s]` up to
`seq_start[s + 1]`, in order, with consecutive positions from `seq_length[s]` on. Built once per pass
by `sequence/`; the arrays live in buffers allocated up front and are views of their used part.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int32]
FloatArray = npt.NDArray[np.float32]


@dataclass(slots=True, eq=False)
class PassPlan:
    """A ragged batch of R rows and S sequences.

    Attributes:
        token_ids: the rows' token ids.
        positions: index of each row in its sequence, from 0.
        row_seq: which sequence of the pass a row belongs to.
        seq_start: first row of each sequence, and R at the end.
        seq_slot: slot of each sequence in the fixed-state pools.
        seq_half: which half of that slot holds the committed state.
        seq_length: tokens committed before this pass.
        page_table: page ids of each sequence, -1 past its last page. Pages for all positions
            of the pass are already there.
        rope_cos: cosines of each row's rotary angles; angle d belongs to dims (d, d + rope_dim/2).
        rope_sin: sines.
        block_rope_cos: for rows that complete an index block (position % ratio == ratio - 1) the
            angles of that block's first token; other rows are unused.
        block_rope_sin: sines.
    """

    token_ids: IntArray  # (R,)
    positions: IntArray  # (R,)
    row_seq: IntArray  # (R,)
    seq_start: IntArray  # (S + 1,)
    seq_slot: IntArray  # (S,)
    seq_half: IntArray  # (S,)
    seq_length: IntArray  # (S,)
    page_table: IntArray  # (S, max_pages)
    rope_cos: FloatArray  # (R, rope_dim / 2)
    rope_sin: FloatArray  # (R, rope_dim / 2)
    block_rope_cos: FloatArray  # (R, rope_dim / 2)
    block_rope_sin: FloatArray  # (R, rope_dim / 2)

    @property
    def num_rows(self) -> int:
        """R."""
        return len(self.token_ids)

    @property
    def num_sequences(self) -> int:
        """S."""
        return len(self.seq_slot)
