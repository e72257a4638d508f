"""The few functions that the reference operations share, in float64 (spec section 1)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Float64Array = npt.NDArray[np.float64]
AnyFloatArray = npt.NDArray[np.floating]


def sigmoid(x: AnyFloatArray) -> Float64Array:
    """1 / (1 + e^-x), without overflow for large negative x."""
    wide = np.asarray(x, np.float64)
    small = np.exp(-np.abs(wide))
    return np.where(wide >= 0, 1.0, small) / (1.0 + small)


def silu(x: AnyFloatArray) -> Float64Array:
    """SiLU: x * sigmoid(x)."""
    wide = np.asarray(x, np.float64)
    return wide * sigmoid(wide)


def softplus(x: AnyFloatArray) -> Float64Array:
    """ln(1 + e^x)."""
    return np.logaddexp(0.0, np.asarray(x, np.float64))


def rms(x: AnyFloatArray, weight: AnyFloatArray, eps: float) -> Float64Array:
    """RMS norm over the last axis, x / sqrt(mean(x^2) + eps) * weight, with the folded weight."""
    wide = np.asarray(x, np.float64)
    mean_square = np.mean(wide * wide, axis=-1, keepdims=True)
    normed: Float64Array = wide / np.sqrt(mean_square + eps) * weight
    return normed


def grouped_rms(streams: AnyFloatArray, weight: AnyFloatArray, eps: float) -> Float64Array:
    """`rms` of each stream with its own weight; both `[hc, H]`."""
    return rms(streams, weight, eps)


def l2_normalise(x: AnyFloatArray) -> Float64Array:
    """L2 norm over the last axis, x / sqrt(sum(x^2) + 1e-6) (spec 4.4; eps inside the root)."""
    wide = np.asarray(x, np.float64)
    normed: Float64Array = wide / np.sqrt(np.sum(wide * wide, axis=-1, keepdims=True) + 1e-6)
    return normed


def rotate(x: AnyFloatArray, cos: AnyFloatArray, sin: AnyFloatArray) -> Float64Array:
    """Rotate the pairs (d, d + n/2) of the first n dims of each head (spec 4.5).

    Args:
        x: `[heads, dim]`.
        cos: `[n / 2]`.
        sin: `[n / 2]`.
    """
    half = len(cos)
    out = np.array(x, np.float64)
    a, b = out[:, :half].copy(), out[:, half : 2 * half].copy()
    out[:, :half] = a * cos - b * sin
    out[:, half : 2 * half] = b * cos + a * sin
    return out
