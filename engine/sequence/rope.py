"""Rotary positions: where a sequence's tokens stand, and the angles of these places (spec 4.5).

Text counts 0, 1, 2, ...; the patches of an image have three coordinates (time, row, column), and
text goes on after the largest of them (spec section 9).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int32]
FloatArray = npt.NDArray[np.float32]

_TABLE_STEP = 1024  # positions by which the table of text angles grows at least


class RopePositions:
    """The 3-D position of every token of a sequence; keeps nothing while all is text."""

    def __init__(self) -> None:
        self._length = 0
        # (capacity, 4): t, h, w, and the position that the next text token would get
        self._explicit: IntArray | None = None

    def __len__(self) -> int:
        return self._length

    @property
    def is_text(self) -> bool:
        """Whether every token's position is its index, also of tokens that follow."""
        return self._explicit is None

    @property
    def next(self) -> int:
        """Position of a text token that would follow."""
        if self._explicit is None or self._length == 0:
            return self._length
        return int(self._explicit[self._length - 1, 3])

    def extend(self, count: int, positions: IntArray | None) -> None:
        """Append `count` tokens: text, or with the given `[count, 3]` positions."""
        if positions is None and self._explicit is None:
            self._length += count
            return
        start, first = self._length, self.next
        stop = start + count
        if self._explicit is None or stop > len(self._explicit):
            grown = np.empty((max(64, stop * 2), 4), np.int32)
            if self._explicit is None:
                grown[:start] = np.arange(start, dtype=np.int32)[:, None]
                grown[:start, 3] += 1
            else:
                grown[:start] = self._explicit[:start]
            self._explicit = grown
        rows = self._explicit[start:stop]
        if positions is None:
            rows[:, :3] = np.arange(first, first + count, dtype=np.int32)[:, None]
        else:
            rows[:, :3] = positions
        rows[:, 3] = np.maximum(np.maximum.accumulate(rows[:, :3].max(axis=1)) + 1, first)
        self._length = stop

    def truncate(self, length: int) -> None:
        """Forget the tokens behind the first `length`."""
        self._length = min(self._length, length)

    def at(self, indices: npt.NDArray[np.integer]) -> npt.NDArray[np.int64]:
        """Positions `[n, 3]` of the tokens at these indices; text is assumed behind the end."""
        if self._explicit is None:
            return np.repeat(np.asarray(indices, np.int64)[:, None], 3, axis=1)
        inside = np.minimum(indices, max(self._length - 1, 0))
        known = self._explicit[inside, :3].astype(np.int64)
        beyond = np.asarray(indices, np.int64) - self._length + self.next
        return np.where((indices < self._length)[:, None], known, beyond[:, None])

    def copy(self) -> RopePositions:
        """An independent copy."""
        other = RopePositions()
        other._length = self._length
        if self._explicit is not None:
            other._explicit = self._explicit[: self._length].copy()
        return other


class RopeAngles:
    """Cosines and sines of positions, with the interleaved axes of 3-D positions."""

    def __init__(self, rope_dim: int, theta: float, sections: tuple[int, int, int]) -> None:
        d = np.arange(rope_dim // 2)
        self._inverse = theta ** (-2.0 * d / rope_dim)  # (rope_dim / 2,), float64
        self._axes = np.zeros(rope_dim // 2, np.int64)  # which coordinate turns frequency d
        self._axes[(d % 3 == 1) & (d < 3 * sections[1])] = 1
        self._axes[(d % 3 == 2) & (d < 3 * sections[2])] = 2
        # of the text positions 0, 1, 2, ... as far as they were wanted; (n, rope_dim / 2) each
        self._cos = np.zeros((0, rope_dim // 2), np.float32)
        self._sin = np.zeros((0, rope_dim // 2), np.float32)

    @property
    def num_angles(self) -> int:
        """Angles of a position: rope_dim / 2."""
        return len(self._inverse)

    def write(
        self, positions: npt.NDArray[np.int64], cos_out: FloatArray, sin_out: FloatArray
    ) -> None:
        """Cosines and sines of positions `[n, 3]` into `[n, rope_dim / 2]` float32 arrays."""
        angles: npt.NDArray[np.float64] = (
            positions[:, self._axes] * self._inverse
        )  # (n, rope_dim / 2), float64
        np.cos(angles, out=cos_out, casting="same_kind")
        np.sin(angles, out=sin_out, casting="same_kind")

    def write_text(self, first: int, cos_out: FloatArray, sin_out: FloatArray) -> None:
        """The same for as many text positions as the outputs have rows, from `first` on."""
        stop = first + len(cos_out)
        self._know(stop)
        cos_out[...] = self._cos[first:stop]
        sin_out[...] = self._sin[first:stop]

    def text_tables(self, stop: int) -> tuple[FloatArray, FloatArray]:
        """Cosines and sines of text positions up to `stop` at least, `[n, rope_dim / 2]` each."""
        self._know(stop)
        return self._cos, self._sin

    def _know(self, stop: int) -> None:
        """Have the angles of text positions below `stop`."""
        if stop > len(self._cos):
            size = -(-max(stop, 2 * len(self._cos)) // _TABLE_STEP) * _TABLE_STEP
            positions = np.repeat(np.arange(size)[:, None], 3, axis=1)
            self._cos = np.zeros((size, self.num_angles), np.float32)
            self._sin = np.zeros((size, self.num_angles), np.float32)
            self.write(positions, self._cos, self._sin)
