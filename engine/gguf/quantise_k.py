"""The quantiser of Q4_K: 256 values as 8 groups of 32, each x = scale*q - minimum with q in 0..15.

The 8 scales and 8 minima (never negative) are themselves 6-bit multiples of two float16 numbers
d and dmin. First scale and minimum of each group are fitted freely, then they are rounded to what
the block can hold, then every q is chosen anew for the rounded ones.
"""

from __future__ import annotations

import numpy as np

from engine.gguf.block_parts import Bytes, Floats


def q4_k(blocks: Floats) -> Bytes:
    """Raw blocks, (num_blocks, 144) uint8, of (num_blocks, 256) float32 up to 65504."""
    groups = blocks.reshape(-1, 8, 32)
    with np.errstate(under="ignore"):
        scale, minimum = _fit_groups(groups)  # (num_blocks, 8) each
        d, scale_codes = _six_bits(scale)
        dmin, minimum_codes = _six_bits(minimum)
        scale = d[:, None] * scale_codes
        minimum = dmin[:, None] * minimum_codes
        q = _levels(groups, scale, minimum).astype(np.uint8)
    return np.concatenate(
        [
            d.astype("<f2").view(np.uint8).reshape(-1, 2),
            dmin.astype("<f2").view(np.uint8).reshape(-1, 2),
            pack_scales(scale_codes.astype(np.uint8), minimum_codes.astype(np.uint8)),
            (q[:, 0::2] | q[:, 1::2] << np.uint8(4)).reshape(-1, 128),
        ],
        axis=1,
    )


def pack_scales(scales: Bytes, minima: Bytes) -> Bytes:
    """The 12 bytes that hold 8 scales and 8 minima of 6 bits, (num_blocks, 8) each."""
    low, six = np.uint8(15), np.uint8(6)
    first = scales[:, :4] | scales[:, 4:] >> np.uint8(4) << six
    second = minima[:, :4] | minima[:, 4:] >> np.uint8(4) << six
    third = scales[:, 4:] & low | (minima[:, 4:] & low) << np.uint8(4)
    return np.concatenate([first, second, third], axis=1)


def _fit_groups(groups: Floats) -> tuple[Floats, Floats]:
    """Scale and minimum of each group, (num_blocks, 8), found by trying ranges and least squares."""
    lowest = np.minimum(groups.min(axis=2), 0)
    span = groups.max(axis=2) - lowest
    best_scale = np.maximum(span / np.float32(15), 0)
    best_minimum = -lowest
    best_error = _error(groups, best_scale, best_minimum)
    for steps in (13.6, 14.1, 14.6, 15.1, 15.6, 16.1):
        scale, minimum = span / np.float32(steps), -lowest
        for _ in range(2):
            scale, minimum = _least_squares(groups, _levels(groups, scale, minimum))
            error = _error(groups, scale, minimum)
            better = error < best_error
            best_scale = np.where(better, scale, best_scale)
            best_minimum = np.where(better, minimum, best_minimum)
            best_error = np.where(better, error, best_error)
    return best_scale, best_minimum


def _least_squares(groups: Floats, q: Floats) -> tuple[Floats, Floats]:
    """Scale > 0 and minimum >= 0 that bring scale*q - minimum nearest to `groups`."""
    mean_q, mean_x = q.mean(axis=2), groups.mean(axis=2)
    covariance = ((q - mean_q[..., None]) * (groups - mean_x[..., None])).sum(axis=2)
    variance = np.square(q - mean_q[..., None]).sum(axis=2)
    scale = np.maximum(covariance, 0) / np.where(variance > 0, variance, 1)
    minimum = scale * mean_q - mean_x
    # A minimum may not be negative: without one, the scale is that of x = scale*q.
    squares = np.square(q).sum(axis=2)
    alone = np.maximum((q * groups).sum(axis=2), 0) / np.where(squares > 0, squares, 1)
    return np.where(minimum < 0, alone, scale), np.maximum(minimum, 0)


def _levels(groups: Floats, scale: Floats, minimum: Floats) -> Floats:
    """The nearest q in 0..15 for each value."""
    inverse = np.divide(1, scale, out=np.zeros_like(scale), where=scale > 1e-30)
    scaled: Floats = (groups + minimum[..., None]) * inverse[..., None]
    return np.clip(np.rint(scaled), 0, 15)


def _error(groups: Floats, scale: Floats, minimum: Floats) -> Floats:
    decoded: Floats = scale[..., None] * _levels(groups, scale, minimum) - minimum[..., None]
    difference: Floats = groups - decoded
    error: Floats = (difference * difference).sum(axis=2)
    return error


def _six_bits(values: Floats) -> tuple[Floats, Floats]:
    """Values >= 0, (num_blocks, 8), as a float16 number times codes 0..63."""
    unit = (values.max(axis=1) / np.float32(63)).astype(np.float16).astype(np.float32)
    inverse = np.divide(1, unit, out=np.zeros_like(unit), where=unit != 0)
    return unit, np.clip(np.rint(values * inverse[:, None]), 0, 63)
