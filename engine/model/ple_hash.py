"""N-gram hashing: which table rows a token reads (spec section 5).

    hash_rows(ple, token_ids=[0], previous=[9707, 1879])  # previous ids, oldest first

All arithmetic is in unsigned 64-bit integers; products stay below 2^63 (checked by the config).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from engine.core.model_config import PleConfig


class PleHash:
    """The hash of one model's n-gram layer."""

    def __init__(self, ple: PleConfig) -> None:
        self._ngram_size = ple.ngram_size
        self._eos = ple.eos_token_id
        self._multipliers = np.array(ple.multipliers, np.uint64)  # (ngram_size,)
        self._offsets = np.array(ple.head_offsets, np.uint64).reshape(-1, ple.heads_per_ngram)
        self._sizes = np.array(ple.head_sizes, np.uint64).reshape(-1, ple.heads_per_ngram)
        # both (ngram_size - 1, heads_per_ngram): row n - 2 belongs to the n-grams of order n

    def rows(
        self, token_ids: npt.NDArray[np.integer] | Sequence[int], previous: Sequence[int]
    ) -> npt.NDArray[np.int64]:
        """Table rows `[R, heads]` of consecutive tokens of one sequence.

        Args:
            token_ids: `[R]` ids (at image positions the image token's id).
            previous: the sequence's ids before them, oldest first; only the last ngram_size - 1
                count, and fewer mean that the sequence begins there.
        """
        num_context = self._ngram_size - 1
        tail = list(previous)[-num_context:]
        padded = [self._eos] * (num_context - len(tail)) + tail
        ids = np.concatenate([np.array(padded, np.int64), np.asarray(token_ids, np.int64)])
        num_rows = len(ids) - num_context

        current = ids[num_context:].astype(np.uint64)
        mix = current * self._multipliers[0]  # (R,)
        cut = np.zeros(num_rows, np.bool_)  # an eos was seen on the way back
        rows = np.empty((num_rows, num_context, self._sizes.shape[1]), np.int64)
        for s in range(1, self._ngram_size):
            at = ids[num_context - s : len(ids) - s]  # t_{i-s}
            cut |= at == self._eos
            context = np.where(cut, self._eos, at).astype(np.uint64)
            mix ^= context * self._multipliers[s]
            rows[:, s - 1] = mix[:, None] % self._sizes[s - 1] + self._offsets[s - 1]
        return rows.reshape(num_rows, -1)
