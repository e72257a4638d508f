"""Random valid blocks of every format: bytes that decode to weights of a wanted spread.

The codes of a block are random bytes; its scales are chosen so that the decoded values have the
wanted standard deviation and, over many blocks, the mean 0 (the sign of a scale is random, so that
formats whose codes lean to one side do not push all activations the same way). Nothing is quantised:
10 GB are made as fast as a disk takes them. Knows nothing of models.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from engine.core.ggml_types import GgmlType
from engine.gguf.blocks import dequantise

Bytes = NDArray[np.uint8]

_PART_BYTES = 16 << 20
_SAMPLE_BLOCKS = 4096

# type -> (offset of the float16 scale, offset of the float16 that is added or subtracted, its size
# as a multiple of the scale that puts the mean of a block's values near 0)
_SCALES: dict[GgmlType, tuple[int, int | None, float]] = {
    GgmlType.Q4_0: (0, None, 0),
    GgmlType.Q4_1: (0, 2, -7.5),
    GgmlType.Q5_0: (0, None, 0),
    GgmlType.Q5_1: (0, 2, -15.5),
    GgmlType.Q8_0: (0, None, 0),
    GgmlType.Q2_K: (80, 82, 1.5),
    GgmlType.Q3_K: (108, None, 0),
    GgmlType.Q4_K: (0, 2, 7.5),
    GgmlType.Q5_K: (0, 2, 15.5),
    GgmlType.Q6_K: (208, None, 0),
    GgmlType.IQ2_XXS: (0, None, 0),
    GgmlType.IQ2_XS: (0, None, 0),
    GgmlType.IQ2_S: (0, None, 0),
    GgmlType.IQ3_XXS: (0, None, 0),
    GgmlType.IQ3_S: (0, None, 0),
    GgmlType.IQ1_S: (0, None, 0),
    GgmlType.IQ4_NL: (0, None, 0),
    GgmlType.IQ4_XS: (0, None, 0),
    GgmlType.Q2_0: (0, None, 0),
}
_NUMBERS = (GgmlType.F32, GgmlType.F16, GgmlType.BF16)

RANDOM_TYPES = frozenset({*_SCALES, *_NUMBERS, GgmlType.IQ1_M, GgmlType.MXFP4})


def random_parts(
    rng: np.random.Generator, ggml_type: GgmlType, num_values: int, spread: float
) -> Iterator[Bytes]:
    """The bytes of `num_values` random weights, in parts of some megabytes.

    Args:
        rng: where the randomness comes from.
        ggml_type: one of `RANDOM_TYPES`.
        num_values: a whole number of blocks.
        spread: standard deviation of the decoded values.

    Yields:
        (num_blocks, block_bytes) uint8.
    """
    fill = _filler(rng, ggml_type, spread)
    num_blocks = num_values // ggml_type.block_values
    step = max(1, _PART_BYTES // ggml_type.block_bytes)
    for start in range(0, num_blocks, step):
        yield fill(min(step, num_blocks - start))


def _filler(rng: np.random.Generator, ggml_type: GgmlType, spread: float) -> Callable[[int], Bytes]:
    """A function that makes some blocks."""
    if ggml_type in _NUMBERS:
        return _number_filler(rng, ggml_type, spread)
    if ggml_type not in RANDOM_TYPES:
        raise ValueError(f"random blocks of the format {ggml_type.name} are not made")
    set_scale = _scale_setter(ggml_type)
    sample = _random_bytes(rng, _SAMPLE_BLOCKS, ggml_type)
    set_scale(sample, 1.0)
    values = dequantise(sample, ggml_type, (_SAMPLE_BLOCKS * ggml_type.block_values,))
    scale = spread / float(values.std(dtype=np.float64))

    def fill(num_blocks: int) -> Bytes:
        blocks = _random_bytes(rng, num_blocks, ggml_type)
        set_scale(blocks, scale)
        return blocks

    return fill


def _scale_setter(ggml_type: GgmlType) -> Callable[[Bytes, float], None]:
    """What overwrites the scales of random blocks, (n, block_bytes), around a given size."""
    if ggml_type is GgmlType.IQ1_M:
        return _set_iq1_m
    if ggml_type is GgmlType.MXFP4:
        return _set_mxfp4
    return lambda blocks, scale: _set_halves(blocks, ggml_type, scale)


def _number_filler(
    rng: np.random.Generator, ggml_type: GgmlType, spread: float
) -> Callable[[int], Bytes]:
    """Values from a table of 65,536 normal ones: ten times as fast as drawing each."""
    drawn = (rng.standard_normal(1 << 16) * spread).astype("<f4")
    if ggml_type is GgmlType.F32:
        table = drawn.view(np.uint8)
    elif ggml_type is GgmlType.F16:
        table = drawn.astype("<f2").view(np.uint8)
    else:  # BF16: the upper half of a float32
        table = drawn.view(np.uint8).reshape(-1, 4)[:, 2:]
    table = np.ascontiguousarray(table).reshape(-1, ggml_type.block_bytes)
    return lambda count: table[rng.integers(0, 1 << 16, count, np.uint16)]


def _random_bytes(rng: np.random.Generator, num_blocks: int, ggml_type: GgmlType) -> Bytes:
    num_bytes = num_blocks * ggml_type.block_bytes
    words = rng.integers(0, 1 << 64, -(-num_bytes // 8), np.uint64)  # faster than `rng.bytes`
    return words.view(np.uint8)[:num_bytes].reshape(num_blocks, ggml_type.block_bytes)


def _signed(random: Bytes, scale: float) -> NDArray[np.float32]:
    """`scale` times something between 1/2 and 1 1/2 in size, of either sign, by a random byte."""
    sizes = np.linspace(0.5, 1.5, 128, dtype=np.float32)
    return np.concatenate([sizes, -sizes])[random] * np.float32(scale)


def _set_halves(blocks: Bytes, ggml_type: GgmlType, scale: float) -> None:
    offset, second_offset, factor = _SCALES[ggml_type]
    d = _signed(blocks[:, offset], scale)
    blocks[:, offset : offset + 2] = _half_bytes(d)
    if second_offset is not None:
        blocks[:, second_offset : second_offset + 2] = _half_bytes(d * np.float32(factor))


def _half_bytes(values: NDArray[np.float32]) -> Bytes:
    return values.astype("<f2").view(np.uint8).reshape(-1, 2)


def _set_iq1_m(blocks: Bytes, scale: float) -> None:
    """The float16 lies in the top nibbles of the four 16-bit words at 48."""
    bits = _signed(blocks[:, 49], scale).astype("<f2").view("<u2")
    for word in range(4):
        nibble = (bits >> (4 * word) & 15).astype(np.uint8)
        blocks[:, 49 + 2 * word] = blocks[:, 49 + 2 * word] & 15 | nibble << 4


def _set_mxfp4(blocks: Bytes, scale: float) -> None:
    """The scale is a power of two; its codes are symmetric, so no sign is needed."""
    exponent = np.log2(scale * 2.0 ** (blocks[:, 0] / 128.0 - 1))  # of 1/2 to 2 times the scale
    blocks[:, 0] = np.clip(np.round(exponent) + 127, 1, 254).astype(np.uint8)
