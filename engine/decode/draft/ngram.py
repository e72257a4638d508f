"""N-gram caches: the most frequent successor of the newest one to four tokens.

    table = NgramTable()                  # counts what a sequence holds
    drafter = NgramDrafter(others=None, file=None)
    drafter.append(prompt)
    drafter.draft(5)

Three sources, asked in this order for each token: the sequence itself, all requests so far (only with
consent, it holds what people wrote) and a file made of a corpus (`ngram_file`). Thresholds and orders
are those of llama.cpp's n-gram drafting. The work is done by engine/kernels/host/ngram.cpp.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from engine.decode.draft.lookup import PlayCounts
from engine.kernels.library import HostLibrary, load_library

if TYPE_CHECKING:
    from engine.decode.draft.ngram_file import NgramFile

TokenArray = npt.NDArray[np.int32]
RecordArray = npt.NDArray[np.void]

ORDERS = 4  # kOrders in ngram.cpp
MOST_DRAFTED = 64
GRAM = np.dtype(
    [("key", "<u8"), ("total", "<u4"), ("top_count", "<u4"), ("top", "<i4"), ("unused", "<i4")]
)
PAIR = np.dtype([("key", "<u8"), ("count", "<u8")])
_FIRST_SLOTS = 1 << 12
_FULLEST = 0.6  # of the slots in use; then the tables grow


class _Table(ctypes.Structure):
    """`NgramTable` of ngram.cpp."""

    _fields_ = (
        ("grams", ctypes.c_void_p),
        ("pairs", ctypes.c_void_p),
        ("gram_mask", ctypes.c_int64),
        ("pair_mask", ctypes.c_int64),
        ("num_grams", ctypes.c_int64),
        ("num_pairs", ctypes.c_int64),
    )


@dataclass(slots=True, eq=False)
class _Slots:
    """A table's memory, and what the library reads of it."""

    grams: RecordArray
    pairs: RecordArray
    table: _Table

    @classmethod
    def of(cls, grams: RecordArray, pairs: RecordArray, *, is_full: bool = False) -> _Slots:
        """Of arrays: hash tables, or (`is_full`) plain lists that are to be moved."""
        used = (len(grams), len(pairs)) if is_full else (0, 0)
        sizes = (len(grams) - 1, len(pairs) - 1)
        return cls(grams, pairs, _Table(grams.ctypes.data, pairs.ctypes.data, *sizes, *used))

    @classmethod
    def empty(cls, num_grams: int, num_pairs: int) -> _Slots:
        """With room for so many at least."""
        return cls.of(np.zeros(_power(num_grams), GRAM), np.zeros(_power(num_pairs), PAIR))

    @property
    def at(self) -> int:
        """Address for the library."""
        return ctypes.addressof(self.table)


def _power(count: int) -> int:
    return max(_FIRST_SLOTS, 1 << (int(count / _FULLEST)).bit_length())


class NgramTable:
    """Counts of n-grams and of what followed them."""

    def __init__(self, library: HostLibrary | None = None) -> None:
        self.library = load_library() if library is None else library
        self._slots = _Slots.empty(0, 0)

    @classmethod
    def from_records(cls, grams: RecordArray, pairs: RecordArray) -> NgramTable:
        """Of what `records` gave."""
        table = cls()
        table._slots = _Slots.empty(len(grams), len(pairs))
        if len(grams) and len(pairs):
            listed = _Slots.of(grams.copy(), pairs.copy(), is_full=True)
            table.library.ngram_move(listed.at, table._slots.at)
        return table

    @property
    def at(self) -> int:
        """Address for the library."""
        return self._slots.at

    @property
    def num_grams(self) -> int:
        """N-grams that were met."""
        return int(self._slots.table.num_grams)

    @property
    def num_bytes(self) -> int:
        """Memory of the tables."""
        return self._slots.grams.nbytes + self._slots.pairs.nbytes

    def records(self) -> tuple[RecordArray, RecordArray]:
        """N-grams, and pairs of an n-gram and a successor, in no order."""
        grams, pairs = self._slots.grams, self._slots.pairs
        return grams[grams["key"] != 0], pairs[pairs["key"] != 0]

    def make_room(self, num_tokens: int) -> None:
        """For so many tokens more."""
        table, more = self._slots.table, ORDERS * num_tokens
        needed = (int(table.num_grams) + more, int(table.num_pairs) + more)
        if needed[0] <= _FULLEST * (table.gram_mask + 1) and needed[1] <= _FULLEST * (
            table.pair_mask + 1
        ):
            return
        larger = _Slots.empty(*(2 * count for count in needed))
        self.library.ngram_move(self.at, larger.at)
        self._slots = larger

    def append(self, tokens: TokenArray, known: int, length: int) -> None:
        """Count the tokens `known` to `length - 1` of an array, each behind those before it."""
        self.make_room(length - known)
        self.library.ngram_append(self.at, tokens.ctypes.data, known, length)


class NgramDrafter:
    """Drafts of one sequence.

    Args:
        others: counts of other requests, None = none.
        file: a corpus, None = none.
        use_own: whether the sequence itself is asked.
    """

    def __init__(
        self,
        others: NgramTable | None = None,
        file: NgramFile | None = None,
        *,
        use_own: bool = True,
    ) -> None:
        self._own = NgramTable()
        self._use_own = use_own
        self._others = others
        self._file = file
        self._tokens: TokenArray = np.zeros(1024, np.int32)
        self._length = 0

    def __len__(self) -> int:
        return self._length

    @property
    def tokens(self) -> TokenArray:
        """What was appended."""
        return self._tokens[: self._length]

    def append(self, token_ids: Sequence[int] | TokenArray) -> None:
        """Take tokens that now belong to the sequence."""
        stop = self._length + len(token_ids)
        self._make_room(stop + MOST_DRAFTED)
        self._tokens[self._length : stop] = token_ids
        if self._use_own:
            self._own.append(self._tokens, self._length, stop)
        self._length = stop

    def draft(self, most: int) -> list[int]:
        """What may come next, as far as it is likely enough: up to `most` tokens."""
        most = min(most, MOST_DRAFTED)
        count = self._own.library.ngram_draft(
            *self._sources(), self._tokens.ctypes.data, self._length, most
        )
        drafted: list[int] = self._tokens[self._length : self._length + count].tolist()
        return drafted

    def play(self, text: TokenArray, most: int) -> PlayCounts:
        """Draft through a text that is known, as if a model wrote it; the drafter must be new."""
        if self._length:
            raise ValueError("a text is played from its beginning")
        text = np.ascontiguousarray(text, np.int32)
        self._make_room(len(text) + MOST_DRAFTED)
        if self._use_own:
            self._own.make_room(len(text))
        counts = np.zeros(3, np.int64)
        self._own.library.ngram_play(
            *self._sources(),
            text.ctypes.data,
            len(text),
            min(most, MOST_DRAFTED),
            self._tokens.ctypes.data,
            counts.ctypes.data,
        )
        self._length = len(text)
        return PlayCounts(*counts.tolist())

    def _sources(self) -> tuple[int | None, int | None, int | None]:
        return (
            self._own.at if self._use_own else None,
            None if self._others is None else self._others.at,
            None if self._file is None else self._file.at,
        )

    def _make_room(self, num_tokens: int) -> None:
        if num_tokens > len(self._tokens):
            larger = np.zeros(max(num_tokens, len(self._tokens) * 3 // 2), np.int32)
            larger[: self._length] = self.tokens
            self._tokens = larger
