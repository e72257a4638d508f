"""Product kernels on extreme values: where integers could saturate, floats vanish, and what is no number."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from engine.core.ggml_types import GgmlType
from engine.device.array import DeviceArray
from engine.device.emulated import EmulatedDevice
from engine.ops.check_inputs import Inputs
from engine.ops.cuda_matrix import CudaMatrix
from tests.support.cuda_products import ProductOps, product_files
from tests.support.extreme_tensors import (
    QUANTISED_FORMATS,
    assert_bad_values_are_not_hidden,
    assert_scales_are_kept,
    even_rows,
    filled_tensor,
    product,
)

NUM_MANY = 17  # rows from which tensor cores compute

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def card() -> Iterator[EmulatedDevice]:
    device = EmulatedDevice()
    device.load_kernels(product_files())
    yield device
    device.close()


@pytest.fixture
def ops(card: EmulatedDevice) -> ProductOps:
    return ProductOps(card)


@pytest.mark.parametrize("byte", [0x00, 0x7F, 0x80, 0x88, 0xFF])
@pytest.mark.parametrize("ggml_type", QUANTISED_FORMATS, ids=lambda t: t.name)
def test_extreme_weights_and_activations_do_not_saturate(ops: ProductOps, ggml_type, byte: int):
    columns = 768
    tensor = filled_tensor(ggml_type, byte, columns)
    x = np.tile(even_rows(columns), (6, 1))
    wanted = x @ tensor.dequantise().astype(np.float64).T
    bound = 1e-5 * np.abs(wanted).max()
    assert np.abs(product(ops, tensor, x) - wanted).max() <= bound  # tensor cores
    assert np.abs(product(ops, tensor, x[:3]) - wanted[:3]).max() <= bound


@pytest.mark.parametrize("ggml_type", QUANTISED_FORMATS, ids=lambda t: t.name)
def test_random_blocks_are_decoded_exactly(ops: ProductOps, ggml_type: GgmlType):
    tensor = Inputs(2).tensor(ggml_type, 3, 512)
    signs = np.where(Inputs(3).random.random((1, 512)) < 0.5, -1.0, 1.0)
    wanted = signs @ tensor.dequantise().astype(np.float64).T
    assert np.abs(product(ops, tensor, signs) - wanted).max() <= 2e-6 * np.sqrt(512)


@pytest.mark.parametrize("ggml_type", QUANTISED_FORMATS, ids=lambda t: t.name)
def test_rows_of_a_table_are_decoded_as_the_format_says(ops: ProductOps, ggml_type: GgmlType):
    tensor = Inputs(8).tensor(ggml_type, 7, 512)
    rows = np.array([3, 0, 6, 3], np.int64)
    out = np.zeros((4, 512), np.float32)
    ops.gather_rows(ops.matrix(tensor), rows, out)
    wanted = tensor.dequantise()[rows]
    np.testing.assert_allclose(out, wanted, rtol=3e-7, atol=1e-8)


@pytest.mark.parametrize("ggml_type", QUANTISED_FORMATS, ids=lambda t: t.name)
def test_tiny_and_huge_activations_keep_their_scale(ops: ProductOps, ggml_type: GgmlType):
    assert_scales_are_kept(ops, ggml_type)


@pytest.mark.parametrize("num_rows", [3, NUM_MANY])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_values_that_are_no_numbers_stay_in_their_row(ops: ProductOps, bad: float, num_rows: int):
    inputs = Inputs(5)
    others = [r for r in range(num_rows) if r != 1]
    for ggml_type in (GgmlType.Q8_0, GgmlType.F32, GgmlType.Q4_K):
        tensor = inputs.tensor(ggml_type, 9, 512)
        x = inputs.normal(num_rows, 512)
        alone = product(ops, tensor, x)
        x[1, 77] = bad
        together = product(ops, tensor, x)
        np.testing.assert_array_equal(together[others], alone[others])
        assert not np.isfinite(together[1]).any()


@pytest.mark.parametrize("at", [0, 9, 18, 31, 200, 511])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_value_that_is_no_number_is_not_hidden(ops: ProductOps, bad: float, at: int):
    assert_bad_values_are_not_hidden(ops, bad, at)


@pytest.mark.parametrize("columns", [32, 96, 1056, 4096, 4128, 8192, 8224, 10240])
def test_every_number_of_lanes_gives_the_same_bits_with_and_without_tensor_cores(
    ops: ProductOps, columns: int
):
    for ggml_type in (GgmlType.Q8_0, GgmlType.MXFP4, GgmlType.Q4_1):
        tensor, x = Inputs(10).tensor(ggml_type, 5, columns), Inputs(11).normal(NUM_MANY, columns)
        whole = product(ops, tensor, x)
        parts = [
            product(ops, tensor, x[cut]) for cut in (slice(1), slice(1, 4), slice(4, NUM_MANY))
        ]
        assert np.concatenate(parts).tobytes() == whole.tobytes()
        wanted = x.astype(np.float64) @ tensor.dequantise().astype(np.float64).T
        assert np.abs(whole - wanted).max() <= 0.05 * np.sqrt(np.mean(wanted**2))


@pytest.mark.parametrize("num_rows", [1, NUM_MANY])
@pytest.mark.parametrize("ggml_type", QUANTISED_FORMATS, ids=lambda t: t.name)
def test_nothing_is_read_behind_the_last_16_bytes_of_a_matrix(
    ops: ProductOps, ggml_type: GgmlType, num_rows: int
):
    columns = ggml_type.block_values
    tensor, x = Inputs(12).tensor(ggml_type, 256, columns), Inputs(13).normal(num_rows, columns)
    device, space = ops.launcher.device, ops.space
    data = np.zeros(-(-tensor.data.size // 16) * 16, np.uint8)
    data[: tensor.data.size] = tensor.data.reshape(-1)
    memory = device.alloc(
        data.size
    )  # 256 rows are a multiple of 256 bytes: behind is a page without access
    matrix = CudaMatrix(tensor, None)
    matrix.data = DeviceArray(space, memory.address, data.shape, data.dtype, memory)
    matrix.data[...] = data
    out = space.empty((num_rows, 256))
    ops.products.matmul([matrix], space.upload(x), [out])
    assert out.numpy().tobytes() == product(ops, tensor, x).tobytes()
