"""Windows of DeltaNet and of the n-gram layer that were abandoned, or committed for many layers at once."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from engine.device.emulated import EmulatedDevice
from engine.ops.base import Limits
from engine.ops.check_inputs import SequenceRows, delta_pool, make_plan, ple_pool
from engine.ops.check_sequences import DeltaCase, DeltaSizes, PleCase, PleSizes
from engine.ops.pools import DeltaPool, PlePool
from tests.support.cuda_mixers import MixerOps

LIMITS = Limits(max_rows=64, max_window=8, num_slots=3, num_pages=1)
SIZES = DeltaSizes(2, 6, 40, 4)
PLE_SIZES = PleSizes(3, 20, 4, 3)


@pytest.fixture(scope="module")
def card() -> Iterator[EmulatedDevice]:
    device = EmulatedDevice()
    device.load_kernels(["delta", "ple"])
    yield device
    device.close()


@pytest.fixture
def ops(card: EmulatedDevice) -> MixerOps:
    return MixerOps(LIMITS, card)


def new_pool() -> DeltaPool:
    return delta_pool(3, 8, SIZES.k_heads, SIZES.v_heads, SIZES.head_dim, SIZES.conv_kernel)


def advance(
    ops: MixerOps, case: DeltaCase, pool: DeltaPool, slot: int, half: int, part: slice
) -> np.ndarray:
    plan = make_plan([SequenceRows(slot, half, part.start, part.stop - part.start)])
    out = np.zeros_like(case.z[part])
    arrays = (case.qkv[part].copy(), case.z[part], case.alpha[part], case.beta[part])
    ops.delta_mix(case._weights(ops), pool, plan, *arrays, out)
    return out


@pytest.mark.parametrize("num_rows", [1, 3, 8, 12])
def test_an_abandoned_pass_leaves_no_trace(ops: MixerOps, num_rows: int):
    case, other = DeltaCase(SIZES, num_rows=20), DeltaCase(SIZES, num_rows=20, seed=77)
    once, again = new_pool(), new_pool()
    advance(ops, case, once, 1, 0, slice(0, 5))
    advance(ops, case, again, 1, 0, slice(0, 5))
    advance(ops, other, again, 1, 1, slice(5, 5 + num_rows))  # half 1 stays the committed one
    wanted = advance(ops, case, once, 1, 1, slice(5, 9))
    got = advance(ops, case, again, 1, 1, slice(5, 9))
    assert got.tobytes() == wanted.tobytes()
    assert again.state[1].tobytes() == once.state[1].tobytes()
    assert again.conv[1].tobytes() == once.conv[1].tobytes()


def test_commits_of_several_layers_and_slots_equal_single_ones(ops: MixerOps):
    cases = [DeltaCase(SIZES, num_rows=20, seed=seed) for seed in (1, 2, 3)]
    single, together = [new_pool() for _ in cases], [new_pool() for _ in cases]
    for pools in (single, together):
        for case, pool in zip(cases, pools, strict=True):
            for slot in range(3):
                advance(ops, case, pool, slot, slot % 2, slice(3 * slot, 3 * slot + 6))
    commits = [(0, 0, 2), (1, 1, 6), (2, 0, 1)]
    weights = cases[0]._weights(ops)
    for pool in single:
        for slot, half, tokens in commits:
            ops.delta_commit(weights, pool, slot, half, tokens)
    on_card = [ops.uploaded(pool) for pool in together]
    ops.delta.delta_commits(weights, on_card, commits)
    for pool, uploaded in zip(single, on_card, strict=True):
        assert uploaded.state.numpy().tobytes() == pool.state.tobytes()
        assert uploaded.conv.numpy().tobytes() == pool.conv.tobytes()


@pytest.mark.parametrize("commit", [(3, 0, 1), (0, 2, 1), (0, 0, 0), (0, 0, 9)])
def test_a_commit_that_no_window_holds_is_refused(ops: MixerOps, commit: tuple[int, int, int]):
    weights = DeltaCase(SIZES)._weights(ops)
    with pytest.raises(ValueError, match="cannot be committed"):
        ops.delta_commit(weights, new_pool(), *commit)


def test_heads_larger_than_the_kernels_take_are_refused(ops: MixerOps):
    case = DeltaCase(DeltaSizes(1, 1, 130, 2), num_rows=1)
    with pytest.raises(ValueError, match="130"):
        case.run(ops, [1])


def test_sequences_without_rows_are_passed_over(ops: MixerOps):
    case = DeltaCase(SIZES, num_rows=8)
    alone, between = new_pool(), new_pool()
    wanted = advance(ops, case, alone, 1, 0, slice(0, 4))
    plan = make_plan([SequenceRows(slot, 0, 0, 4 * (slot == 1)) for slot in range(3)])
    out = np.zeros_like(case.z[:4])
    arrays = (case.qkv[:4].copy(), case.z[:4], case.alpha[:4], case.beta[:4])
    ops.delta_mix(case._weights(ops), between, plan, *arrays, out)
    assert out.tobytes() == wanted.tobytes()
    assert between.state.tobytes() == alone.state.tobytes()


def test_an_abandoned_pass_of_the_n_gram_layer_leaves_no_trace(ops: MixerOps):
    case = PleCase(PLE_SIZES, num_rows=20)

    def mix(pool: PlePool, half: int, part: slice, scale: float = 1.0) -> np.ndarray:
        plan = make_plan([SequenceRows(2, half, part.start, part.stop - part.start)])
        streams = case.streams[part] * np.float32(scale)
        arrays = (case.key[part].copy(), case.value[part] * np.float32(scale), streams)
        ops.ple_mix(case._weights(ops), pool, plan, *arrays)
        return streams

    once, again = (ple_pool(3, 8, 9, 60) for _ in range(2))
    for pool in (once, again):
        mix(pool, 0, slice(0, 4))
    mix(again, 1, slice(4, 12), scale=-2.0)
    wanted, got = mix(once, 1, slice(4, 7)), mix(again, 1, slice(4, 7))
    assert got.tobytes() == wanted.tobytes()
    assert again.conv[2].tobytes() == once.conv[2].tobytes()


def test_commits_of_several_slots_of_the_n_gram_layer(ops: MixerOps):
    case = PleCase(PLE_SIZES, num_rows=20)
    random = np.random.default_rng(3)
    pool = ple_pool(3, 8, 9, 60)
    pool.conv[...] = random.standard_normal(pool.conv.shape)
    pool.window[...] = random.standard_normal(pool.window.shape)
    weights, on_card = ops.uploaded(case._weights(ops)), ops.uploaded(pool)
    ops.ple.ple_commits(weights, on_card, [(0, 1, 8), (2, 0, 3)])
    for slot, half, tokens in ((0, 1, 8), (2, 0, 3)):
        joined = np.concatenate([pool.conv[slot, half], pool.window[slot, :tokens]])
        np.testing.assert_array_equal(on_card.conv.numpy()[slot, 1 - half], joined[tokens:])
    np.testing.assert_array_equal(on_card.conv.numpy()[1], pool.conv[1])
