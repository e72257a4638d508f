"""Float32 to block formats: what the writer needs for models that we make ourselves.

The inverse of `blocks.py` for F32, F16, BF16, Q8_0, Q4_0, Q2_0, IQ4_NL and Q4_K. A quantiser tries
several scales for each block, improves each by least squares (for given levels q the best scale of
x = d*q is sum(x*q) / sum(q*q)) and keeps the one whose decoded values are nearest. No importance
weights are used. Layouts: `spec/qwen4exp.md` section 8.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray

from engine.core.ggml_types import GgmlType, row_bytes
from engine.gguf.block_parts import IQ4_VALUES, Bytes, Floats
from engine.gguf.quantise_k import q4_k

# (num_blocks, block_values) / scale -> the nearest levels that the format has, as float32
Levels = Callable[[Floats], Floats]

_VALUES_PER_STEP = 1 << 18
_LARGEST_HALF = 65504.0
_IQ4_MIDPOINTS: Floats = (IQ4_VALUES[1:] + IQ4_VALUES[:-1]) * np.float32(0.5)


def quantise(values: NDArray[np.floating], ggml_type: GgmlType) -> NDArray[np.uint8]:
    """The bytes of a tensor in a block format.

    Args:
        values: (..., row_length), taken as float32.
        ggml_type: one of `QUANTISABLE`.

    Returns:
        (..., row_bytes) uint8.

    Raises:
        ValueError: the type is not in `QUANTISABLE`, rows are no whole number of blocks, or a value
            is too large for the type (BF16 and F32 hold all, the others up to 65504).
    """
    if ggml_type not in QUANTISABLE:
        raise ValueError(f"there is no quantiser for {ggml_type.name}")
    values = np.ascontiguousarray(values, np.float32)
    bytes_per_row = row_bytes(ggml_type, values.shape[-1])
    shape = (*values.shape[:-1], bytes_per_row)
    if ggml_type in _NUMBERS:
        return _NUMBERS[ggml_type](values).reshape(shape)
    if not (np.abs(values) <= _LARGEST_HALF).all():  # also false for NaN
        raise ValueError(f"a value above 65504 cannot be stored as {ggml_type.name}")
    encode = _BLOCKS[ggml_type]
    blocks = values.reshape(-1, ggml_type.block_values)
    raw = np.empty((len(blocks), ggml_type.block_bytes), np.uint8)
    step = _VALUES_PER_STEP // ggml_type.block_values
    for start in range(0, len(blocks), step):
        raw[start : start + step] = encode(blocks[start : start + step])
    return raw.reshape(shape)


def _f32(values: Floats) -> Bytes:
    return values.astype("<f4").view(np.uint8)


def _f16(values: Floats) -> Bytes:
    with np.errstate(over="ignore", under="ignore"):
        stored = values.astype("<f2")
    if np.isinf(stored).sum() != np.isinf(values).sum():
        raise ValueError("a value above 65504 cannot be stored as F16; use BF16 or F32")
    return stored.view(np.uint8)


def _bf16(values: Floats) -> Bytes:
    bits = values.view(np.uint32)
    # Half of the last place that stays, to even; it cannot reach the sign unless the value is NaN.
    rounded = bits + (np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1)))
    quiet_nan = bits | np.uint32(0x0040_0000)
    kept = np.where(np.isnan(values), quiet_nan, rounded) >> np.uint32(16)
    return kept.astype("<u2").view(np.uint8)


def _q8_0(blocks: Floats) -> Bytes:
    largest = np.abs(blocks).max(axis=1)
    d = _as_half(largest / np.float32(127))
    # Where float16 gets coarse (below 2^-14) a scale rounded down would cut the largest value off.
    d = np.where(d * np.float32(127.5) < largest, _next_half(d), d)
    q = np.clip(np.rint(_divide(blocks, d)), -127, 127)
    return np.concatenate([_half_bytes(d), q.astype(np.int8).view(np.uint8)], axis=1)


def _q4_0(blocks: Floats) -> Bytes:
    extreme = _extreme(blocks)
    scales = [extreme / np.float32(-8 * f) for f in np.linspace(0.92, 1.3, 12)]
    scales += [extreme / np.float32(7), extreme / np.float32(7.5)]
    d, levels = _fit(blocks, scales, lambda x: np.clip(np.rint(x), -8, 7))
    q = (levels + 8).astype(np.uint8)
    return np.concatenate([_half_bytes(d), q[:, :16] | q[:, 16:] << np.uint8(4)], axis=1)


def _q2_0(blocks: Floats) -> Bytes:
    # The levels -1, 0, 1, 2 lean to one side: a negative scale leans to the other.
    largest = np.abs(blocks).max(axis=1)
    scales = [largest / np.float32(s * f) for f in np.linspace(1, 4, 16) for s in (1, -1)]
    d, levels = _fit(blocks, scales, lambda x: np.clip(np.rint(x), -1, 2))
    codes = (levels + 1).astype(np.uint8).reshape(-1, 16, 4)
    packed = (codes << np.array([0, 2, 4, 6], np.uint8)).sum(axis=2, dtype=np.uint8)
    return np.concatenate([_half_bytes(d), packed], axis=1)


def _iq4_nl(blocks: Floats) -> Bytes:
    def nearest(x: Floats) -> Floats:
        return IQ4_VALUES[np.searchsorted(_IQ4_MIDPOINTS, x)]

    extreme = _extreme(blocks)
    scales = [extreme / np.float32(f) for f in (*range(-155, -112, 6), *range(98, 135, 6))]
    d, levels = _fit(blocks, scales, nearest)
    q = np.searchsorted(IQ4_VALUES, levels).astype(np.uint8)
    return np.concatenate([_half_bytes(d), q[:, :16] | q[:, 16:] << np.uint8(4)], axis=1)


def _fit(
    blocks: Floats, scales: Iterable[npt.NDArray[np.floating]], levels_of: Levels
) -> tuple[Floats, Floats]:
    """The scale (num_blocks,), a float16 number, and levels whose product is nearest to `blocks`.

    Args:
        blocks: (num_blocks, block_values), float32.
        scales: to start from, (num_blocks,) each.
        levels_of: rounds blocks / scale to the format's levels.
    """
    best_d = np.zeros(len(blocks), np.float32)
    best_levels = levels_of(np.zeros_like(blocks))
    best_error = np.full(len(blocks), np.inf, np.float32)

    def keep_better(d: Floats, levels: Floats) -> None:
        error = np.square(blocks - d[:, None] * levels).sum(axis=1)
        better = error < best_error
        best_d[better], best_error[better] = d[better], error[better]
        best_levels[better] = levels[better]

    def improve(d: Floats) -> None:
        levels = levels_of(_divide(blocks, d))
        squares = np.square(levels).sum(axis=1)
        refined = (blocks * levels).sum(axis=1) / np.where(squares > 0, squares, 1)
        keep_better(_as_half(refined), levels)

    # Tiny numbers squared vanish in float32: the search then keeps its first try, which is fine.
    with np.errstate(under="ignore"):
        for d in scales:
            improve(_as_half(d))
        for _ in range(2):
            improve(best_d.copy())
    return best_d, best_levels


def _extreme(blocks: Floats) -> Floats:
    """The value of each block that is farthest from zero, with its sign: (num_blocks,)."""
    at = np.abs(blocks).argmax(axis=1)
    return np.take_along_axis(blocks, at[:, None], axis=1)[:, 0]


def _as_half(d: npt.NDArray[np.floating]) -> Floats:
    """The nearest float16 numbers, still as float32: what a decoder will multiply with."""
    with np.errstate(under="ignore"):
        half: npt.NDArray[np.float16] = np.clip(d, -_LARGEST_HALF, _LARGEST_HALF).astype(np.float16)
    return half.astype(np.float32)


def _next_half(d: Floats) -> Floats:
    return np.nextafter(d.astype(np.float16), np.float16(np.inf)).astype(np.float32)


def _half_bytes(d: Floats) -> Bytes:
    return d.astype("<f2").view(np.uint8).reshape(-1, 2)


def _divide(blocks: Floats, d: Floats) -> Floats:
    """Blocks / d, with 0 where d is 0 (a block of zeros, or of numbers too small for float16)."""
    inverse = np.divide(1, d, out=np.zeros_like(d), where=d != 0)
    return blocks * inverse[:, None]


_NUMBERS: dict[GgmlType, Callable[[Floats], Bytes]] = {
    GgmlType.F32: _f32,
    GgmlType.F16: _f16,
    GgmlType.BF16: _bf16,
}
_BLOCKS: dict[GgmlType, Callable[[Floats], Bytes]] = {
    GgmlType.Q8_0: _q8_0,
    GgmlType.Q4_0: _q4_0,
    GgmlType.Q2_0: _q2_0,
    GgmlType.IQ4_NL: _iq4_nl,
    GgmlType.Q4_K: q4_k,
}

# The types that `quantise` knows.
QUANTISABLE = frozenset([*_NUMBERS, *_BLOCKS])
