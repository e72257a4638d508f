"""The kernels at the sizes of the real model (spec section 2): launches, shared memory and groupings fit it."""

from __future__ import annotations

import numpy as np
import pytest

from engine.core.ggml_types import GgmlType
from engine.device.emulated import EmulatedDevice
from engine.ops.base import Limits
from engine.ops.best_logits import MOST_CANDIDATES, ROW_WORDS, BestRows
from engine.ops.check_cases import MixCase, error_of
from engine.ops.check_inputs import Inputs, SequenceRows, kv_pool, make_plan
from engine.ops.check_sequences import (
    AttentionCase,
    AttentionSizes,
    DeltaCase,
    DeltaSizes,
    PleCase,
    PleSizes,
)
from engine.ops.cuda_sampling import CudaSampling
from engine.ops.reference import ReferenceOps
from tests.support.cuda_mixers import MixerOps

pytestmark = pytest.mark.slow

LIMITS = Limits(max_rows=32, max_window=8, num_slots=3, num_pages=400)
REFERENCE = ReferenceOps(LIMITS)


@pytest.fixture
def ops(mixer_card: EmulatedDevice) -> MixerOps:
    return MixerOps(LIMITS, mixer_card)


@pytest.mark.parametrize(("ggml_type", "bound"), [(GgmlType.Q8_0, 0.02), (GgmlType.BF16, 1e-5)])
def test_residual_mix(ops: MixerOps, ggml_type: GgmlType, bound: float):
    case = MixCase(ggml_type, 4, 2560, 320)
    few = case.run(ops, [1, 4])
    assert error_of(few, case.run(REFERENCE, [5])) < bound


def test_delta_net(ops: MixerOps):
    case = DeltaCase(DeltaSizes(16, 48, 128, 4), num_rows=20)
    whole = case.run(ops, [20])  # a block for 32 columns
    assert error_of(whole, case.run(REFERENCE, [20])) < 2e-5  # of 120,000 sums of float32
    cut = case.run(ops, [1, 3, 16])  # a block for a head
    assert all(value.tobytes() == cut[name].tobytes() for name, value in whole.items())


def test_n_gram_layer(ops: MixerOps):
    case = PleCase(PleSizes(4, 2560, 4, 3))
    assert error_of(case.run(ops, [3, 9]), case.run(REFERENCE, [12])) < 1e-5


@pytest.mark.parametrize("dtype", [np.float16, np.int8])
def test_attention_beyond_its_budget(ops: MixerOps, dtype: type):
    s = AttentionSizes(24, 2, 256, 4, 128, 64, 4, 512, 64)
    seen, rows = 2301, 18  # tokens before, of which 2048 and the tail are attended to
    case = AttentionCase(s, num_rows=rows)
    random = Inputs(4)
    shapes = (20, 256, 4, 2, 256, 128)
    pool, decoded = kv_pool(*shapes, np.float16), kv_pool(*shapes, np.float32)
    for name in ("keys", "values"):
        values = random.normal(*pool.keys.shape)
        if dtype is np.int8:
            scales = np.abs(values).max(axis=-1) / np.float32(127)
            numbers = np.rint(values / scales[..., None]).astype(np.int8)
            setattr(pool, name, numbers)
            setattr(pool, name[:-1] + "_scales", scales)
            setattr(decoded, name, numbers * scales[..., None])
        else:
            setattr(pool, name, values.astype(np.float16))
            setattr(decoded, name, values.astype(np.float16).astype(np.float32))
    pool.index_pooled[...] = random.normal(*pool.index_pooled.shape)
    decoded.index_pooled[...] = pool.index_pooled
    plan = make_plan(
        [SequenceRows(0, 0, seen, rows)], rope_dim=64, block_ratio=4, pages_per_sequence=10
    )
    plan.page_table[...] = np.random.default_rng(2).permutation(20)[:10]
    results = []
    for on, pages in ((REFERENCE, decoded), (ops, pool)):
        out = np.zeros((rows, 24 * 256), np.float32)
        selected = np.zeros((rows, 512), np.int32)
        on.attention(case._weights(on), pages, plan, case.q, case.index_q, out, selected)
        results.append({"out": out, "selected": selected})
    assert error_of(results[1], results[0]) < 1e-5

    last = make_plan(  # few rows: parts in blocks of their own
        [SequenceRows(0, 0, seen + rows - 2, 2)], rope_dim=64, block_ratio=4, pages_per_sequence=10
    )
    last.page_table[...] = plan.page_table
    out = np.zeros((2, 24 * 256), np.float32)
    ops.attention(case._weights(ops), pool, last, case.q[-2:], case.index_q[-2:], out, None)
    assert out.tobytes() == results[1]["out"][-2:].tobytes()


def test_candidates(ops: MixerOps):
    logits = np.random.default_rng(3).standard_normal((2, 248_320)).astype(np.float32) * 4
    space = ops.launcher.space
    bests = space.empty((2, ROW_WORDS), np.int32)
    CudaSampling(ops.launcher).candidates(space.upload(logits), bests)
    rows = BestRows(bests.numpy())
    wanted = np.argsort(-logits, axis=1, kind="stable")[:, :MOST_CANDIDATES]
    np.testing.assert_array_equal([rows.row(r).ids for r in range(2)], wanted)
    exact = np.log(np.exp(logits.astype(np.float64)).sum(axis=1))
    np.testing.assert_allclose([rows.row(r).log_sum for r in range(2)], exact, rtol=1e-6)
