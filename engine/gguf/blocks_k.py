"""Decoders of the K formats: blocks of 256 values with quantised scales (spec section 8).

The order of the float operations is part of the definition: results must be equal bit for bit.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from engine.gguf.block_parts import Bytes, Floats, halves, nibbles


def q2_k(blocks: Bytes) -> Floats:
    """Bytes scales[16], qs[64], d, dmin."""
    scales = blocks[:, :16]
    d, dmin = halves(blocks, 80), halves(blocks, 82)
    scale = d * (scales & 15).astype(np.float32)  # (n, 16 groups)
    minimum = dmin * (scales >> 4).astype(np.float32)
    q = _two_bit_planes(blocks[:, 16:80]).astype(np.float32)  # (n, 16, 16)
    return (scale[:, :, None] * q - minimum[:, :, None]).reshape(-1, 256)


def q3_k(blocks: Bytes) -> Floats:
    """Bytes hmask[32], qs[64], scales[12], d."""
    hmask, packed = blocks[:, :32], blocks[:, 96:108]
    group = np.arange(16)
    low = nibbles(packed[:, :8])  # (n, 16): low nibbles for groups 0-7, high ones for 8-15
    high = packed[:, 8 + group % 4] >> (2 * (group // 4)).astype(np.uint8) & 3
    scales = (low | high << 4).astype(np.float32) - 32
    # bit 4h + p of hmask[16 s + l] belongs to value (h, p, s, l)
    bits = hmask[:, None, :] >> np.arange(8, dtype=np.uint8)[:, None] & 1  # (n, 8 planes, 32)
    q = _two_bit_planes(blocks[:, 32:96]).astype(np.float32)  # (n, 16, 16)
    q -= 4 * (1 - bits.reshape(-1, 16, 16).astype(np.float32))
    return ((halves(blocks, 108) * scales)[:, :, None] * q).reshape(-1, 256)


def q4_k(blocks: Bytes) -> Floats:
    """Bytes d, dmin, scales[12], qs[128]."""
    return _scaled(blocks, _chunk_nibbles(blocks[:, 16:144]))


def q5_k(blocks: Bytes) -> Floats:
    """Bytes d, dmin, scales[12], qh[32], qs[128]."""
    qh = blocks[:, None, 16:48]
    fifth = qh >> np.arange(8, dtype=np.uint8)[:, None] & np.uint8(1)  # (n, 8, 32)
    return _scaled(blocks, _chunk_nibbles(blocks[:, 48:176]) | fifth << np.uint8(4))


def q6_k(blocks: Bytes) -> Floats:
    """Bytes ql[128], qh[64], int8 scales[16], d."""
    ql = blocks[:, :128].reshape(-1, 2, 64)  # (n, halves, 64)
    low = np.concatenate([ql & 15, ql >> 4], axis=2).reshape(-1, 2, 4, 32)
    qh = blocks[:, 128:192].reshape(-1, 2, 1, 32)
    high = qh >> np.array([0, 2, 4, 6], np.uint8)[:, None] & 3  # (n, 2, 4, 32)
    q = (low | high << 4).astype(np.float32) - 32
    scales = blocks[:, 192:208].view(np.int8).astype(np.float32)
    scale: Floats = halves(blocks, 208) * scales  # (n, 16)
    values: Floats = scale[:, :, None] * q.reshape(-1, 16, 16)
    return values.reshape(-1, 256)


def unpack_scales(packed: Bytes) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """The 8 scales and 8 minima of 6 bits in the 12 bytes of Q4_K and Q5_K: (n, 8) each."""
    a, b, c = packed[:, 0:4], packed[:, 4:8], packed[:, 8:12]
    scales = np.concatenate([a & 63, c & 15 | a >> 6 << 4], axis=1)
    minima = np.concatenate([b & 63, c >> 4 | b >> 6 << 4], axis=1)
    return scales, minima


def _two_bit_planes(qs: Bytes) -> Bytes:
    """64 bytes to 16 groups of 16: half h, plane p, part s is (qs[32h + 16s + l] >> 2p) & 3."""
    planes = qs.reshape(-1, 2, 1, 32) >> np.array([0, 2, 4, 6], np.uint8)[:, None]
    return (planes & np.uint8(3)).reshape(-1, 16, 16)


def _chunk_nibbles(qs: Bytes) -> Bytes:
    """128 bytes to (n, 8, 32): chunk c of 32 bytes gives its low nibbles, then its high ones."""
    return nibbles(qs.reshape(-1, 4, 32)).reshape(-1, 8, 32)


def _scaled(blocks: Bytes, q: Bytes) -> Floats:
    scales, minima = unpack_scales(blocks[:, 4:16])
    scale = halves(blocks, 0) * scales.astype(np.float32)  # (n, 8)
    minimum = halves(blocks, 2) * minima.astype(np.float32)
    return (scale[:, :, None] * q.astype(np.float32) - minimum[:, :, None]).reshape(-1, 256)
