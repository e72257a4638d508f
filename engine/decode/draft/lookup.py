"""Prompt look-up: the newest tokens stood here before, so what followed may follow again.

    index = LookupIndex()
    index.append(prompt)
    index.draft(most=15)          # the tokens after the longest match of the sequence's end
    index.append(answered)        # confirmed tokens only: nothing is ever taken back

An index belongs to one sequence, so nothing leaks between requests. The work is done by the host
library (engine/kernels/host/lookup.cpp), 10 to 18 bytes a token, the same time at any length.
"""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from engine.kernels.library import HostLibrary, load_library

TokenArray = npt.NDArray[np.int32]

SHORTEST_MATCH = 3  # tokens; kHashed in lookup.cpp
LONGEST_MATCH = 12  # longer ones are equally good; kLongEnough in lookup.cpp
MOST_DRAFTED = 64
_FIRST_CAPACITY = 1024


class _Index(ctypes.Structure):
    """`LookupIndex` of lookup.cpp."""

    _fields_ = (
        ("tokens", ctypes.c_void_p),
        ("previous", ctypes.c_void_p),
        ("newest", ctypes.c_void_p),
        ("capacity", ctypes.c_int64),
        ("mask", ctypes.c_int64),
        ("length", ctypes.c_int64),
        ("match", ctypes.c_int64),
        ("num_matched", ctypes.c_int64),
    )


@dataclass(frozen=True, slots=True)
class PlayCounts:
    """What drafting through a known text came to.

    Attributes:
        num_steps: windows.
        num_drafted: tokens that were guessed.
        num_accepted: those that were right, up to the first wrong one of each window.
    """

    num_steps: int
    num_drafted: int
    num_accepted: int


class LookupIndex:
    """The tokens of one sequence, and where each three of them stood last.

    Raises:
        ResourceError: the host library cannot be loaded on this machine.
    """

    def __init__(self, library: HostLibrary | None = None) -> None:
        self._library = load_library() if library is None else library
        self._index = _Index()
        self._at = ctypes.addressof(self._index)
        self._drafted: TokenArray = np.zeros(MOST_DRAFTED, np.int32)
        self._drafted_at = self._drafted.ctypes.data
        self._tokens: TokenArray = np.zeros(0, np.int32)
        self._tables: tuple[TokenArray, TokenArray] = (self._tokens, self._tokens)
        self._capacity = 0
        self._grow(_FIRST_CAPACITY)

    def __len__(self) -> int:
        return int(self._index.length)

    @property
    def num_matched(self) -> int:
        """How many of the newest tokens stood together before; 0 = fewer than three."""
        return int(self._index.num_matched)

    @property
    def num_bytes(self) -> int:
        """Memory of the index."""
        return self._tokens.nbytes + sum(table.nbytes for table in self._tables)

    def append(self, token_ids: Sequence[int] | TokenArray) -> None:
        """Take tokens that now belong to the sequence."""
        count = len(token_ids)
        needed = len(self) + count
        if needed > self._capacity:
            self._grow(max(needed, self._capacity * 3 // 2))
        if count == 1:  # a token of an answer: the usual case, without an array of its own
            self._drafted[0] = token_ids[0]
            self._library.lookup_append(self._at, self._drafted_at, 1)
            return
        if isinstance(token_ids, np.ndarray):
            tokens = np.ascontiguousarray(token_ids, np.int32)
            self._library.lookup_append(self._at, tokens.ctypes.data, count)
        else:
            words = array("i", token_ids)  # a third of what numpy takes for a window
            self._library.lookup_append(self._at, words.buffer_info()[0], count)

    def draft(self, most: int, least_matched: int = SHORTEST_MATCH) -> list[int]:
        """What may come next: `most` tokens, or none without a match of `least_matched` tokens."""
        most = min(most, MOST_DRAFTED)
        count = self._library.lookup_draft(self._at, least_matched, most, self._drafted_at)
        drafted: list[int] = self._drafted[:count].tolist()
        return drafted

    def play(self, text: TokenArray, most: int, least_matched: int = SHORTEST_MATCH) -> PlayCounts:
        """Draft through a text that is known, as if a model wrote it, and append it."""
        text = np.ascontiguousarray(text, np.int32)
        if len(self) + len(text) > self._capacity:
            self._grow(len(self) + len(text))
        counts = np.zeros(3, np.int64)
        status = self._library.lookup_play(
            self._at, text.ctypes.data, len(text), least_matched, most, counts.ctypes.data
        )
        if status:
            raise ValueError(f"windows of {most} drafted tokens")
        return PlayCounts(*counts.tolist())

    def _grow(self, capacity: int) -> None:
        """Move into larger tables. Half as large again each time, so appending stays cheap."""
        known = self._tokens[: len(self)]
        num_heads = 1 << (capacity.bit_length() - 1)
        self._tokens = np.zeros(capacity, np.int32)
        previous = np.full(capacity, -1, np.int32)
        newest = np.full(num_heads, -1, np.int32)
        self._tables = (previous, newest)
        self._capacity = capacity
        index = self._index
        index.tokens, index.previous, index.newest = (
            array.ctypes.data for array in (self._tokens, previous, newest)
        )
        index.capacity, index.mask = capacity, num_heads - 1
        index.length = index.match = index.num_matched = 0
        self._library.lookup_append(self._at, known.ctypes.data, len(known))
