"""N-gram hashing: which table rows a token reads (spec section 5).

    hash_rows(ple, token_ids=[0], previous=[9707, 1879])  # previous ids, oldest first

All arithmetic is in unsigned 64-bit integers; products stay below 2^63 (checked by the config). The
host library does it where there is one (engine/kernels/host/steps.cpp): for a window of drafts numpy takes
fifty microseconds.
"""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from engine.core.model_config import PleConfig
from engine.kernels.library import HostLibrary, loaded_library


class _HashRules(ctypes.Structure):
    """`HashRules` of steps.cpp."""

    _fields_ = (
        ("multipliers", ctypes.c_void_p),
        ("sizes", ctypes.c_void_p),
        ("offsets", ctypes.c_void_p),
        ("ngram_size", ctypes.c_int64),
        ("heads", ctypes.c_int64),
        ("eos", ctypes.c_int64),
        ("object_head", ctypes.c_int64),
    )


class PleHash:
    """The hash of one model's n-gram layer."""

    def __init__(
        self, ple: PleConfig, library: Callable[[], HostLibrary | None] = loaded_library
    ) -> None:
        self._ngram_size = ple.ngram_size
        self._eos = ple.eos_token_id
        self._multipliers = np.array(ple.multipliers, np.uint64)  # (ngram_size,)
        self._offsets = np.array(ple.head_offsets, np.uint64).reshape(-1, ple.heads_per_ngram)
        self._sizes = np.array(ple.head_sizes, np.uint64).reshape(-1, ple.heads_per_ngram)
        # both (ngram_size - 1, heads_per_ngram): row n - 2 belongs to the n-grams of order n
        self._rules = _HashRules(
            multipliers=self._multipliers.ctypes.data,
            sizes=self._sizes.ctypes.data,
            offsets=self._offsets.ctypes.data,
            ngram_size=ple.ngram_size,
            heads=ple.heads_per_ngram,
            eos=ple.eos_token_id,
            object_head=object.__basicsize__,
        )
        self._address = ctypes.addressof(self._rules)
        self._library = library()

    def rows(
        self, token_ids: npt.NDArray[np.integer] | Sequence[int], previous: Sequence[int]
    ) -> npt.NDArray[np.int64]:
        """Table rows `[R, heads]` of consecutive tokens of one sequence.

        Args:
            token_ids: `[R]` ids (at image positions the image token's id).
            previous: the sequence's ids before them, oldest first; only the last ngram_size - 1
                count, and fewer mean that the sequence begins there.
        """
        if self._library is not None:
            out = np.empty((len(token_ids), self._sizes.size), np.int64)
            self._write(self._library, token_ids, previous, out, 0)
            return out
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
        first = 0
        for token_ids, previous in sequences:
            if self._library is not None:
                self._write(self._library, token_ids, previous, out, first)
            else:
                out[first : first + len(token_ids)] = self.rows(token_ids, previous)
            first += len(token_ids)

    def _context(self, previous: Sequence[int]) -> Sequence[int]:
        """The ids that count before a sequence's next token; behind its beginning there are none."""
        num_context = self._ngram_size - 1
        if len(previous) == num_context:
            return previous
        tail = list(previous[-num_context:])
        return [self._eos] * (num_context - len(tail)) + tail

    def _write(
        self,
        library: HostLibrary,
        token_ids: npt.NDArray[np.integer] | Sequence[int],
        previous: Sequence[int],
        out: npt.NDArray[np.int64],
        first: int,
    ) -> None:
        ids = array("q", (*self._context(previous), *token_ids))
        address = ids.buffer_info()[0]
        if library.ngram_rows(self._address, address, len(token_ids), id(out), first):
            raise ValueError(f"rows of {len(token_ids)} tokens do not fit into {out.shape}")
