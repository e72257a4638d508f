"""The in-process loop on a golden model: real passes, real sampling."""

from pathlib import Path

import numpy as np
import pytest

from engine.core.config import OpsName, RunConfig
from engine.core.errors import EngineError
from engine.decode.generate import Generation, generate
from engine.sequence.batch import Batch, BatchEntry, LogitsWanted
from engine.worker.loading import load_model
from engine.worker.messages import PromptProgress, SamplingParams, Start

MODEL = Path(__file__).resolve().parents[2] / "golden" / "full.gguf"
PROMPT = [(7 * i + 3) % 300 for i in range(75)]
GREEDY = SamplingParams(temperature=0)


@pytest.fixture(scope="module")
def loaded():
    config = RunConfig(model=MODEL, ops=OpsName.REFERENCE, context=200, prompt_chunk=64)
    loaded = load_model(config, parallel=1)
    yield loaded
    loaded.close()


def ids(loaded, sampling: SamplingParams, max_tokens: int = 10, **more) -> list[int]:
    generation = generate(
        loaded.model, PROMPT, sampling, max_tokens, more.get("stop_ids", ()), loaded.limits
    )
    return [token.token_id for token in generation]


def test_greedy_tokens_are_the_largest_logits_of_one_pass_over_them_all(loaded):
    answer = ids(loaded, GREEDY)
    assert answer == ids(loaded, GREEDY)
    sequence = loaded.model.new_sequence()
    try:
        rows = []
        whole = PROMPT + answer
        for first in range(0, len(whole), 64):
            chunk = whole[first : first + 64]
            result = loaded.model.forward(Batch([BatchEntry(sequence, chunk, LogitsWanted.ALL)]))
            rows.append(result.logits.copy())
            sequence.commit(len(chunk))
        logits = np.concatenate(rows)  # (tokens, V)
        chosen = logits[len(PROMPT) - 1 : -1].argmax(axis=1)
        assert answer == chosen.tolist()
    finally:
        sequence.release()


def test_seeds_reproduce_and_differ(loaded):
    answers = [ids(loaded, SamplingParams(seed=seed)) for seed in (1, 1, 2)]
    assert answers[0] == answers[1] != answers[2]


def test_a_banned_token_never_comes(loaded):
    first = ids(loaded, GREEDY)[0]
    banned = SamplingParams(temperature=0, logit_bias=((first, -100.0),))
    assert first not in ids(loaded, banned)


def test_a_stop_id_ends_the_loop_and_the_reason_is_kept(loaded):
    answer = ids(loaded, GREEDY)
    generation = generate(loaded.model, PROMPT, GREEDY, 10, (answer[2],), loaded.limits)
    tokens = [token.token_id for token in generation]
    assert tokens == answer[: answer.index(answer[2]) + 1]
    assert generation.done is not None
    assert generation.done.reason == "stop"


def test_the_end_of_the_context_ends_the_loop(loaded):
    assert len(ids(loaded, GREEDY, max_tokens=1000)) == 200 - len(PROMPT)


def test_progress_is_told_and_a_closed_generation_gives_its_sequence_back(loaded):
    seen: list[PromptProgress] = []
    start = Start("x", tuple(PROMPT), 50, (), GREEDY)
    for _ in range(3):  # there is room for one sequence only
        generation = Generation(loaded.model, start, loaded.limits, seen.append)
        next(generation)
        generation.close()
        assert generation.done is not None
        assert generation.done.reason == "cancelled"
    assert [event.read for event in seen[:3]] == [0, 64, 75]


def test_forced_tokens_come_after_the_next_one(loaded):
    generation = generate(loaded.model, PROMPT, GREEDY, 6, (), loaded.limits)
    generation.force([5, 6])
    assert [token.token_id for token in generation][1:3] == [5, 6]


def test_what_cannot_be_generated_is_an_error_with_a_sentence(loaded):
    with pytest.raises(EngineError, match="context is 200"):
        next(generate(loaded.model, [1] * 200, GREEDY, 5, (), loaded.limits))
    with pytest.raises(EngineError, match="vocabulary"):
        next(generate(loaded.model, [10**6], GREEDY, 5, (), loaded.limits))


def test_logprobs_of_sampled_tokens_agree_with_a_greedy_choice(loaded):
    params = SamplingParams(temperature=0, top_logprobs=3)
    for token in generate(loaded.model, PROMPT, params, 4, (), loaded.limits):
        assert token.logprobs is not None
        assert token.logprobs.top[0] == (token.token_id, token.logprobs.logprob)
        values = [value for _, value in token.logprobs.top]
        assert values == sorted(values, reverse=True)
