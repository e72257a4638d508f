"""Which tokens may be drawn: a bit for each, as grammars give them and the host library reads them."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float32]
BoolArray = npt.NDArray[np.bool_]


class TokenMask:
    """A set of tokens; one that it has no bit for is not in it.

    Attributes:
        num_tokens: how many it has a bit for.
        num_bytes: of its bits, in whole words of 32, the lowest bit first.
        address: where they are; it stays the same.
    """

    __slots__ = ("_bytes", "_view", "address", "num_bytes", "num_tokens")

    def __init__(self, num_tokens: int) -> None:
        """The empty set."""
        self.num_tokens = num_tokens
        self._view = bytearray((num_tokens + 31) // 32 * 4)  # quicker than numpy for one byte
        self._bytes = np.frombuffer(self._view, np.uint8)
        self.address: int = self._bytes.ctypes.data
        self.num_bytes = len(self._bytes)

    @classmethod
    def without(cls, num_tokens: int, token_ids: Iterable[int]) -> TokenMask:
        """All tokens but these."""
        mask = cls(num_tokens)
        mask._bytes.fill(255)
        for token_id in token_ids:
            mask.forbid(token_id)
        return mask

    def copy_from(self, other: TokenMask) -> None:
        """Become the same set; both have bits for equally many tokens."""
        self._bytes[:] = other._bytes

    def clear(self) -> None:
        """Become the empty set."""
        self._bytes.fill(0)

    def allow(self, token_id: int) -> None:
        """Put a token in, which must have a bit."""
        self._view[token_id >> 3] |= 1 << (token_id & 7)

    def forbid(self, token_id: int) -> None:
        """Take a token out, which must have a bit."""
        self._view[token_id >> 3] &= ~(1 << (token_id & 7))

    def __contains__(self, token_id: int) -> bool:
        """Whether the token may be drawn."""
        return 0 <= token_id < self.num_tokens and bool(
            self._view[token_id >> 3] >> (token_id & 7) & 1
        )

    def holds(self, token_ids: npt.NDArray[np.int32]) -> BoolArray:
        """Which of these tokens `[n]`, none of them negative, may be drawn."""
        places = np.minimum(token_ids >> 3, self.num_bytes - 1)
        bits = self._bytes[places] >> (token_ids & 7).astype(np.uint8) & 1
        allowed: BoolArray = (bits != 0) & (token_ids < self.num_tokens)
        return allowed

    def flags(self, size: int) -> BoolArray:
        """The set as `[size]` truth values."""
        flags = np.zeros(size, np.bool_)
        count = min(size, self.num_tokens)
        flags[:count] = np.unpackbits(self._bytes, count=count, bitorder="little")
        return flags

    def applied(self, logits: FloatArray) -> FloatArray:
        """A copy of the logits `[V]` with minus infinity for what is not in the set."""
        return np.where(self.flags(len(logits)), logits, np.float32(-np.inf))
