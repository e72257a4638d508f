"""Log probabilities by hand."""

import math

import numpy as np
import pytest

from engine.decode.logprobs import LOWEST_LOGPROB, token_logprobs
from engine.worker.messages import Tokens, encode

LOGITS = np.log([0.25, 0.1, 0.5, 0.15]).astype(np.float32) + 40


def test_values_are_the_log_softmax_of_the_raw_logits():
    entry = token_logprobs(LOGITS, 1, 3)
    assert entry.token_id == 1
    assert entry.logprob == pytest.approx(math.log(0.1), abs=1e-5)
    assert [token_id for token_id, _ in entry.top] == [2, 0, 3]
    assert [value for _, value in entry.top] == pytest.approx(
        [math.log(p) for p in (0.5, 0.25, 0.15)], abs=1e-5
    )


def test_no_alternatives_are_given_when_none_are_asked_for():
    assert token_logprobs(LOGITS, 2, 0).top == ()


def test_extreme_logits_give_finite_numbers_that_can_be_sent():
    entry = token_logprobs(np.array([3e38, -3e38, -np.inf], np.float32), 2, 3)
    assert entry.logprob == LOWEST_LOGPROB
    assert [value for _, value in entry.top] == [0.0, LOWEST_LOGPROB, LOWEST_LOGPROB]
    encode(Tokens("r", (2,), (entry,)))
