"""The scheduler on a made-up model whose logits are a fixed function of the tokens before them."""

from dataclasses import replace

import pytest

from engine.sequence.pass_parts import chunk_rows
from engine.sequence.scheduler import SchedulerLimits
from engine.worker.messages import Done, PromptProgress, SamplingParams, Start, Tokens
from tests.engine.sequence.fake_model import (
    LIMITS,
    VOCAB,
    FakeModel,
    Run,
    greedy_answer,
    prompt_of,
    run,
    start,
)


def test_greedy_gives_the_models_own_continuation_and_counts_it():
    prompt = prompt_of(10)
    result = run(start("a", prompt))
    assert result.ids("a") == greedy_answer(prompt, 20)
    done = result.done("a")
    assert (done.reason, done.message) == ("length", "")
    assert (done.timings.prompt_tokens, done.timings.generated_tokens) == (10, 20)
    assert done.timings.prompt_ms > 0
    assert done.timings.generated_ms > 0


def test_a_long_prompt_is_read_in_chunks_with_progress():
    result = run(start("a", prompt_of(300), max_tokens=1))
    assert result.model.passes == [[128], [128], [44]]
    progress = [e for e in result.events if isinstance(e, PromptProgress)]
    assert [(e.read, e.total, e.cached) for e in progress] == [
        (0, 300, 0),
        (128, 300, 0),
        (256, 300, 0),
        (300, 300, 0),
    ]
    assert result.ids("a") == greedy_answer(prompt_of(300), 1)


@pytest.mark.parametrize("sampling", [SamplingParams(temperature=0), SamplingParams(seed=5)])
def test_requests_in_one_batch_get_the_tokens_that_each_gets_alone(sampling: SamplingParams):
    starts = [
        start("a", prompt_of(200, 1), sampling),
        start("b", prompt_of(3, 2), sampling, max_tokens=40),
        start("c", prompt_of(97, 3), SamplingParams(seed=9, top_k=5, presence_penalty=1.0)),
        start("d", prompt_of(1, 4), sampling, max_tokens=2),
        start("e", prompt_of(150, 5), sampling),
    ]
    together = run(*starts)
    assert any(len(rows) == 3 for rows in together.model.passes)
    for one in starts:
        assert together.ids(one.request_id) == run(one).ids(one.request_id)


def test_decoding_goes_on_while_another_prompt_is_read():
    result = Run()
    result.scheduler.submit(start("a", prompt_of(40)))  # shows how fast this model reads
    result.scheduler.step()
    result.scheduler.submit(start("b", prompt_of(300)))
    result.scheduler.step()
    assert result.model.passes[-1] == [1, 128]
    assert len(result.ids("a")) == 2
    result.finish()


def test_passes_never_exceed_the_rows_that_the_model_has_room_for():
    result = run(*(start(f"r{i}", prompt_of(100 + i, i)) for i in range(6)))
    assert max(sum(rows) for rows in result.model.passes) <= LIMITS.max_rows


def test_cuts_lie_at_multiples_of_64_whoever_shares_the_pass():
    result = run(start("a", prompt_of(100)), start("b", prompt_of(300)), start("c", prompt_of(70)))
    read: dict[str, set[int]] = {}
    for event in result.events:
        if isinstance(event, PromptProgress) and event.read < event.total:
            read.setdefault(event.request_id, set()).add(event.read % 64)
    assert read == {"a": {0}, "b": {0}, "c": {0}}


@pytest.mark.parametrize(
    ("length", "pending", "room", "chunk", "rows"),
    [
        (0, 40, 256, 256, 40),
        (0, 300, 256, 256, 256),
        (256, 44, 20, 256, 0),  # waits: its last 44 rows do not fit and no cut lies before
        (10, 300, 100, 256, 54),  # up to position 64
        (0, 300, 63, 256, 0),
        (5, 300, 7, 7, 7),  # passes below 64 rows hold no whole block anyway
        (0, 9, 1, 1, 1),
    ],
)
def test_chunk_rows(length: int, pending: int, room: int, chunk: int, rows: int):
    assert chunk_rows(length, pending, room, chunk) == rows


def test_requests_beyond_parallel_wait_in_order():
    result = Run()
    for i in range(5):
        result.scheduler.submit(start(f"r{i}", prompt_of(4, i), max_tokens=3))
    result.scheduler.step()
    report = result.scheduler.status(7)
    assert (report.running, report.waiting, report.memory_bytes) == (3, 2, 7)
    assert report.context_used_tokens == 12
    result.finish()
    ends = [event.request_id for event in result.events if isinstance(event, Done)]
    assert ends == ["r0", "r1", "r2", "r3", "r4"]


def test_a_request_that_is_not_ready_keeps_nobody_waiting():
    unready = {"a", "b"}
    result = Run(
        limits=replace(LIMITS, parallel=1), is_ready=lambda start: start.request_id not in unready
    )
    for name in ("a", "b", "c"):
        result.scheduler.submit(start(name, prompt_of(10)))
    result.finish()  # without work, although two wait
    assert result.done("c").reason == "length"
    assert result.scheduler.status(0).waiting == 2
    result.scheduler.cancel("b")
    assert result.done("b").reason == "cancelled"
    result.scheduler.force("a", [7])
    unready.clear()
    assert result.scheduler.has_work
    result.finish()
    assert result.ids("a")[1] == 7


def test_a_stop_id_is_the_last_token_sent_and_not_counted():
    prompt = prompt_of(10)
    answer = greedy_answer(prompt, 20)
    first_index = answer.index(answer[5])
    result = run(start("a", prompt, stop_ids=(answer[5],)))
    assert result.ids("a") == answer[: first_index + 1]
    assert result.done("a").reason == "stop"
    assert result.done("a").timings.generated_tokens == first_index


def test_the_end_of_the_context_ends_the_answer_with_every_token_used():
    result = run(start("a", prompt_of(390), max_tokens=1000))
    assert result.done("a").reason == "context"
    assert len(result.ids("a")) == 10


def test_a_token_that_repeats_ends_the_answer():
    always_3 = SamplingParams(temperature=0, logit_bias=((3, 99.0),))
    result = run(start("a", prompt_of(5), always_3, repeat_stop_tokens=4))
    assert result.ids("a") == [3] * 4
    assert result.done("a").reason == "repeat"


def test_penalties_are_off_between_call_open_and_close():
    # Two tokens far above all others, the first one ahead: a penalty on the last token makes them
    # alternate, without it the first one wins every time.
    sampling = SamplingParams(
        temperature=0,
        logit_bias=((3, 900.0), (4, 850.0)),
        presence_penalty=2.0,
        frequency_penalty=200.0,
        penalty_last_n=1,
    )
    outside = run(start("a", prompt_of(5), sampling, max_tokens=6))
    assert outside.ids("a") == [3, 4, 3, 4, 3, 4]
    inside = run(start("a", prompt_of(5), sampling, max_tokens=6, call_open_id=4))
    assert inside.ids("a") == [3, 4, 3, 3, 3, 3]
    closed = run(start("a", prompt_of(5), sampling, max_tokens=6, call_open_id=4, call_close_id=3))
    assert closed.ids("a") == [3, 4, 3, 4, 3, 4]


def test_logprobs_come_with_every_token_forced_ones_being_certain():
    prompt = prompt_of(5)
    params = SamplingParams(temperature=0, top_logprobs=2)
    result = Run()
    result.scheduler.submit(start("a", prompt, params, max_tokens=3))
    result.scheduler.force("a", [7])
    result.finish()
    entries = [lp for e in result.events if isinstance(e, Tokens) for lp in e.logprobs]
    assert [entry.token_id for entry in entries] == result.ids("a")
    assert result.ids("a")[1] == 7
    assert entries[1].logprob == 0.0
    assert len(entries[0].top) == 2
    assert entries[0].top[0] == (entries[0].token_id, entries[0].logprob)


def test_forced_tokens_follow_the_next_token_and_the_answer_goes_on_from_them():
    prompt = prompt_of(5)
    answer = greedy_answer(prompt, 3)
    result = Run()
    result.scheduler.submit(start("a", prompt, max_tokens=8))
    result.scheduler.step()
    result.scheduler.step()
    result.scheduler.force("a", [7, 8])
    result.scheduler.force("nobody", [7])
    result.finish()
    expected = [*answer, 7, 8]
    assert result.ids("a") == expected + greedy_answer(prompt + expected, 3)
    assert result.done("a").timings.generated_tokens == 8


def test_forced_tokens_stop_at_the_cap():
    result = Run()
    result.scheduler.submit(start("a", prompt_of(5), max_tokens=3))
    result.scheduler.force("a", [7, 8, 9, 10])
    result.finish()
    assert result.ids("a")[1:] == [7, 8]
    assert result.done("a").reason == "length"


def test_the_thinking_budget_and_the_rescue_go_on_from_the_appended_tokens():
    prompt = prompt_of(5)
    answer = greedy_answer(prompt, 3)
    budget = run(
        start("a", prompt, think_close_id=48, think_budget=3, budget_ids=(7, 48), max_tokens=7)
    )
    expected = [*answer, 7, 48]
    assert budget.ids("a") == expected + greedy_answer(prompt + expected, 2)
    rescue = run(
        start(
            "a", prompt, stop_ids=(answer[0],), think_close_id=48, rescue_ids=(48, 7), max_tokens=4
        )
    )
    assert rescue.ids("a")[:2] == [48, 7]
    assert rescue.ids("a")[2:3] == greedy_answer([*prompt, 48, 7], 1)


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (start("a", []), "at least one prompt token"),
        (start("a", [1], max_tokens=0), "at least one prompt token"),
        (start("a", [1, VOCAB]), "not in the model's vocabulary of 50"),
        (start("a", [-1]), "not in the model's vocabulary"),
        (start("a", [1], SamplingParams(logit_bias=((VOCAB, 1.0),))), "not in the model's voc"),
        (start("a", [1] * 400), "context is 400"),
    ],
)
def test_a_request_that_can_never_run_is_refused_in_words(bad: Start, reason: str):
    result = run(bad)
    assert result.done("a").reason == "error"
    assert reason in result.done("a").message


def test_numbers_that_are_none_end_one_request_and_the_other_goes_on():
    model = FakeModel()
    model.bad_tokens = {30}
    good, bad = [1, 2, 3], [4, 30]
    result = run(start("a", good, max_tokens=3), start("b", bad), model=model)
    assert result.done("b").reason == "error"
    assert "no usable numbers" in result.done("b").message
    assert result.ids("a") == greedy_answer(good, 3)


def test_forced_tokens_that_do_not_exist_are_ignored():
    result = Run()
    result.scheduler.submit(start("a", prompt_of(5), max_tokens=4))
    result.scheduler.force("a", [1, VOCAB])
    result.scheduler.step()
    result.scheduler.force("a", [-1])
    assert result.finish().ids("a") == greedy_answer(prompt_of(5), 4)


@pytest.mark.parametrize("chunk", [1, 63, 64, 65, 128])
def test_long_forced_texts_and_prompts_of_all_sizes_come_to_an_end(chunk: int):
    limits = SchedulerLimits(context=400, vocab_size=VOCAB, prompt_chunk=chunk, parallel=3)
    result = Run(limits=limits)
    lengths = [1, 63, 64, 65, 129, 300, 399]
    for length in lengths:
        result.scheduler.submit(start(f"r{length}", prompt_of(length, length), max_tokens=200))
        result.scheduler.force(f"r{length}", prompt_of(150, 7))
    result.finish()
    for length in lengths:
        prompt = prompt_of(length, length)
        forced = greedy_answer(prompt, 1) + prompt_of(150, 7)
        wanted = forced + greedy_answer(prompt + forced, 49)
        assert result.ids(f"r{length}") == wanted[: 400 - length]
