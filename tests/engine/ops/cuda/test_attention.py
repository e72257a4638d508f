"""Sparse attention on the emulated card: long rows, odd page tables, int8 pages, far pages, ties."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from engine.device.emulated import EmulatedDevice
from engine.ops.base import Limits
from engine.ops.check_cases import Results, error_of, slices
from engine.ops.check_inputs import SequenceRows, kv_pool, make_plan
from engine.ops.check_sequences import AttentionCase, AttentionSizes
from engine.ops.cuda_launch import pointer
from engine.ops.cuda_structs import AttentionSizesStruct, pass_struct
from engine.ops.plan import PassPlan
from engine.ops.pools import KvPool
from engine.ops.reference import ReferenceOps
from engine.ops.weights import AttentionWeights
from tests.support.cuda_mixers import MixerOps

LIMITS = Limits(max_rows=64, max_window=8, num_slots=3, num_pages=400)
SLOT = 1


@pytest.fixture
def ops(mixer_card: EmulatedDevice) -> MixerOps:
    return MixerOps(LIMITS, mixer_card)


class ShuffledCase(AttentionCase):
    """A sequence whose pages, and those of others, lie in no order."""

    def _plan(self, sequences: list[SequenceRows]) -> PassPlan:
        plan = super()._plan(sequences)
        page_tokens = self.sizes.ratio * self.sizes.page_blocks
        pages = 3 * -(-self.num_rows // page_tokens)
        plan.page_table[...] = np.random.default_rng(5).permutation(pages)[plan.page_table]
        return plan

    def weights(self, ops: ReferenceOps) -> AttentionWeights:
        return self._weights(ops)

    def plan(self, part: slice) -> PassPlan:
        return self._plan([SequenceRows(SLOT, 0, part.start, part.stop - part.start)])

    def pool(self, dtype: type, index_dtype: type) -> KvPool:
        s = self.sizes
        page_tokens = s.ratio * s.page_blocks
        pages = 3 * -(-self.num_rows // page_tokens)
        sizes = (pages, page_tokens, s.ratio, s.kv_heads, s.head_dim, s.index_dim)
        pool, index = kv_pool(*sizes, dtype), kv_pool(*sizes, index_dtype)
        pool.index_raw, pool.index_pooled = index.index_raw, index.index_pooled
        if dtype is np.int8:
            pool.key_scales = np.zeros(pool.keys.shape[:3], np.float32)
            pool.value_scales = np.zeros(pool.keys.shape[:3], np.float32)
        return pool

    def advance(self, ops: ReferenceOps, pool: KvPool, part: slice) -> Results:
        """Append the rows and attend with them."""
        weights, plan = self.weights(ops), self.plan(part)
        ops.attention_append(weights, pool, plan, self.k[part], self.v[part], self.index_k[part])
        return self.attend(ops, pool, part)

    def attend(self, ops: ReferenceOps, pool: KvPool, part: slice) -> Results:
        weights, plan, s = self.weights(ops), self.plan(part), self.sizes
        rows = part.stop - part.start
        out = np.zeros((rows, s.heads * s.head_dim), np.float32)
        selected = np.zeros((rows, s.top_blocks), np.int32)
        ops.attention(weights, pool, plan, self.q[part], self.index_q[part], out, selected)
        return {"out": out, "selected": selected}


# Rows of up to 200 tokens of which 103 are attended to: several parts, the last one short.
LONG = AttentionSizes(6, 2, 32, 4, 16, 16, 4, 25, 4)
ODD = AttentionSizes(5, 1, 17, 3, 9, 8, 3, 30, 5)  # 92 tokens
CASES = {
    "long": ShuffledCase(LONG, num_rows=200),
    "long in float16": ShuffledCase(LONG, num_rows=200, dtype=np.float16),
    "odd": ShuffledCase(ODD, num_rows=150),
    "odd in float16": ShuffledCase(ODD, num_rows=150, dtype=np.float16),
}
REAL = AttentionSizes(24, 2, 256, 4, 128, 64, 4, 20, 8)  # as the real model, but for the budget


def bound(case: AttentionCase) -> float:
    # A key or value in float16 may round to its neighbour, 2**-9 away for those of 2 .. 4.
    return 2e-3 if case.dtype == np.float16 else 1e-5


@pytest.mark.parametrize("name", CASES)
def test_long_rows_agree_with_the_reference(ops: MixerOps, name: str):
    case = CASES[name]
    wanted = case.run(ReferenceOps(LIMITS), [case.num_rows])
    assert error_of(case.run(ops, [case.num_rows]), wanted) < bound(case)


@pytest.mark.parametrize("name", CASES)
def test_split_rows_and_whole_rows_give_the_same_bits(ops: MixerOps, name: str):
    case = CASES[name]
    whole = case.run(ops, [case.num_rows])  # a block for each row and head
    cut = case.run(ops, [120, 1, 16, 3, *([1] * 4), case.num_rows - 144])
    for key, value in whole.items():
        assert value.tobytes() == cut[key].tobytes(), key


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_heads_of_the_real_size_agree_with_the_reference(ops: MixerOps, dtype):
    case = ShuffledCase(REAL, num_rows=120, dtype=dtype)
    whole = case.run(ops, [120])
    assert error_of(whole, case.run(ReferenceOps(LIMITS), [120])) < bound(case)
    cut = case.run(ops, [100, 4, 1, 15])
    assert all(value.tobytes() == cut[key].tobytes() for key, value in whole.items())


@pytest.mark.parametrize(("name", "num_near"), [("long", 0), ("long in float16", 10), ("odd", 3)])
def test_pages_in_other_memory_give_the_same_bits(ops: MixerOps, name: str, num_near: int):
    case = CASES[name]
    cuts = [130, 5, case.num_rows - 135]
    near = case.run(ops, cuts)
    ops.num_near = num_near
    far = case.run(ops, cuts)
    for key, value in near.items():
        assert value.tobytes() == far[key].tobytes(), key


@pytest.mark.parametrize("name", ["long", "odd in float16"])
def test_rows_appended_again_replace_abandoned_ones(ops: MixerOps, name: str):
    case = CASES[name]
    dtype = case.dtype.type
    other = ShuffledCase(case.sizes, num_rows=case.num_rows, dtype=dtype, seed=99)
    once, again = case.pool(dtype, dtype), case.pool(dtype, dtype)
    case.advance(ops, once, slice(0, 125))
    case.advance(ops, again, slice(0, 125))
    other.advance(ops, again, slice(125, 133))  # nobody committed these
    wanted = case.advance(ops, once, slice(125, 140))
    got = case.advance(ops, again, slice(125, 140))
    assert got["out"].tobytes() == wanted["out"].tobytes()
    assert once.index_pooled.tobytes() == again.index_pooled.tobytes()


def test_blocks_with_equal_scores_are_chosen_from_the_first_on(ops: MixerOps):
    case = ShuffledCase(LONG, num_rows=200)
    case.index_q[150:] = 0.0  # all scores are 0
    case.index_k[40:80] = case.index_k[:40]  # for the others ten pairs of blocks score nearly alike
    got, wanted = case.run(ops, [200]), case.run(ReferenceOps(LIMITS), [200])
    np.testing.assert_array_equal(got["selected"], wanted["selected"])
    np.testing.assert_array_equal(got["selected"][199], np.arange(25))


def test_the_choice_is_not_needed_for_the_result(ops: MixerOps):
    case = CASES["long"]
    pool = case.pool(np.float32, np.float32)
    wanted = case.advance(ops, pool, slice(0, 200))["out"]
    out = np.zeros_like(wanted)
    ops.attention(
        case.weights(ops), pool, case.plan(slice(0, 200)), case.q, case.index_q, out, None
    )
    assert out.tobytes() == wanted.tobytes()


@pytest.mark.parametrize("blocks", [513, 600, 5000])
@pytest.mark.parametrize("threads", [128, 512])
def test_the_best_blocks_are_found_exactly(ops: MixerOps, blocks: int, threads: int):
    random = np.random.default_rng(blocks)
    scores = random.exponential(size=(4, blocks)).astype(np.float32)
    scores[1, random.random(blocks) < 0.95] = 0.0  # fewer than wanted are not 0
    scores[2] = np.round(scores[2] * 4) / 4  # many are equal
    scores[3] = 3.5
    ratio, top = 4, 512
    plan = make_plan([SequenceRows(0, 0, blocks * ratio - 1 + i, 1) for i in range(4)])
    launcher = ops.launcher
    on_card, chosen = ops.up(scores), ops.empty(np.zeros((4, top), np.int32))
    launcher.launch(
        "attention_select",
        (4, 1, 1),
        (threads, 1, 1),
        AttentionSizesStruct(ratio=ratio, top_blocks=top),
        pass_struct(ops.uploaded(plan)),
        *(pointer(on_card), ctypes.c_int32(blocks), pointer(chosen), ctypes.c_int32(0)),
    )
    wanted = np.sort(np.argsort(-scores, axis=1, kind="stable")[:, :top], axis=1)
    np.testing.assert_array_equal(chosen.numpy(), wanted)


@pytest.mark.parametrize("sizes", [LONG, ODD], ids=["long", "odd"])
def test_int8_pages_hold_the_nearest_numbers_and_are_attended_to_exactly(
    ops: MixerOps, sizes: AttentionSizes
):
    case = ShuffledCase(sizes, num_rows=150)
    pool, exact = case.pool(np.int8, np.float16), case.pool(np.float32, np.float16)
    reference = ReferenceOps(LIMITS)
    for part in slices([60, 90]):
        got = case.advance(ops, pool, part)
        wanted_exact = case.advance(reference, exact, part)
    np.testing.assert_allclose(pool.index_pooled, exact.index_pooled, rtol=2e-3)  # a last bit
    decoded = case.pool(np.float32, np.float16)
    decoded.index_raw, decoded.index_pooled = pool.index_raw, pool.index_pooled
    for name in ("keys", "values"):
        scales = getattr(pool, name[:-1] + "_scales")[..., None]
        numbers = getattr(pool, name) * scales
        assert np.all(np.abs(numbers - getattr(exact, name)) <= scales * 0.5001)
        assert np.abs(getattr(pool, name)).max() == 127
        setattr(decoded, name, numbers.astype(np.float32))
    assert error_of(got, case.attend(reference, decoded, slice(60, 150))) < 1e-5
    difference, wanted = got["out"] - wanted_exact["out"], wanted_exact["out"]
    assert 1e-4 < np.sqrt(np.mean(difference**2) / np.mean(wanted**2)) < 0.02


@pytest.mark.parametrize("sizes", [LONG, ODD], ids=["long", "odd"])
def test_int8_pages_have_the_same_bits_however_rows_are_cut(ops: MixerOps, sizes: AttentionSizes):
    case = ShuffledCase(sizes, num_rows=150)
    pools, outs = [], []
    for cuts in ([150], [100, 16, 1, 2, 31]):
        pool = case.pool(np.int8, np.float16)
        parts = [case.advance(ops, pool, part)["out"] for part in slices(cuts)]
        pools.append(pool)
        outs.append(np.concatenate(parts))
    assert outs[0].tobytes() == outs[1].tobytes()
    for name in ("keys", "values", "key_scales", "value_scales", "index_pooled"):
        assert getattr(pools[0], name).tobytes() == getattr(pools[1], name).tobytes(), name


@pytest.mark.parametrize("field", ["k", "v"])
def test_numbers_that_are_none_stay_so_in_int8_pages(ops: MixerOps, field: str):
    case = ShuffledCase(LONG, num_rows=40)
    getattr(case, field)[35, 3] = np.nan  # of the first key-value head
    pool = case.pool(np.int8, np.float16)
    out = case.advance(ops, pool, slice(0, 40))["out"]
    heads, dim = LONG.heads // LONG.kv_heads, LONG.head_dim
    assert np.isfinite(out[:35]).all()
    assert np.isnan(out[35:, : heads * dim]).all()  # the query heads of that one
    assert np.isfinite(out[35:, heads * dim :]).all()
