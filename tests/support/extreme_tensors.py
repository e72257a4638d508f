"""Matrices and activations of extreme values, for products of every implementation."""

from __future__ import annotations

import numpy as np

from engine.core.ggml_types import GgmlType
from engine.gguf.reader import Tensor
from engine.ops.base import Ops
from engine.ops.check_inputs import Inputs
from engine.ops.host_structs import HOST_FORMATS

QUANTISED_FORMATS = sorted(HOST_FORMATS - {GgmlType.F32, GgmlType.F16, GgmlType.BF16})


def product(ops: Ops, tensor: Tensor, x: np.ndarray) -> np.ndarray:
    """The matrix times the rows of x, `[len(x), rows of the matrix]`."""
    out = np.zeros((len(x), tensor.shape[0]), np.float32)
    ops.matmul([ops.matrix(tensor)], x.astype(np.float32), [out])
    return out


def filled_tensor(ggml_type: GgmlType, byte: int, columns: int) -> Tensor:
    """Two rows of blocks whose bytes are all the same, but for sensible scales."""
    tensor = Inputs(1).tensor(ggml_type, 2, columns)
    scales = tensor.data.reshape(-1, ggml_type.block_bytes)
    raw = np.full_like(scales, byte)
    offsets = {GgmlType.Q6_K: (208,), GgmlType.Q2_K: (80, 82), GgmlType.Q3_K: (108,)}
    two = {GgmlType.Q4_1, GgmlType.Q5_1, GgmlType.Q4_K, GgmlType.Q5_K}
    offsets[GgmlType.IQ1_M] = (48, 50, 52, 54)
    for offset in offsets.get(ggml_type, (0, 2) if ggml_type in two else (0,)):
        raw[:, offset : offset + 2] = scales[:, offset : offset + 2]
    if ggml_type is GgmlType.MXFP4:  # its scale is one byte
        raw[:, 1] = byte
    return Tensor("filled", tensor.type, tensor.shape, raw.reshape(-1))


def even_rows(columns: int) -> np.ndarray:
    """Activations of one size, `[3, columns]`: exactly +-127 steps, so no rounding hides a wrong sum."""
    signs = np.where(np.arange(columns) % 3 == 0, -1.0, 1.0)
    return np.stack([np.ones(columns), -np.ones(columns), signs]) * 2.0


def assert_scales_are_kept(ops: Ops, ggml_type: GgmlType) -> None:
    """Tiny and huge activations give tiny and huge results; what is nothing gives nothing."""
    tensor = Inputs(3).tensor(ggml_type, 5, 512)
    ones = np.where(Inputs(4).random.random(512) < 0.5, -1.0, 1.0)
    plain = product(ops, tensor, ones[None])
    for scale in (2.0**-90, 2.0**90):
        np.testing.assert_array_equal(product(ops, tensor, ones[None] * scale), plain * scale)
    assert not product(ops, tensor, np.zeros((1, 512))).any()
    assert not product(ops, tensor, np.full((1, 512), 1e-38)).any()


def assert_bad_values_are_not_hidden(ops: Ops, bad: float, at: int) -> None:
    """A maximum drops NaN; a damaged file would then give finite nonsense instead of an error."""
    for ggml_type in (GgmlType.Q8_0, GgmlType.Q4_K, GgmlType.IQ2_XS):
        tensor = Inputs(6).tensor(ggml_type, 9, 512)
        x = Inputs(7).normal(1, 512)
        x[0, at] = bad
        assert not np.isfinite(product(ops, tensor, x)).any()
