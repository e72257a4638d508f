"""Token ids of texts that were encoded lately: a conversation's earlier turns come back each time.

Merging bytes into tokens is what a long prompt costs the most on the text side (18,000 tokens: 190 ms of
192, measured 2026-11-30), and all but its last turn was merged a moment ago. Texts are kept as digests,
so nothing that was said stays in memory for this.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

LEAST_CHARS = 64  # shorter texts are encoded faster than found
MOST_IDS = 4_000_000  # 16 MB
_ENTRY_IDS = 64  # an entry takes as much as so many ids besides its own
_DIGEST_BYTES = 24


class PieceCache:
    """Ids by text, the least recently used given up first; thread-safe."""

    def __init__(self, encode: Callable[[str], list[int]], most_ids: int = MOST_IDS) -> None:
        """Keep what `encode` gives, at most so many ids (an entry counts as 64 more)."""
        self._encode = encode
        self._most_ids = most_ids
        self._num_ids = 0
        self._ids: OrderedDict[bytes, npt.NDArray[np.int32]] = OrderedDict()
        self._lock = threading.Lock()

    def encode(self, text: str) -> list[int]:
        """The same as `encode(text)`."""
        if len(text) < LEAST_CHARS:
            return self._encode(text)
        data = text.encode("utf-8", "surrogatepass")
        key = hashlib.blake2b(data, digest_size=_DIGEST_BYTES).digest()
        with self._lock:
            known = self._ids.get(key)
            if known is not None:
                self._ids.move_to_end(key)
        if known is not None:
            return known.tolist()  # type: ignore[no-any-return]  # numpy's stub says Any
        ids = self._encode(text)
        with self._lock:
            if key not in self._ids and len(ids) <= self._most_ids:
                self._ids[key] = np.array(ids, np.int32)
                self._num_ids += len(ids) + _ENTRY_IDS
                while self._num_ids > self._most_ids:
                    self._num_ids -= len(self._ids.popitem(last=False)[1]) + _ENTRY_IDS
        return ids
