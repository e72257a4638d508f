"""N-gram hashing: which table rows a token reads (spec section 5).

    hash_rows(ple, token_ids=[0], previous=[9707, 1879])  # previous ids, oldest first

All arithmetic is in unsigned 64-bit integers; products stay below 2^63 (checked by the config).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from engine.core.model_config import PleConfig

_FEW_ROWS = 4  # of a sequence, up to here plain integers are quicker than arrays


class PleHash:
    """The hash of one model's n-gram layer."""

    def __init__(self, ple: PleConfig) -> None:
        self._ngram_size = ple.ngram_size
        self._eos = ple.eos_token_id
        self._multipliers = np.array(ple.multipliers, np.uint64)  # (ngram_size,)
        self._offsets = np.array(ple.head_offsets, np.uint64).reshape(-1, ple.heads_per_ngram)
        self._sizes = np.array(ple.head_sizes, np.uint64).reshape(-1, ple.heads_per_ngram)
        # both (ngram_size - 1, heads_per_ngram): row n - 2 belongs to the n-grams of order n
        self._plain_multipliers = tuple(map(int, ple.multipliers))
        self._plain_heads = [
            list(zip(sizes, offsets, strict=True))
            for sizes, offsets in zip(self._sizes.tolist(), self._offsets.tolist(), strict=True)
        ]

    def rows(
        self, token_ids: npt.NDArray[np.integer] | Sequence[int], previous: Sequence[int]
    ) -> npt.NDArray[np.int64]:
        """Table rows `[R, heads]` of consecutive tokens of one sequence.

        Args:
            token_ids: `[R]` ids (at image positions the image token's id).
            previous: the sequence's ids before them, oldest first; only the last ngram_size - 1
                count, and fewer mean that the sequence begins there.
        """
        if len(token_ids) <= _FEW_ROWS:
            table = self._few_rows([*self._context(previous), *map(int, token_ids)])
            return np.array(table, np.int64).reshape(len(table), -1)
        num_context = self._ngram_size - 1
        ids = np.concatenate(
            [np.array(self._context(previous), np.int64), np.asarray(token_ids, np.int64)]
        )
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

    def write(
        self,
        sequences: Sequence[tuple[Sequence[int], Sequence[int]]],
        out: npt.NDArray[np.int64],
    ) -> None:
        """`rows` of several sequences, one behind the other, into `out` `[R, heads]`.

        Args:
            sequences: token ids and the ids before them, of each.
            out: where the rows go.
        """
        if all(len(token_ids) <= _FEW_ROWS for token_ids, _ in sequences):
            table: list[list[int]] = []
            for token_ids, previous in sequences:
                table += self._few_rows([*self._context(previous), *token_ids])
            out[...] = table
            return
        first = 0
        for token_ids, previous in sequences:
            out[first : first + len(token_ids)] = self.rows(token_ids, previous)
            first += len(token_ids)

    def _context(self, previous: Sequence[int]) -> list[int]:
        """The ids that count before a sequence's next token; behind its beginning there are none."""
        num_context = self._ngram_size - 1
        tail = list(previous)[-num_context:]
        return [self._eos] * (num_context - len(tail)) + tail

    def _few_rows(self, ids: list[int]) -> list[list[int]]:
        """The same without arrays, which for a decode step cost several times the work."""
        num_context = self._ngram_size - 1
        table: list[list[int]] = []
        for i in range(num_context, len(ids)):
            mix, is_cut = ids[i] * self._plain_multipliers[0], False
            row: list[int] = []
            for s, heads in enumerate(self._plain_heads, start=1):
                is_cut |= ids[i - s] == self._eos
                mix ^= (self._eos if is_cut else ids[i - s]) * self._plain_multipliers[s]
                row += [mix % size + offset for size, offset in heads]
            table.append(row)
        return table
