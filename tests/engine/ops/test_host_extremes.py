"""Host operations on extreme values: where integers could saturate, floats vanish, and scores tie."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from engine.core.ggml_types import GgmlType
from engine.gguf.reader import Tensor
from engine.kernels.library import load_library
from engine.ops.base import Limits
from engine.ops.check_cases import MixCase, error_of
from engine.ops.check_inputs import Inputs, SequenceRows, kv_pool, make_plan
from engine.ops.check_sequences import AttentionCase, AttentionSizes
from engine.ops.host import HostOps
from engine.ops.weights import MoeWeights
from tests.support.extreme_tensors import (
    QUANTISED_FORMATS,
    assert_bad_values_are_not_hidden,
    assert_scales_are_kept,
    even_rows,
    filled_tensor,
    product,
)

LIMITS = Limits(max_rows=64, max_window=8, num_slots=3, num_pages=200)


@pytest.fixture(scope="module", params=load_library().variants)
def host(request) -> Iterator[HostOps]:
    ops = HostOps(LIMITS, request.param)
    yield ops
    ops.close()


@pytest.mark.parametrize("byte", [0x00, 0x7F, 0x80, 0x88, 0xFF])
@pytest.mark.parametrize("ggml_type", QUANTISED_FORMATS, ids=lambda t: t.name)
def test_extreme_weights_and_activations_do_not_saturate(host: HostOps, ggml_type, byte: int):
    columns = 768
    tensor = filled_tensor(ggml_type, byte, columns)
    x = even_rows(columns)
    wanted = x @ tensor.dequantise().astype(np.float64).T
    assert np.abs(product(host, tensor, x) - wanted).max() <= 1e-5 * np.abs(wanted).max()


@pytest.mark.parametrize("ggml_type", QUANTISED_FORMATS, ids=lambda t: t.name)
def test_tiny_and_huge_activations_keep_their_scale(host: HostOps, ggml_type: GgmlType):
    assert_scales_are_kept(host, ggml_type)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_values_that_are_no_numbers_stay_in_their_row(host: HostOps, bad: float):
    inputs = Inputs(5)
    for ggml_type in (GgmlType.Q8_0, GgmlType.F32, GgmlType.Q4_K):
        tensor = inputs.tensor(ggml_type, 9, 512)
        x = inputs.normal(3, 512)
        alone = product(host, tensor, x)
        x[1, 77] = bad
        together = product(host, tensor, x)
        np.testing.assert_array_equal(together[[0, 2]], alone[[0, 2]])


@pytest.mark.parametrize("num_rows", [1, 2, 4, 7])
def test_a_scale_that_is_no_number_stays_in_its_matrix_row(host: HostOps, num_rows: int):
    """Rows that end inside of 256 values are read together with the beginning of the next one."""
    for ggml_type in (GgmlType.Q8_0, GgmlType.Q4_0, GgmlType.Q5_1):
        tensor = Inputs(8).tensor(ggml_type, 40, 544)
        blocks = tensor.data.reshape(40, -1, ggml_type.block_bytes)
        blocks[[0, 12, 39], 0, :2] = np.array([np.nan], np.float16).view(np.uint8)
        out = product(host, tensor, Inputs(9).normal(num_rows, 544))
        assert np.flatnonzero(np.isnan(out).any(axis=0)).tolist() == [0, 12, 39]


@pytest.mark.parametrize("at", [0, 9, 18, 31, 200, 511])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_value_that_is_no_number_is_not_hidden(host: HostOps, bad: float, at: int):
    assert_bad_values_are_not_hidden(host, bad, at)


def test_gates_saturate_without_overflow(host: HostOps):
    case = MixCase(GgmlType.F32, 2, 32, 16)
    case.streams = np.sign(case.streams) * np.float32(1e15)
    got = case.run(host, [4])
    assert all(np.isfinite(value).all() for value in got.values())


def test_equal_scores_choose_the_lower_blocks(host: HostOps):
    sizes = AttentionSizes(2, 1, 8, 2, 8, 4, 2, 5, 4)
    case = AttentionCase(sizes, num_rows=40)
    case.index_q[:] = 0.0  # every score is 0
    got = case.run(host, [40])
    assert got["selected"][-1].tolist() == [0, 1, 2, 3, 4]
    assert got["selected"][6].tolist() == [0, 1, 2, -1, -1]


def test_the_exact_largest_of_many_scores_are_chosen(host: HostOps):
    # One query of position n - 1 over pooled keys with known scores, several pages apart.
    sizes = AttentionSizes(1, 1, 2, 1, 2, 2, 1, 37, 64)
    num_blocks = 3000
    case = AttentionCase(sizes, num_rows=1)
    weights = case._weights(host)
    pages = -(-(num_blocks + 1) // 64)
    pool = kv_pool(3 * pages, 64, 1, 1, 2, 2, np.float32)
    random = np.random.default_rng(9)
    scores = random.integers(0, 400, num_blocks).astype(np.float32)  # many ties
    plan = make_plan([SequenceRows(1, 0, num_blocks - 1, 1)], rope_dim=2, pages_per_sequence=pages)
    plan.rope_cos[:], plan.rope_sin[:] = 1.0, 0.0
    for block in range(num_blocks):
        page = plan.page_table[0, block // 64]
        pool.index_pooled[page, block % 64] = (scores[block], 0.0)
    case.norms[2][:] = 1.0
    out = np.zeros((1, 2), np.float32)
    selected = np.zeros((1, 37), np.int32)
    index_q = np.array([[3.0, 0.0]], np.float32)
    host.attention(weights, pool, plan, np.ones((1, 4), np.float32), index_q, out, selected)
    wanted = np.sort(np.argsort(-scores, kind="stable")[:37])
    assert selected[0].tolist() == wanted.tolist()


def test_equal_probabilities_choose_the_lower_experts(host: HostOps):
    inputs = Inputs(6)
    router = Tensor("router", GgmlType.F32, (6, 32), np.zeros(6 * 32 * 4, np.uint8))
    matrix = host.matrix(inputs.tensor(GgmlType.F32, 6, 32, 32))
    shared = host.matrix(inputs.tensor(GgmlType.F32, 32, 32))
    weights = MoeWeights(
        host.matrix(router), matrix, matrix, matrix, 3, inputs.normal(32), shared, shared, shared
    )
    ids, chosen = np.zeros((2, 3), np.int32), np.zeros((2, 3), np.float32)
    host.route(weights, inputs.normal(2, 32), ids, chosen)
    assert ids.tolist() == [[0, 1, 2], [0, 1, 2]]
    np.testing.assert_allclose(chosen, 1 / 3, rtol=1e-6)


def map_values(host: HostOps, number: int, x: np.ndarray, out: np.ndarray) -> None:
    """A function of the kernels' own, on all values."""
    context = load_library().create(1, object.__basicsize__)
    function = load_library().operations(host.isa)["map_values"]
    assert function(context, number, id(x), id(out)) == 0
    load_library().destroy(context)


def ulps(got: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Differences in units of the last place of the right float32."""
    return np.abs(got - wanted) / np.spacing(np.abs(wanted).astype(np.float32)).astype(np.float64)


@pytest.mark.parametrize(
    ("number", "function", "bound"),
    [
        (0, np.exp, 1.5),
        (1, lambda x: 1 / (1 + np.exp(-x)), 3.0),
        (2, lambda x: x / (1 + np.exp(-x)), 3.0),
        (3, lambda x: np.where(x > 20, x, np.log1p(np.exp(x))), 4.0),
    ],
    ids=["exp", "sigmoid", "silu", "softplus"],
)
def test_functions_are_accurate_to_a_few_units_in_the_last_place(
    host: HostOps, number: int, function, bound: float
):
    x = np.concatenate(
        [np.linspace(-80, 80, 100_001), np.linspace(-1, 1, 50_001), np.logspace(-30, 0, 5001)]
    ).astype(np.float32)
    out = np.zeros_like(x)
    map_values(host, number, x, out)
    wanted = function(x.astype(np.float64))
    used = np.abs(wanted) > 1e-30
    assert ulps(out.astype(np.float64), wanted)[used].max() < bound


def test_functions_of_infinite_values_are_their_limits(host: HostOps):
    x = np.array([-np.inf, np.inf, np.nan, -200, 200, 0], np.float32)
    out = np.zeros_like(x)
    limits = {
        0: [0, None, np.nan, 0, None, 1],
        1: [0, 1, np.nan, 0, 1, 0.5],
        3: [0, np.inf, np.nan, 0, 200, np.log(2)],
    }
    for number, wanted in limits.items():
        map_values(host, number, x, out)
        for got, want in zip(out.tolist(), wanted, strict=True):
            assert want is None or got == pytest.approx(want, abs=1e-37, rel=1e-6, nan_ok=True)


def test_the_same_rows_twice_give_the_same_bits(host: HostOps):
    case = MixCase(GgmlType.Q8_0, 4, 64, 32)
    first, second = case.run(host, [16]), case.run(host, [16])
    assert error_of(second, first) == 0.0
