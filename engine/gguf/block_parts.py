"""The parts that block formats share: half-precision scales, nibbles, the table of the IQ4 types."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]

# The 16 levels of IQ4_NL and IQ4_XS, ascending (`spec/qwen4exp.md` section 8).
IQ4_VALUES: Floats = np.array(
    [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], np.float32
)


def halves(blocks: Bytes, at: int, count: int = 1) -> Floats:
    """`count` float16 numbers from byte `at` of each block: (num_blocks, count) float32."""
    raw = np.ascontiguousarray(blocks[:, at : at + 2 * count])
    return raw.view("<f2").astype(np.float32)


def words(blocks: Bytes, at: int, count: int, dtype: str) -> NDArray[np.uint32]:
    """`count` little-endian unsigned numbers of `dtype`: (num_blocks, count) uint32."""
    raw = np.ascontiguousarray(blocks[:, at : at + np.dtype(dtype).itemsize * count])
    return raw.view(dtype).astype(np.uint32)


def nibbles(packed: Bytes) -> Bytes:
    """(..., n) bytes to (..., 2n) values: all low nibbles, then all high ones."""
    return np.concatenate([packed & 15, packed >> 4], axis=-1)
