"""Sampled tokens have the distribution that the model gives, whatever was drafted.

Output of a seed is even identical with drafts and without (tests/engine/decode/draft): a draw depends
on seed and position alone. Here the frequencies themselves are compared with what they must be, over
20,000 seeds that are fixed, so the outcome is the same on every machine.
"""

import numpy as np
import pytest

from engine.decode.rules import AnswerRules
from engine.decode.sampling import Sampler
from engine.decode.verify import verify
from engine.sequence.running_request import RunningRequest
from engine.worker.messages import SamplingParams, Start

VOCAB = 4
LENGTH = 3
NUM_DRAWS = 20_000
TEMPERATURE = 0.8
# Logits behind each token; the last row is behind the prompt. Another model drafts: alike, not equal.
LOGITS = np.random.default_rng(1).normal(0, 0.6, (VOCAB + 1, VOCAB)).astype(np.float32)
DRAFT_LOGITS = LOGITS + np.random.default_rng(2).normal(0, 0.6, LOGITS.shape).astype(np.float32)
START = VOCAB


def probabilities(logits):
    exponents = np.exp(logits.astype(np.float64) / TEMPERATURE)
    return exponents / exponents.sum(axis=-1, keepdims=True)


def wanted():
    """Probability of each answer of three tokens, `[V, V, V]`."""
    p = probabilities(LOGITS)
    return p[START][:, None, None] * p[:VOCAB][:, :, None] * p[:VOCAB][None, :, :]


def drawn_chain(request, newest, count):
    """Drafts as the draft head makes them: drawn with the numbers of their positions."""
    drafts = []
    for ahead in range(count):
        newest = request.sampler.sample(DRAFT_LOGITS[newest], ahead=ahead)
        drafts.append(newest)
    return drafts


def likely_chain(_, newest, count):
    """Drafts that nothing was drawn for, as looked-up tokens are."""
    drafts = []
    for _ in range(count):
        newest = int(DRAFT_LOGITS[newest].argmax())
        drafts.append(newest)
    return drafts


def request_of(seed, sampling):
    start = Start("r", (0,), LENGTH, (), SamplingParams(seed=seed, **sampling))
    return RunningRequest(
        start, None, AnswerRules(start, 100), Sampler(start.sampling), None, began_at=0.0
    )


def answer(seed, draft, sampling):
    """An answer by windows of two drafts; with it how many were offered and accepted."""
    request = request_of(seed, sampling)
    offered = accepted = 0
    reason = None
    while reason is None:
        written = request.tokens[1:]
        newest = written[-1] if written else START
        drafts = draft(request, newest, min(2, LENGTH - len(written)))
        verified = verify(request, LOGITS[[newest, *drafts]], drafts)
        offered += len(drafts)
        accepted += verified.num_accepted
        reason = verified.reason
    return tuple(request.tokens[1:]), offered, accepted


def chi_square(counts, expected):
    """The statistic in standard deviations from what it is on average."""
    freedom = counts.size - 1
    statistic = ((counts - expected) ** 2 / expected).sum()
    return (statistic - freedom) / np.sqrt(2 * freedom)


def counted(draft, sampling=None):
    sampling = sampling or {"temperature": TEMPERATURE}
    counts = np.zeros((VOCAB,) * LENGTH)
    offered = accepted = 0
    for seed in range(NUM_DRAWS):
        token_ids, more_offered, more_accepted = answer(seed, draft, sampling)
        counts[token_ids] += 1
        offered += more_offered
        accepted += more_accepted
    return counts, accepted / offered


@pytest.mark.slow
@pytest.mark.parametrize("draft", [drawn_chain, likely_chain])
def test_twenty_thousand_drafted_answers_have_the_models_distribution(draft):
    expected = wanted() * NUM_DRAWS
    assert expected.min() > 5  # else chi-square says nothing
    counts, share = counted(draft)
    assert 0.15 < share < 0.85  # many drafts are right and many wrong
    assert abs(chi_square(counts, expected)) < 3


def test_the_comparison_notices_drafts_that_are_taken_as_they_come():
    expected = wanted() * NUM_DRAWS
    p, q = probabilities(LOGITS), probabilities(DRAFT_LOGITS)
    mixed = p.copy()
    mixed[START] = 0.8 * p[START] + 0.2 * q[START]  # one of five first tokens is the draft's
    wrong = mixed[START][:, None, None] * p[:VOCAB][:, :, None] * p[:VOCAB][None, :, :]
    counts = np.random.default_rng(3).multinomial(NUM_DRAWS, wrong.ravel()).reshape(expected.shape)
    assert chi_square(counts, expected) > 4


@pytest.mark.parametrize("draft", [drawn_chain, likely_chain])
@pytest.mark.parametrize(
    "more", [{}, {"top_k": 3}, {"top_p": 0.8}, {"min_p": 0.2}, {"presence_penalty": 1.0}]
)
def test_each_seed_gives_the_answer_that_it_gives_without_drafts(draft, more):
    sampling = {"temperature": TEMPERATURE, **more}
    for seed in range(200):
        drafted, _, _ = answer(seed, draft, sampling)
        plain, _, _ = answer(seed, lambda *_: [], sampling)
        assert drafted == plain
