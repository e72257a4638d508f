"""Decoders of the IQ formats of 256 values: rows of a codebook, signs and scales (spec section 8).

The codebooks lie in `codebooks.npz`, made by `tools/make_codebooks.py`: `<TYPE>_grid` int8 (rows, 8
or 4) and `signs` uint8 (128), which turns a 7-bit code into 8 sign bits.
"""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from engine.gguf.block_parts import IQ4_VALUES, Bytes, Floats, halves, nibbles, words

_CODEBOOKS = Path(__file__).with_name("codebooks.npz")


def iq4_xs(blocks: Bytes) -> Floats:
    """Bytes d, u16 scales_h, scales_l[4], qs[128]."""
    group = np.arange(8)
    low = blocks[:, 4 + group // 2] >> (4 * (group % 2)).astype(np.uint8) & 15
    high = words(blocks, 2, 1, "<u2") >> (2 * group).astype(np.uint32) & 3
    scale = halves(blocks, 0) * ((low | high << 4).astype(np.float32) - 32)  # (n, 8)
    values = IQ4_VALUES[nibbles(blocks[:, 8:136].reshape(-1, 8, 16))]  # (n, 8, 32)
    return (scale[:, :, None] * values).reshape(-1, 256)


def iq2_xxs(blocks: Bytes) -> Floats:
    """Bytes d, u16 qs[32]: per group of 32 values four codebook rows, then signs and scale."""
    rows = blocks[:, 2:66].reshape(-1, 8, 8)[:, :, :4]
    tail = words(blocks, 2, 16, "<u4")[:, 1::2]  # (n, 8)
    return _signed(
        _scale_and_4bit(blocks, tail >> np.uint32(28), 0.25)[:, :, None],
        _grid("IQ2_XXS")[rows],
        _packed_signs(tail),
    )


def iq2_xs(blocks: Bytes) -> Floats:
    """Bytes d, u16 qs[32], scales[8]: a 9-bit row and a 7-bit sign code for 8 values."""
    q = words(blocks, 2, 32, "<u2").reshape(-1, 8, 4)
    scale = _scale_and_4bit(blocks, _nibble_pairs(blocks[:, 66:74]), 0.25)
    return _signed(scale, _grid("IQ2_XS")[q & 511], _signs()[q >> 9])


def iq2_s(blocks: Bytes) -> Floats:
    """Bytes d, qs[32], signs[32], qh[8], scales[8]."""
    shift = np.array([0, 2, 4, 6], np.uint8)
    high = (blocks[:, 66:74, None] >> shift & 3).astype(np.uint32)  # (n, 8, 4)
    rows = blocks[:, 2:34].reshape(-1, 8, 4) | high << 8
    scale = _scale_and_4bit(blocks, _nibble_pairs(blocks[:, 74:82]), 0.25)
    return _signed(scale, _grid("IQ2_S")[rows], blocks[:, 34:66].reshape(-1, 8, 4))


def iq3_xxs(blocks: Bytes) -> Floats:
    """Bytes d, qs[64], 8 u32 of signs and scale; a row has 4 values."""
    tail = words(blocks, 66, 8, "<u4")
    grid = _grid("IQ3_XXS")[blocks[:, 2:66]].reshape(-1, 8, 4, 8)  # two rows are 8 values
    scale = _scale_and_4bit(blocks, tail >> np.uint32(28), 0.5)[:, :, None]
    return _signed(scale, grid, _packed_signs(tail))


def iq3_s(blocks: Bytes) -> Floats:
    """Bytes d, qs[64], qh[8], signs[32], scales[4]; a row has 4 values."""
    high = np.unpackbits(blocks[:, 66:74], axis=1, bitorder="little").astype(np.uint32)
    grid = _grid("IQ3_S")[blocks[:, 2:66] | high << 8].reshape(-1, 8, 4, 8)
    s = _nibble_pairs(blocks[:, 106:110])[:, :, ::2].reshape(-1, 8)
    scale = halves(blocks, 0) * (1 + 2 * s.astype(np.float32))  # (n, 8)
    return _signed(scale[:, :, None], grid, blocks[:, 74:106].reshape(-1, 8, 4))


def iq1_s(blocks: Bytes) -> Floats:
    """Bytes d, qs[32], u16 qh[8]; values -1, 0, 1 and a shift of an eighth."""
    qh = words(blocks, 34, 8, "<u2")
    high = qh[:, :, None] >> np.array([0, 3, 6, 9], np.uint32) & 7
    rows = blocks[:, 2:34].reshape(-1, 8, 4) | high << 8
    scale = halves(blocks, 0) * (2 * (qh >> 12 & 7) + 1).astype(np.float32)  # (n, 8)
    delta = np.where(qh & 0x8000, np.float32(-0.125), np.float32(0.125))
    values: Floats = scale[:, :, None, None] * (_grid("IQ1_S")[rows] + delta[:, :, None, None])
    return values.reshape(-1, 256)


def iq1_m(blocks: Bytes) -> Floats:
    """Bytes qs[32], qh[16], scales[8], whose top nibbles are the float16 scale d."""
    packed = words(blocks, 48, 4, "<u2")  # (n, 4)
    d_bits = (packed >> 12 << np.array([0, 4, 8, 12], np.uint32)).sum(axis=1)
    d = d_bits.astype(np.uint16).view(np.float16).astype(np.float32)  # (n,)
    s = packed[:, :, None] >> np.array([0, 3, 6, 9], np.uint32) & 7  # (n, 4, 4)
    scale = d[:, None] * (2 * s + 1).reshape(-1, 16).astype(np.float32)  # one for 16 values
    qh = blocks[:, 32:48, None] >> np.array([0, 4], np.uint8) & 15  # (n, 16, 2)
    rows = blocks[:, :32].reshape(-1, 16, 2) | (qh & 7).astype(np.uint32) << 8
    delta = np.where(qh & 8, np.float32(-0.125), np.float32(0.125))
    shifted = _grid("IQ1_S")[rows] + delta[:, :, :, None]  # (n, 16, 2, 8)
    values: Floats = scale[:, :, None, None] * shifted
    return values.reshape(-1, 256)


@functools.cache
def _codebook(name: str) -> NDArray[np.generic]:
    with np.load(_CODEBOOKS, allow_pickle=False) as codebooks:
        table: NDArray[np.generic] = codebooks[name]
    return table


@functools.cache
def _grid(name: str) -> Floats:
    return _codebook(name + "_grid").astype(np.float32)


def _signs() -> Bytes:
    return _codebook("signs").astype(np.uint8)


def _packed_signs(tail: NDArray[np.uint32]) -> Bytes:
    """The four 7-bit sign codes at the bottom of each word, as sign bits: (n, 8, 4)."""
    signs: Bytes = _signs()[tail[:, :, None] >> np.array([0, 7, 14, 21], np.uint32) & 127]
    return signs


def _nibble_pairs(scales: Bytes) -> NDArray[np.uint8]:
    """(n, k) bytes to (n, k, 4): the low nibble for the subs 0 and 1, the high one for 2 and 3."""
    return np.repeat(np.stack([scales & 15, scales >> 4], axis=2), 2, axis=2)


def _scale_and_4bit(blocks: Bytes, s: NDArray[np.unsignedinteger], unit: float) -> Floats:
    """The scale d * (0.5 + s) * unit, in the shape of `s`, (n, 8) or (n, 8, 4)."""
    d = halves(blocks, 0).reshape((-1,) + (1,) * (s.ndim - 1))
    return d * (np.float32(0.5) + s.astype(np.float32)) * np.float32(unit)


def _signed(scale: Floats, grid: Floats, signs: NDArray[np.unsignedinteger]) -> Floats:
    """Scale (n, 8, 1 or 4) * grid (n, 8, 4, 8) with the signs (n, 8, 4), bit j for value j."""
    bits = np.unpackbits(signs.astype(np.uint8)[..., None], axis=-1, bitorder="little")
    values: Floats = scale[..., None] * grid * (1 - 2 * bits.astype(np.float32))
    return values.reshape(-1, 256)
