"""The largest logits and the sum of all, on the emulated card against numpy; copies of many stretches."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from engine.device.array import ArraySpace
from engine.device.emulated import EmulatedDevice
from engine.ops.best_logits import MOST_CANDIDATES, ROW_WORDS, BestLogits, BestRows
from engine.ops.cuda_launch import Launcher
from engine.ops.cuda_ranges import CudaRanges, Range, page_ranges, zero_ranges
from engine.ops.cuda_sampling import CudaSampling, num_parts


@pytest.fixture(scope="module")
def card() -> Iterator[EmulatedDevice]:
    device = EmulatedDevice()
    device.load_kernels(["sampling", "ranges"])
    yield device
    device.close()


@pytest.fixture
def launcher(card: EmulatedDevice) -> Launcher:
    return Launcher(card)


@pytest.fixture
def space(launcher: Launcher) -> ArraySpace:
    return launcher.space


def rows_of_logits(vocabulary: int) -> np.ndarray:
    random = np.random.default_rng(vocabulary)
    logits = random.standard_normal((6, vocabulary)).astype(np.float32) * 3
    logits[1] = np.round(logits[1])  # many are equal
    logits[2] = 1.25
    logits[3, random.random(vocabulary) < 0.99] = -np.inf  # a mask
    logits[3, -1] = -5.0
    logits[4] -= 1000.0
    logits[5, 0] = -0.0
    logits[5, 1:] = np.where(logits[5, 1:] > 0, 0.0, logits[5, 1:])
    return logits


VOCABULARIES = [1, 5, 63, 64, 65, 1000, 4097, 20_000]
LONGER_PARTS = 32 * 8192 + 32 * 100  # than a block keeps in shared memory


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
def test_the_largest_logit_of_each_row(launcher: Launcher, space: ArraySpace, vocabulary: int):
    logits = rows_of_logits(vocabulary)
    ids = space.empty((len(logits),), np.int32)
    CudaSampling(launcher).argmax(space.upload(logits), ids)
    np.testing.assert_array_equal(ids.numpy(), logits.argmax(axis=1))


def candidates(launcher: Launcher, logits: np.ndarray) -> list[BestLogits]:
    space, rows = launcher.space, len(logits)
    bests = space.empty((rows, ROW_WORDS), np.int32)
    CudaSampling(launcher).candidates(space.upload(logits), bests)
    found = BestRows(bests.numpy())
    return [found.row(r) for r in range(rows)]


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
def test_the_best_candidates_and_the_sum_of_all(launcher: Launcher, vocabulary: int):
    logits = rows_of_logits(vocabulary)
    found = candidates(launcher, logits)
    for row, own in zip(logits, found, strict=True):
        best = np.argsort(-row, kind="stable")[:MOST_CANDIDATES]
        best = best[row[best] > -np.inf]
        np.testing.assert_array_equal(own.ids, best)
        np.testing.assert_array_equal(own.values, row[best])
        assert own.is_all is (len(best) < MOST_CANDIDATES)
    wide = logits.astype(np.float64)
    top = wide.max(axis=1)
    wanted = top + np.log(np.exp(wide - top[:, None]).sum(axis=1))
    np.testing.assert_allclose([own.log_sum for own in found], wanted, rtol=1e-6, atol=2e-6)


def test_a_part_of_more_logits_than_a_block_keeps(launcher: Launcher):
    random = np.random.default_rng(5)
    logits = np.round(random.standard_normal((1, LONGER_PARTS)) * 20).astype(np.float32) / 8
    wanted = np.argsort(-logits[0], kind="stable")[:MOST_CANDIDATES]
    np.testing.assert_array_equal(candidates(launcher, logits)[0].ids, wanted)


@pytest.mark.parametrize("vocabulary", [65, 20_000])
@pytest.mark.parametrize("bad", [np.nan, -np.nan, np.inf])
@pytest.mark.parametrize("place", [0, -1])
def test_rows_that_are_no_numbers_give_no_token(
    launcher: Launcher, vocabulary: int, bad: float, place: int
):
    logits = rows_of_logits(vocabulary)
    logits[2, place] = bad
    logits[4] = -np.inf
    space = launcher.space
    ids = space.empty((len(logits),), np.int32)
    CudaSampling(launcher).argmax(space.upload(logits), ids)
    got = ids.numpy()
    assert got[2] == got[4] == -1
    good = [0, 1, 3, 5]
    np.testing.assert_array_equal(got[good], logits[good].argmax(axis=1))
    usable = [own.is_usable for own in candidates(launcher, logits)]
    assert usable == [True, True, False, True, False, True]


def test_parts_depend_on_the_vocabulary_alone():
    assert [num_parts(v) for v in (1, 4096, 4097, 248_320)] == [1, 1, 2, 32]


@pytest.mark.parametrize("width", [16, 10, 7])
@pytest.mark.parametrize("kind", [np.float32, np.int8])
def test_pages_are_copied_in_many_arrays_at_once(
    launcher: Launcher, space: ArraySpace, width: int, kind: type
):
    random = np.random.default_rng(width)
    arrays = [random.integers(-9, 9, (8, n, width)).astype(kind) for n in (3, 40, 1)]
    on_card = [space.upload(array) for array in arrays]
    copies = [(0, 5), (7, 2), (1, 6)]
    CudaRanges(launcher).copy_ranges(page_ranges(on_card, copies))
    for array, uploaded in zip(arrays, on_card, strict=True):
        for source, to in copies:
            array[to] = array[source]
        np.testing.assert_array_equal(uploaded.numpy(), array)


def test_ranges_are_zeroed_and_empty_ones_left_alone(launcher: Launcher, space: ArraySpace):
    array = space.upload(np.ones((3, 1000), np.float32))
    odd = space.upload(np.ones((3, 7), np.int8))  # no whole pieces of 16 bytes
    ranges = CudaRanges(launcher)
    ranges.copy_ranges([])
    ranges.copy_ranges([Range(array.address, None, 0), *zero_ranges([array[1], odd[1]])])
    np.testing.assert_array_equal(array.numpy().sum(axis=1), [1000, 0, 1000])
    np.testing.assert_array_equal(odd.numpy().sum(axis=1), [7, 0, 7])


@pytest.mark.parametrize("shape", [(4,), (3, 100), (700,)])
def test_rows_are_taken(launcher: Launcher, space: ArraySpace, shape: tuple[int, ...]):
    source = np.random.default_rng(1).standard_normal((6, *shape)).astype(np.float32)
    rows = np.array([0, 3, 3, 5], np.int32)
    out = space.empty((4, *shape))
    CudaRanges(launcher).take_rows(space.upload(source), space.upload(rows), out)
    np.testing.assert_array_equal(out.numpy(), source[rows])
