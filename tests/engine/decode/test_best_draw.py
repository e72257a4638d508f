"""Draws from a row's 64 largest logits give the tokens that all logits give, or ask for all."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from engine.decode.sampling import BadLogitsError, Sampler
from engine.ops.base import Limits
from engine.ops.best_logits import MOST_CANDIDATES
from engine.ops.host import HostOps
from engine.ops.token_mask import TokenMask
from engine.worker.messages import SamplingParams
from tests.support.best_rows import best_of

SETTINGS = {
    "greedy": SamplingParams(temperature=0),
    "top_k": SamplingParams(temperature=0.7, top_k=20, top_p=0.8, seed=5),
    "all 64": SamplingParams(temperature=1.5, top_k=64, seed=6),
    "min_p": SamplingParams(temperature=1.2, top_k=40, min_p=0.1, seed=7),
    "hot": SamplingParams(temperature=50, top_k=3, seed=8),
    "presence": SamplingParams(temperature=0.7, top_k=20, top_p=0.8, presence_penalty=1.5, seed=9),
    "frequency": SamplingParams(temperature=1, top_k=9, frequency_penalty=0.7, seed=10),
    "repetition": SamplingParams(temperature=1, top_k=12, repetition_penalty=1.3, seed=11),
    "greedy, penalised": SamplingParams(
        temperature=0, presence_penalty=2.0, repetition_penalty=1.1
    ),
    "newest count": SamplingParams(
        temperature=1, top_k=20, presence_penalty=1.0, penalty_last_n=10, seed=12
    ),
    "extreme": SamplingParams(temperature=1, top_k=5, presence_penalty=2, repetition_penalty=1e30),
}


@pytest.fixture(scope="module")
def host() -> Iterator[HostOps]:
    ops = HostOps(Limits(max_rows=1, max_window=1, num_slots=1, num_pages=1, threads=1))
    yield ops
    ops.close()


class Fetches:
    """Gives rows and counts them."""

    def __init__(self) -> None:
        self.count = 0

    def of(self, logits):
        def fetch():
            self.count += 1
            return logits

        return fetch


def random_row(random: np.random.Generator, size: int) -> np.ndarray:
    """Logits of one of several kinds, some with many equal ones at the 64th place."""
    row = (random.standard_normal(size) * 3).astype(np.float32)
    kind = random.integers(7)
    if kind == 1:
        row = np.round(row)  # many are equal everywhere
    elif kind == 2:
        row[:] = 1.25
    elif kind == 3:
        row[random.random(size) < 0.9] = -np.inf
        row[random.integers(size)] = 4
    elif kind == 4:  # equal ones around the 64th place
        order = np.argsort(-row, kind="stable")
        row[order[50 : min(90, size)]] = row[order[min(60, size - 1)]]
    elif kind == 5:
        row -= 40
    elif kind == 6:
        row[random.random(size) < 0.5] *= 0  # both zeros
    return row


@pytest.mark.parametrize("name", list(SETTINGS))
@pytest.mark.parametrize("size", [70, 700])
def test_few_logits_give_the_tokens_of_all(host: HostOps, name: str, size: int):
    random = np.random.default_rng(size)
    params, fetches = SETTINGS[name], Fetches()
    whole, few = (Sampler(params, host.new_draw) for _ in range(2))
    assert few.takes_few
    for turn in range(400):
        logits = random_row(random, size)
        mask = None
        if random.random() < 0.4:
            allowed = np.flatnonzero(random.random(size) < random.choice([0.05, 0.5, 0.95]))
            mask = TokenMask(size - int(random.integers(5)))  # not a bit for every token
            for token_id in (*allowed, int(logits[: size - 5].argmax())):
                if token_id < mask.num_tokens:
                    mask.allow(int(token_id))
        use_penalties, ahead = bool(random.random() < 0.8), int(random.integers(3))
        best = best_of(logits, fetches.of(logits))
        wanted = whole.sample(logits, mask, use_penalties=use_penalties, ahead=ahead)
        got = few.sample(best, mask, use_penalties=use_penalties, ahead=ahead)
        assert got == wanted, (turn, name)
        for sampler in (whole, few):
            sampler.note(wanted)
        if turn % 100 == 99:  # another answer
            whole, few = (Sampler(params, host.new_draw) for _ in range(2))
    assert fetches.count < 300


@pytest.mark.parametrize("name", list(SETTINGS))
def test_what_few_logits_give_for_any_mask_is_what_all_give_with_each(host: HostOps, name: str):
    random = np.random.default_rng(1)
    params, fetches, num_sure = SETTINGS[name], Fetches(), 0
    whole, few = (Sampler(params, host.new_draw) for _ in range(2))
    for _ in range(300):
        logits = random_row(random, 500)
        logits[random.integers(500)] += random.choice([0, 5, 15])
        use_penalties = bool(random.random() < 0.8)
        best = best_of(logits, None if params.temperature > 0 else fetches.of(logits))
        sure = few.sample_for_any_mask(best, use_penalties=use_penalties)
        if sure is not None:
            num_sure += 1
            for share in (0.002, 0.05, 0.5, 1.0):
                mask = TokenMask(500)
                for token_id in (sure, *np.flatnonzero(random.random(500) < share)):
                    mask.allow(int(token_id))
                assert whole.sample(logits, mask, use_penalties=use_penalties) == sure
        token_id = whole.sample(logits, use_penalties=use_penalties)
        for sampler in (whole, few):
            sampler.note(token_id)
    assert num_sure > (300 if params.temperature == 0 else 10) / 2


def test_few_logits_that_penalties_move_say_nothing_about_any_mask(host: HostOps):
    logits = np.linspace(8, 4, 200, dtype=np.float32)
    params = SamplingParams(temperature=0.1, top_k=2, presence_penalty=5.0)
    sampler = Sampler(params, host.new_draw)
    logits[0] = 20
    assert sampler.sample_for_any_mask(best_of(logits, None)) == 0
    for token_id in range(1, 63):
        sampler.note(token_id)
    assert sampler.sample_for_any_mask(best_of(logits, None)) == 0
    sampler.note(63)
    assert sampler.sample_for_any_mask(best_of(logits, None)) is None


def test_all_logits_are_not_fetched_where_nothing_is_moved_or_masked(host: HostOps):
    random = np.random.default_rng(3)
    fetches = Fetches()
    for name in ("greedy", "top_k", "all 64", "min_p", "hot"):
        sampler = Sampler(SETTINGS[name], host.new_draw)
        for _ in range(50):
            logits = random_row(random, 300)
            sampler.sample(best_of(logits, fetches.of(logits)))
    assert fetches.count == 0


def test_a_token_that_penalties_bring_among_the_best_is_found(host: HostOps):
    logits = np.linspace(8, 4, 200, dtype=np.float32)
    params = SamplingParams(temperature=0, presence_penalty=5.0)
    sampler, fetches = Sampler(params, host.new_draw), Fetches()
    for token_id in range(63):  # all but the last of the 64 best
        sampler.note(token_id)
    assert sampler.sample(best_of(logits, fetches.of(logits))) == 63
    assert fetches.count == 0
    sampler.note(63)
    assert sampler.sample(best_of(logits, fetches.of(logits))) == 64
    assert fetches.count == 1


def test_tokens_that_a_penalty_lifts_from_minus_infinity_are_asked_for(host: HostOps):
    logits = np.full(100, -2e38, np.float32)
    logits[:70] = -3e38
    logits[90:] = -np.inf
    params = SamplingParams(temperature=0, presence_penalty=1.0)
    whole, few = (Sampler(params, host.new_draw) for _ in range(2))
    for sampler in (whole, few):
        sampler.note(95)  # becomes -1e38
    assert whole.sample(logits) == few.sample(best_of(logits, lambda: logits)) == 95


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_rows_that_are_no_numbers_are_an_error_or_do_not_count(host: HostOps, bad: float):
    logits = np.linspace(0, 1, 100, dtype=np.float32)
    logits[7] = bad
    sampler = Sampler(SamplingParams(temperature=0), host.new_draw)
    with pytest.raises(BadLogitsError):
        sampler.sample(best_of(logits, lambda: logits))
    mask = TokenMask.without(100, [7])
    assert sampler.sample(best_of(logits, lambda: logits), mask) == 99


def test_a_mask_that_allows_nothing_is_an_error_as_with_all_logits(host: HostOps):
    logits = np.linspace(0, 1, 100, dtype=np.float32)
    sampler = Sampler(SamplingParams(temperature=0), host.new_draw)
    with pytest.raises(BadLogitsError):
        sampler.sample(best_of(logits, lambda: logits), TokenMask(100))


def test_settings_that_may_lift_other_tokens_want_all_logits(host: HostOps):
    for changed in (
        {"top_k": 0},
        {"top_k": MOST_CANDIDATES + 1},
        {"logit_bias": ((3, -1.0),)},
        {"presence_penalty": -0.5},
        {"frequency_penalty": -0.5},
        {"repetition_penalty": 0.9},
    ):
        params = SamplingParams(**{"temperature": 1.0, "top_k": 20, **changed})
        assert not Sampler(params, host.new_draw).takes_few
    assert not Sampler(SamplingParams(temperature=0)).takes_few  # nothing that draws them


def test_a_row_whose_other_logits_are_gone_gives_a_draft_anyway(host: HostOps):
    logits = np.linspace(8, 4, 200, dtype=np.float32)
    sampler = Sampler(SamplingParams(temperature=0, presence_penalty=5.0), host.new_draw)
    for token_id in range(64):
        sampler.note(token_id)
    assert sampler.sample(best_of(logits, None)) == 0
    with pytest.raises(ValueError, match="gone"):
        best_of(logits, None).all_logits()
