"""Sampling by hand: four tokens with probabilities that can be followed on paper."""

import numpy as np
import pytest

from engine.decode.filters import min_p_count, softmax, top_candidates, top_p_count
from engine.decode.sampling import BadLogitsError, Sampler, candidates, draw, uniform
from engine.worker.messages import SamplingParams

# Token 2 is the most probable one, then 0, 3, 1.
PROBABILITIES = np.array([0.25, 0.1, 0.5, 0.15])
LOGITS = np.log(PROBABILITIES).astype(np.float32)


def kept(**params: float) -> dict[int, float]:
    """Candidate ids and their probabilities, brought to a sum of one."""
    ids, probabilities = candidates(LOGITS, SamplingParams(**params))  # type: ignore[arg-type]
    probabilities = probabilities / probabilities.sum()
    return {int(i): round(float(p), 5) for i, p in zip(ids, probabilities, strict=True)}


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({}, {0: 0.25, 1: 0.1, 2: 0.5, 3: 0.15}),
        ({"top_k": 2}, {2: 0.66667, 0: 0.33333}),
        ({"top_k": 9}, {2: 0.5, 0: 0.25, 3: 0.15, 1: 0.1}),
        ({"top_p": 0.49}, {2: 1.0}),
        ({"top_p": 0.51}, {2: 0.66667, 0: 0.33333}),
        ({"top_p": 0.74}, {2: 0.66667, 0: 0.33333}),
        ({"top_p": 1e-9}, {2: 1.0}),
        ({"min_p": 0.29}, {2: 0.55556, 0: 0.27778, 3: 0.16667}),
        ({"min_p": 1.0}, {2: 1.0}),
        # top_p sums what top_k leaves: 2/3 of the two best is enough for 0.6.
        ({"top_k": 2, "top_p": 0.6}, {2: 1.0}),
        ({"top_k": 3, "top_p": 0.8, "min_p": 0.4}, {2: 0.66667, 0: 0.33333}),
        # Temperature comes first: squared probabilities 0.0625, 0.01, 0.25, 0.0225 of 0.345.
        ({"temperature": 0.5}, {0: 0.18116, 1: 0.02899, 2: 0.72464, 3: 0.06522}),
        ({"temperature": 0.5, "top_p": 0.72}, {2: 1.0}),
        ({"temperature": 0.5, "min_p": 0.25}, {2: 0.8, 0: 0.2}),
    ],
)
def test_filters_keep_what_they_keep_on_paper(params: dict[str, float], expected: dict[int, float]):
    assert kept(**params) == pytest.approx(expected, abs=2e-5)


def test_a_draw_falls_on_the_token_whose_share_it_hits():
    hits = [
        draw(PROBABILITIES, u) for u in (0.0, 0.2499, 0.25, 0.3499, 0.35, 0.8499, 0.85, 0.999999)
    ]
    assert hits == [0, 0, 1, 1, 2, 2, 3, 3]


def test_a_draw_never_falls_on_a_token_of_probability_zero():
    weights = np.array([0.0, 0.3, 0.0, 0.1, 0.0])
    assert {draw(weights, u) for u in (0.0, 0.5, 0.75, np.nextafter(1, 0))} == {1, 3}
    many = np.zeros(5000)
    many[[700, 4999 - 300]] = 0.5
    assert {draw(many, u) for u in (0.0, 0.49, 0.5, np.nextafter(1, 0))} == {700, 4699}


def test_draws_over_a_large_vocabulary_follow_the_distribution():
    probabilities = softmax(np.random.default_rng(1).normal(size=3000).astype(np.float32))
    total = np.cumsum(probabilities)
    for u in np.linspace(0, 0.9999, 200):
        index = draw(probabilities, float(u))
        before = total[index - 1] if index else 0.0
        assert before - 1e-9 <= u <= total[index] + 1e-9


def test_sampled_shares_come_close_to_the_probabilities():
    sampler = Sampler(SamplingParams(seed=3))
    counts = np.zeros(4)
    for _ in range(4000):
        token_id = sampler.sample(LOGITS)
        sampler.note(token_id)
        counts[token_id] += 1
    assert counts / 4000 == pytest.approx(PROBABILITIES, abs=0.03)


def test_temperature_zero_takes_the_largest_and_the_lower_id_on_ties():
    sampler = Sampler(SamplingParams(temperature=0))
    assert sampler.sample(LOGITS) == 2
    assert sampler.sample(np.array([1, 7, 3, 7], np.float32)) == 1


def test_a_tiny_temperature_is_as_good_as_greedy():
    assert Sampler(SamplingParams(temperature=1e-30)).sample(LOGITS) == 2


def test_the_same_seed_and_position_give_the_same_number_and_others_do_not():
    assert uniform(7, 3) == uniform(7, 3)
    numbers = {uniform(seed, i) for seed in (-1, 0, 7, 2**63 - 1) for i in range(50)}
    assert len(numbers) == 200
    assert all(0 <= number < 1 for number in numbers)


def test_a_seed_gives_the_same_tokens_whatever_else_is_sampled_in_between():
    def tokens(noise: bool) -> list[int]:
        sampler, other = Sampler(SamplingParams(seed=11)), Sampler(SamplingParams(seed=12))
        ids = []
        for _ in range(50):
            if noise:
                other.note(other.sample(LOGITS))
            ids.append(sampler.sample(LOGITS))
            sampler.note(ids[-1])
        return ids

    assert tokens(noise=False) == tokens(noise=True)


def test_presence_counts_once_and_frequency_as_often_as_the_token_came():
    sampler = Sampler(SamplingParams(temperature=0, presence_penalty=0.5, frequency_penalty=0.25))
    for _ in range(3):
        sampler.note(2)
    # ln 0.5 - 0.5 - 0.75 = -1.943 falls below ln 0.25 = -1.386 and stays above nothing else there
    # but ln 0.1 = -2.303 and ln 0.15 = -1.897.
    assert sampler.sample(LOGITS) == 0
    sampler.note(0)  # ln 0.25 - 0.75 = -2.136
    assert sampler.sample(LOGITS) == 3


def test_the_repetition_penalty_divides_positive_and_multiplies_negative_logits():
    params = SamplingParams(temperature=0, repetition_penalty=2.0)
    positive, negative = Sampler(params), Sampler(params)
    positive.note(0)
    assert positive.sample(np.array([3.0, 1.6], np.float32)) == 1
    assert positive.sample(np.array([3.0, 1.4], np.float32)) == 0
    negative.note(0)
    assert negative.sample(np.array([-1.0, -1.9], np.float32)) == 1
    assert negative.sample(np.array([-1.0, -2.1], np.float32)) == 0


@pytest.mark.parametrize(("window", "expected"), [(2, 2), (3, 0), (-1, 0), (0, 2)])
def test_penalties_look_at_the_newest_tokens_only(window: int, expected: int):
    sampler = Sampler(SamplingParams(temperature=0, presence_penalty=2.0, penalty_last_n=window))
    for token_id in (2, 1, 1):
        sampler.note(token_id)
    assert sampler.sample(LOGITS) == expected


def test_penalties_can_be_left_out_for_one_token():
    sampler = Sampler(SamplingParams(temperature=0, presence_penalty=2.0))
    sampler.note(2)
    assert sampler.sample(LOGITS) == 0
    assert sampler.sample(LOGITS, use_penalties=False) == 2


def test_a_bias_moves_a_token_and_minus_100_bans_it():
    assert Sampler(SamplingParams(temperature=0, logit_bias=((1, 2.0),))).sample(LOGITS) == 1
    far_ahead = np.array([0, 500.0, 1, 0], np.float32)
    banned = SamplingParams(logit_bias=((1, -100.0),))
    sampler = Sampler(banned)
    for _ in range(200):
        token_id = sampler.sample(far_ahead)
        sampler.note(token_id)
        assert token_id != 1
    everything = SamplingParams(temperature=0, logit_bias=tuple((i, -100.0) for i in range(4)))
    assert Sampler(everything).sample(LOGITS) in range(4)


def test_the_logits_given_are_not_changed():
    logits = LOGITS.copy()
    params = SamplingParams(presence_penalty=1.0, logit_bias=((0, 1.0),), top_k=2)
    sampler = Sampler(params)
    sampler.note(2)
    sampler.sample(logits)
    assert np.array_equal(logits, LOGITS)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_numbers_that_are_none_end_in_an_error_with_a_way_out(bad: float):
    logits = LOGITS.copy()
    logits[1] = bad
    with pytest.raises(BadLogitsError, match="engine doctor"):
        Sampler(SamplingParams()).sample(logits)
    with pytest.raises(BadLogitsError):
        Sampler(SamplingParams()).sample(np.full(4, -np.inf, np.float32))


def test_masked_tokens_are_never_drawn():
    logits = LOGITS.copy()
    logits[[0, 2]] = -np.inf
    for params in (SamplingParams(), SamplingParams(top_k=4), SamplingParams(top_p=0.99)):
        sampler = Sampler(params)
        for _ in range(50):
            token_id = sampler.sample(logits)
            sampler.note(token_id)
            assert token_id in {1, 3}


@pytest.mark.parametrize("size", [1, 2, 255, 256, 5121, 20_000])
def test_top_candidates_are_those_of_a_full_sort(size: int):
    rng = np.random.default_rng(size)
    for logits in (
        rng.normal(size=size).astype(np.float32),
        rng.integers(0, 4, size).astype(np.float32),  # many ties
        np.zeros(size, np.float32),
    ):
        for k in (1, 5, 20, size):
            expected = np.argsort(-logits, kind="stable")[:k]
            assert np.array_equal(top_candidates(logits, k), expected)


@pytest.mark.parametrize("temperature", [0.0, 1e-300, 1.0])
@pytest.mark.parametrize(
    "params",
    [
        {"repetition_penalty": 1e-40},
        {"repetition_penalty": 5e-324},
        {"frequency_penalty": 1e38},
        {"presence_penalty": -1e300},
        {"logit_bias": ((1, 1e300), (1, 1e300), (0, -1e300))},
        {"logit_bias": ((1, 3e38), (1, 3e38), (2, -3e38), (2, -3e38))},
        {"logit_bias": tuple((i, -100.0) for i in range(4))},
    ],
)
def test_settings_without_measure_still_give_a_token_and_no_warning(
    params: dict[str, float], temperature: float
):
    sampler = Sampler(SamplingParams(temperature=temperature, **params))  # type: ignore[arg-type]
    for _ in range(4):
        token_id = sampler.sample(np.array([2.0, 1.0, 3e38, -3e38], np.float32))
        assert 0 <= token_id < 4
        sampler.note(token_id)
        if "logit_bias" in params and params["logit_bias"][0][0] == 1:  # type: ignore[index]
            assert token_id in (1, 2)


def test_logits_at_the_ends_of_their_range_are_drawn_without_a_warning():
    widest = np.array([3.4e38, -3.4e38, -np.inf, 3.4e38], np.float32)
    assert {Sampler(SamplingParams(seed=i)).sample(widest) for i in range(20)} == {0, 3}
    assert Sampler(SamplingParams(seed=1, top_p=0.5, min_p=0.1)).sample(widest) in (0, 3)


def test_a_min_p_above_one_keeps_the_most_probable_token():
    assert kept(min_p=1.5) == {2: 1.0}


def test_counts_are_at_least_one_and_at_most_all():
    probabilities = np.array([0.4, 0.3, 0.3])
    assert top_p_count(probabilities, 1e-12) == 1
    assert top_p_count(probabilities, 1.0) == 3
    assert min_p_count(probabilities, 1.0) == 1
    assert min_p_count(probabilities, 0.0) == 3


@pytest.mark.parametrize(
    "params", [SamplingParams(top_p=0.9), SamplingParams(min_p=0.02), SamplingParams(top_p=0.3)]
)
def test_without_top_k_a_large_vocabulary_gives_what_sorting_all_of_it_gives(
    params: SamplingParams,
):
    logits = (np.random.default_rng(2).normal(size=20_000) * 2).astype(np.float32)
    probabilities = softmax(logits)
    order = np.argsort(-logits, kind="stable")
    count = len(order)
    if params.top_p < 1:
        count = top_p_count(probabilities[order], params.top_p)
    if params.min_p > 0:
        count = min_p_count(probabilities[order][:count], params.min_p)
    ids, _ = candidates(logits, params)
    assert np.array_equal(np.asarray(ids), order[:count])
