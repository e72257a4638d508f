"""Drawing by the library, against the sampler's own code."""

from collections.abc import Iterator

import numpy as np
import pytest

from engine.decode.sampling import BadLogitsError, Sampler
from engine.ops.base import Limits
from engine.ops.host import HostOps
from engine.ops.token_mask import TokenMask
from engine.worker.messages import SamplingParams

SETTINGS = [
    {"temperature": 0.0},
    {"top_k": 1},
    {"top_k": 20},
    {"top_k": 64, "temperature": 1.7},
    {"top_k": 20, "top_p": 0.8, "temperature": 0.7},
    {"top_k": 40, "min_p": 0.1},
    {"top_k": 40, "min_p": 0.02, "top_p": 0.9, "temperature": 0.3},
    {"top_k": 5, "temperature": 1e-30},
]
PENALTIES = [
    {},
    {"presence_penalty": 1.5},
    {"frequency_penalty": 0.3, "repetition_penalty": 1.2, "penalty_last_n": 8},
    {"logit_bias": ((3, 2.5), (9, -100.0), (3, 0.5), (4999, 1.0))},
    {"logit_bias": ((0, 1.0),), "presence_penalty": -0.5, "penalty_last_n": -1},
]


@pytest.fixture(scope="module")
def ops() -> Iterator[HostOps]:
    made = HostOps(Limits(max_rows=4, max_window=4, num_slots=1, num_pages=1, threads=1))
    yield made
    made.close()


def two_samplers(ops: HostOps, **params: object) -> tuple[Sampler, Sampler]:
    """One that draws in Python, and one by the library."""
    settings = SamplingParams(**params)  # type: ignore[arg-type]
    return Sampler(settings), Sampler(settings, ops.new_draw)


@pytest.mark.parametrize("penalties", PENALTIES)
@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("size", [5000, 5001, 5015])
def test_the_library_draws_what_the_sampler_draws_and_leaves_the_logits_alone(
    ops: HostOps, size: int, settings: dict[str, object], penalties: dict[str, object]
):
    rng = np.random.default_rng(size)
    plain, quick = two_samplers(ops, seed=-3, **settings, **penalties)
    for _ in range(40):
        logits = (3 * rng.normal(size=size)).astype(np.float32)
        before = logits.copy()
        token_id = plain.sample(logits)
        assert quick.sample(logits) == token_id
        assert np.array_equal(logits, before)
        plain.note(token_id)
        quick.note(token_id)


def test_ties_masks_and_small_vocabularies_are_drawn_alike(ops: HostOps):
    rng = np.random.default_rng(5)
    for size in (1, 2, 15, 16, 17, 70, 300):
        plain, quick = two_samplers(ops, seed=size, top_k=20, top_p=0.95)
        for _ in range(50):
            logits = rng.integers(0, 4, size).astype(np.float32)
            logits[rng.random(size) < 0.5] = -np.inf
            logits[rng.integers(0, size)] = 1.0
            token_id = plain.sample(logits)
            assert quick.sample(logits) == token_id
            plain.note(token_id)
            quick.note(token_id)


def test_more_seen_tokens_than_the_first_arrays_hold_are_counted(ops: HostOps):
    plain, quick = two_samplers(ops, top_k=30, presence_penalty=2.0, penalty_last_n=-1, seed=4)
    logits = np.linspace(0, 1, 600).astype(np.float32)
    for _ in range(400):
        token_id = plain.sample(logits)
        assert quick.sample(logits) == token_id
        plain.note(token_id)
        quick.note(token_id)


@pytest.mark.parametrize("place", [0, 3, 16, 20])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_the_library_refuses_numbers_that_are_none(ops: HostOps, bad: float, place: int):
    logits = np.zeros(21, np.float32)
    logits[place] = bad
    sampler = Sampler(SamplingParams(top_k=5), ops.new_draw)
    with pytest.raises(BadLogitsError, match="engine doctor"):
        sampler.sample(logits)
    with pytest.raises(BadLogitsError):
        sampler.sample(np.full(21, -np.inf, np.float32))


def test_a_bias_of_a_token_that_is_none_and_rows_with_gaps_are_refused(ops: HostOps):
    sampler = Sampler(SamplingParams(top_k=5, logit_bias=((30, 1.0),)), ops.new_draw)
    with pytest.raises(ValueError, match="do not fit"):
        sampler.sample(np.zeros(30, np.float32))
    free = Sampler(SamplingParams(top_k=5), ops.new_draw)
    with pytest.raises(ValueError, match="contiguous"):
        free.sample(np.zeros(60, np.float32)[::2])


def test_what_needs_many_candidates_is_left_to_the_sampler(ops: HostOps):
    for params in ({}, {"top_p": 0.9}, {"top_k": 65}):
        assert Sampler(SamplingParams(**params), ops.new_draw).sample(  # type: ignore[arg-type]
            np.arange(100, dtype=np.float32)
        ) in range(100)


def random_mask(rng: np.random.Generator, size: int) -> TokenMask:
    """Nearly empty, nearly full, full or half full, some of it in runs."""
    if (kind := rng.integers(0, 4)) == 0:
        return TokenMask.without(size, [])
    share = (0.002, 0.5, 0.98)[kind - 1]
    allowed = rng.random(size) < share
    start, stop = np.sort(rng.integers(0, size + 1, 2))
    allowed[start:stop] = bool(rng.integers(0, 2))
    allowed[rng.integers(0, size)] = True
    return TokenMask.without(size, [int(i) for i in np.flatnonzero(~allowed)])


@pytest.mark.parametrize("penalties", PENALTIES)
@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("num_masked", [5000, 5003, 4991])
def test_under_a_mask_the_library_draws_what_the_sampler_draws(
    ops: HostOps, num_masked: int, settings: dict[str, object], penalties: dict[str, object]
):
    rng = np.random.default_rng(num_masked)
    plain, quick = two_samplers(ops, seed=8, **settings, **penalties)
    for _ in range(30):
        logits = (3 * rng.normal(size=5000)).astype(np.float32)
        mask = random_mask(rng, num_masked)
        if not mask.flags(5000).any():
            continue
        token_id = plain.sample(logits, mask)
        assert token_id in mask
        assert quick.sample(logits, mask) == token_id
        plain.note(token_id)
        quick.note(token_id)


def test_small_vocabularies_are_drawn_alike_under_every_single_bit(ops: HostOps):
    for size in (1, 15, 16, 17, 33, 70):
        logits = np.arange(size, dtype=np.float32)
        for settings in ({"top_k": 20}, {"temperature": 0.0}):
            plain, quick = two_samplers(ops, **settings)
            for token_id in range(size):
                mask = TokenMask(size)
                mask.allow(token_id)
                assert quick.sample(logits, mask) == plain.sample(logits, mask) == token_id


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_only_numbers_that_may_be_drawn_must_be_ones(ops: HostOps, bad: float):
    for sampler in two_samplers(ops, top_k=5, presence_penalty=1.0):
        for place in (0, 17, 36):
            logits = np.zeros(37, np.float32)
            logits[place] = bad
            mask = TokenMask.without(37, [place])
            assert sampler.sample(logits, mask) != place
            mask.allow(place)
            with pytest.raises(BadLogitsError):
                sampler.sample(logits, mask)
        logits = np.full(37, -np.inf, np.float32)
        logits[3] = 1
        with pytest.raises(BadLogitsError):
            sampler.sample(logits, TokenMask.without(37, [3]))
        with pytest.raises(BadLogitsError):
            sampler.sample(np.zeros(37, np.float32), TokenMask(37))


@pytest.mark.parametrize("penalties", PENALTIES)
@pytest.mark.parametrize("settings", SETTINGS)
def test_a_token_for_any_mask_is_drawn_under_every_mask_that_allows_it(
    ops: HostOps, settings: dict[str, object], penalties: dict[str, object]
):
    rng = np.random.default_rng(9)
    _, sampler = two_samplers(ops, seed=5, **settings, **penalties)
    num_sure = 0
    for i in range(150):
        logits = ((1 + i % 7) * rng.normal(size=5000)).astype(np.float32)
        before = logits.copy()
        token_id = sampler.sample_for_any_mask(logits)
        assert np.array_equal(logits, before)
        if token_id is None:
            sampler.note(sampler.sample(logits))
            continue
        num_sure += 1
        assert sampler.sample(logits) == token_id
        for _ in range(6):
            mask = random_mask(rng, 5000)
            mask.allow(token_id)
            assert sampler.sample(logits, mask) == token_id
        near = TokenMask.without(5000, np.argsort(-logits)[: rng.integers(1, 64)].tolist())
        near.allow(token_id)
        assert sampler.sample(logits, near) == token_id
        sampler.note(token_id)
    assert num_sure > 10
    if settings.get("temperature") == 0 or settings.get("top_k") == 1:
        assert num_sure == 150


def test_a_token_for_any_mask_is_not_known_where_it_depends_on_the_mask(ops: HostOps):
    logits = np.zeros(300, np.float32)  # twenty equally good ones are never sure
    for seed in range(40):
        _, sampler = two_samplers(ops, seed=seed, top_k=20)
        token_id = sampler.sample_for_any_mask(logits)
        assert token_id == (0 if sampler.sample(logits) == 0 else None)
    assert Sampler(SamplingParams(top_k=20)).sample_for_any_mask(logits) is None
    assert Sampler(SamplingParams(temperature=0)).sample_for_any_mask(logits) == 0


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_token_for_any_mask_is_not_known_where_numbers_are_none(ops: HostOps, bad: float):
    logits = np.zeros(37, np.float32)
    logits[9] = bad
    for params in ({"temperature": 0.0}, {"top_k": 5}):
        for sampler in two_samplers(ops, **params):
            assert sampler.sample_for_any_mask(logits) is None
            assert sampler.sample_for_any_mask(np.full(37, -np.inf, np.float32)) is None


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_bias_does_not_hide_that_the_model_computed_no_number(ops: HostOps, bad: float):
    for bias in (-100.0, 3.0):
        for sampler in two_samplers(ops, top_k=5, logit_bias=((7, bias),)):
            logits = np.zeros(37, np.float32)
            logits[7] = bad
            with pytest.raises(BadLogitsError):
                sampler.sample(logits)
            logits[:] = -np.inf
            with pytest.raises(BadLogitsError):
                sampler.sample(logits)


@pytest.mark.parametrize("settings", SETTINGS)
def test_a_window_is_drawn_as_row_by_row_up_to_the_first_wrong_draft(
    ops: HostOps, settings: dict[str, object]
):
    rng = np.random.default_rng(2)
    _, sampler = two_samplers(ops, seed=11, logit_bias=((3, 1.5),), **settings)
    for num_drafts in (1, 2, 15):
        logits = (3 * rng.normal(size=(num_drafts + 1, 700))).astype(np.float32)
        rows = [sampler.sample(row, ahead=i) for i, row in enumerate(logits)]
        drafts = rows[:-1]
        assert sampler.sample_window(logits, drafts) == rows
        for wrong in range(num_drafts):
            others = [*drafts[:wrong], (drafts[wrong] + 1) % 700, *drafts[wrong + 1 :]]
            assert sampler.sample_window(logits, others) == rows[: wrong + 1]
        logits[-1, 5] = np.nan
        assert sampler.sample_window(logits, drafts) == rows[:-1]


def test_a_window_is_left_to_the_rows_where_each_draw_changes_the_next(ops: HostOps):
    logits = np.zeros((3, 50), np.float32)
    _, moved = two_samplers(ops, top_k=5, presence_penalty=1.0)
    assert moved.sample_window(logits, [1, 2]) == []
    plain, quick = two_samplers(ops, top_k=5)
    assert plain.sample_window(logits, [1, 2]) == []
    assert quick.sample_window(logits, [1, 2])
    with pytest.raises(ValueError, match="do not fit"):
        quick.sample_window(logits, [1])


def test_a_mask_is_kept_bit_by_bit():
    mask = TokenMask.without(70, [0, 31, 69])
    assert [i for i in range(-2, 80) if i not in mask] == [-2, -1, 0, 31, 69, *range(70, 80)]
    copy = TokenMask(70)
    copy.copy_from(mask)
    mask.clear()
    mask.allow(9)
    mask.allow(9)
    copy.forbid(5)
    copy.forbid(5)
    assert [i for i in range(70) if i in mask] == [9]
    assert np.flatnonzero(~copy.flags(72)).tolist() == [0, 5, 31, 69, 70, 71]
    applied = mask.applied(np.ones(71, np.float32))
    assert applied[9] == 1
    assert np.isneginf(np.delete(applied, 9)).all()
