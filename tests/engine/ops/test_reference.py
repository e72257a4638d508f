"""The reference operations: what the golden data do not reach."""

from __future__ import annotations

import numpy as np
import pytest

from engine.core.ggml_types import GgmlType
from engine.gguf.reader import Tensor
from engine.ops.base import CHUNK_TOKENS, Limits
from engine.ops.reference import ReferenceOps
from engine.ops.reference_delta import delta_chunk, delta_step
from engine.ops.reference_math import rotate, sigmoid, softplus
from engine.ops.weights import HyperConnectionWeights, MoeWeights

RNG = np.random.default_rng(7)


@pytest.fixture
def ops() -> ReferenceOps:
    return ReferenceOps(Limits(max_rows=64, max_window=8, num_slots=1, num_pages=1))


def tensor(*shape: int) -> Tensor:
    values = RNG.standard_normal(shape).astype(np.float32)
    return Tensor("w", GgmlType.F32, shape, values.reshape(-1).view(np.uint8))


def rows(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize(("num_k_heads", "num_v_heads"), [(2, 6), (4, 4)])
@pytest.mark.parametrize("decay_scale", [0.01, 1.0, 30.0])
def test_the_chunked_delta_rule_is_the_recurrence(num_k_heads, num_v_heads, decay_scale):
    c, d = CHUNK_TOKENS, 16
    k = rows(c, num_k_heads, d)
    k /= np.linalg.norm(k, axis=-1, keepdims=True)
    q = rows(c, num_k_heads, d).astype(np.float64) / 4
    v = rows(c, num_v_heads, d)
    decay = (-np.abs(rows(c, num_v_heads)) * decay_scale).astype(np.float32)
    beta = RNG.uniform(0, 1, (c, num_v_heads)).astype(np.float32)
    start = rows(num_v_heads, d, d)

    chunk_state, chunk_out = delta_chunk(start, q, k, v, decay, beta)
    state = start
    for i in range(c):
        state = delta_step(state, k[i], v[i], decay[i], beta[i])
        heads = np.arange(num_v_heads) % num_k_heads  # tiled order
        out = np.einsum("vk,vkd->vd", q[i][heads], state)
        np.testing.assert_allclose(chunk_out[i], out, atol=2e-5)
    np.testing.assert_allclose(chunk_state, state, atol=2e-5)


@pytest.mark.parametrize("count", [1, 2, 5, 16])
def test_a_rows_result_does_not_depend_on_the_other_rows(ops, count):
    hc, H, r, E, F = 3, 40, 7, 9, 24  # noqa: N806  shapes
    mix = HyperConnectionWeights(
        norm=rows(hc, H),
        down=ops.matrix(tensor(r, hc * H)),
        up=ops.matrix(tensor(hc * H, r)),
        inject=ops.matrix(tensor(hc, hc * H)),
        eps=1e-6,
    )
    moe = MoeWeights(
        router=ops.matrix(tensor(E, H)),
        gate=ops.matrix(tensor(E, F, H)),
        up=ops.matrix(tensor(E, F, H)),
        down=ops.matrix(tensor(E, H, F)),
        num_used=4,
        shared_router=rows(H),
        shared_gate=ops.matrix(tensor(F, H)),
        shared_up=ops.matrix(tensor(F, H)),
        shared_down=ops.matrix(tensor(H, F)),
    )
    streams, norm = rows(32, hc, H), rows(H)

    def compute(part: slice) -> list[np.ndarray]:
        n = len(streams[part])
        x, inject = np.zeros((n, H), np.float32), np.zeros((n, hc), np.float32)
        ops.hc_mix(mix, streams[part].copy(), x, inject)
        normed, product = np.zeros_like(x), np.zeros((n, E), np.float32)
        ops.rms_norm(x, norm, 1e-6, normed)
        ops.matmul([moe.router], normed, [product])
        ids, weights = np.zeros((n, 4), np.int32), np.zeros((n, 4), np.float32)
        ops.route(moe, normed, ids, weights)
        y = np.zeros_like(x)
        ops.experts(moe, normed, ids, weights, y)
        ops.shared_expert(moe, normed, y)
        after = streams[part].copy()
        ops.hc_combine(after, inject, y)
        return [x, inject, normed, product, ids, weights, y, after]

    whole = compute(slice(0, 32))
    for start in range(0, 32 - count, 5):
        for got, wanted in zip(compute(slice(start, start + count)), whole, strict=True):
            np.testing.assert_array_equal(got, wanted[start : start + count])


def test_equal_router_probabilities_go_to_the_lower_expert(ops):
    same = Tensor("w", GgmlType.F32, (6, 8), np.ones(48, np.float32).view(np.uint8))
    moe = MoeWeights(
        router=ops.matrix(same),
        gate=ops.matrix(same),
        up=ops.matrix(same),
        down=ops.matrix(same),
        num_used=3,
        shared_router=rows(8),
        shared_gate=ops.matrix(same),
        shared_up=ops.matrix(same),
        shared_down=ops.matrix(same),
    )
    ids, weights = np.zeros((1, 3), np.int32), np.zeros((1, 3), np.float32)
    ops.route(moe, rows(1, 8), ids, weights)
    assert ids.tolist() == [[0, 1, 2]]
    np.testing.assert_allclose(weights, 1 / 3)


def test_matmul_fills_strided_outputs_of_several_matrices(ops):
    first, second, x = tensor(5, 12), tensor(3, 12), rows(4, 12)
    joined = np.zeros((4, 8), np.float32)
    ops.matmul([ops.matrix(first), ops.matrix(second)], x, [joined[:, :5], joined[:, 5:]])
    both = np.concatenate([first.dequantise(), second.dequantise()])
    np.testing.assert_allclose(joined, x @ both.T, rtol=1e-5, atol=1e-5)


def test_gathered_rows_are_the_tables_rows_one_after_another(ops):
    table = tensor(10, 6)
    handle = ops.matrix(table)
    wanted = table.dequantise()
    single, joined = np.zeros((2, 6), np.float32), np.zeros((2, 18), np.float32)
    ops.gather_rows(handle, np.array([9, 0]), single)
    np.testing.assert_array_equal(single, wanted[[9, 0]])
    ops.gather_rows(handle, np.array([[1, 2, 3], [3, 3, 9]]), joined)
    np.testing.assert_array_equal(joined, wanted[[1, 2, 3, 3, 3, 9]].reshape(2, 18))
    assert (handle.rows, handle.columns, handle.count, handle.type) == (10, 6, 1, GgmlType.F32)
    stacked = ops.matrix(tensor(4, 5, 6))
    assert (stacked.rows, stacked.columns, stacked.count) == (5, 6, 4)


def test_extreme_values_do_not_overflow():
    with np.errstate(all="raise", under="ignore"):
        np.testing.assert_array_equal(sigmoid(np.array([-1e4, 0.0, 1e4])), [0, 0.5, 1])
        np.testing.assert_array_equal(softplus(np.array([-1e4, 1e4])), [0, 1e4])


def test_rotation_turns_pairs_half_the_rotated_width_apart():
    x = np.array([[1.0, 2.0, 3.0, 4.0, 5.0]])
    cos, sin = np.array([0.0, 1.0]), np.array([1.0, 0.0])
    np.testing.assert_array_equal(rotate(x, cos, sin), [[-3.0, 2.0, 1.0, 4.0, 5.0]])
