"""Requests that are cancelled, held, without room or on a lost card."""

import pytest

from engine.device.base import DeviceError
from engine.sequence.batch import Batch
from engine.sequence.scheduler import Scheduler, SchedulerLimits
from engine.worker.messages import Done, Tokens
from tests.engine.sequence.fake_model import (
    LIMITS,
    NUM_LAYERS,
    VOCAB,
    FakeModel,
    Run,
    greedy_answer,
    prompt_of,
    run,
    start,
)


def test_a_cancelled_prompt_is_left_at_the_next_layer_and_others_lose_nothing():
    result = Run()
    result.scheduler.submit(start("a", prompt_of(40)))
    result.scheduler.step()
    result.scheduler.submit(start("b", prompt_of(300)))
    result.at_layer[NUM_LAYERS + 2] = lambda: result.scheduler.cancel("b")
    result.scheduler.step()
    assert result.num_layers_seen == NUM_LAYERS + 2
    assert result.model.num_abandoned == 1
    assert result.done("b").reason == "cancelled"
    result.finish()
    assert result.ids("a") == greedy_answer(prompt_of(40), 20)


def test_a_cancelled_decode_ends_with_its_pass_and_sends_no_more_tokens():
    result = Run()
    result.scheduler.submit(start("a", prompt_of(5)))
    result.scheduler.submit(start("b", prompt_of(6)))
    result.scheduler.step()
    result.at_layer[NUM_LAYERS + 1] = lambda: result.scheduler.cancel("a")
    result.scheduler.step()
    assert result.model.num_abandoned == 0
    assert result.done("a").reason == "cancelled"
    assert len(result.ids("a")) == 1
    assert len(result.ids("b")) == 2
    result.finish()


def test_a_pass_whose_requests_are_all_cancelled_is_left():
    result = Run()
    result.scheduler.submit(start("a", prompt_of(5)))
    result.scheduler.step()
    result.at_layer[NUM_LAYERS + 1] = lambda: result.scheduler.cancel("a")
    result.scheduler.step()
    assert result.num_layers_seen == NUM_LAYERS + 1
    assert not result.scheduler.has_work


def test_a_waiting_request_is_cancelled_at_once_and_unknown_ones_are_ignored():
    result = Run()
    for i in range(4):
        result.scheduler.submit(start(f"r{i}", prompt_of(4, i)))
    result.scheduler.step()
    result.scheduler.cancel("r3")
    assert result.done("r3").reason == "cancelled"
    result.scheduler.cancel("nobody")
    result.scheduler.close()
    assert not result.model.alive
    assert result.done("r0").reason == "cancelled"


def test_a_request_that_finds_no_pages_pauses_until_another_ends():
    model = FakeModel(max_tokens=70)
    first, second = prompt_of(40, 1), prompt_of(40, 2)
    result = run(start("a", first, max_tokens=10), start("b", second, max_tokens=10), model=model)
    assert result.ids("a") == greedy_answer(first, 10)
    assert result.ids("b") == greedy_answer(second, 10)


def test_when_all_pause_the_youngest_ends_with_an_error():
    model = FakeModel(max_tokens=60)
    first, second = prompt_of(25, 1), prompt_of(25, 2)
    result = run(start("a", first, max_tokens=30), start("b", second, max_tokens=30), model=model)
    assert result.ids("a") == greedy_answer(first, 30)
    assert (result.done("b").reason, result.done("b").message) == ("error", "The cache is full.")


def test_a_request_that_alone_finds_no_pages_ends_with_an_error():
    result = run(start("a", prompt_of(50)), model=FakeModel(max_tokens=30))
    assert result.done("a").message == "The cache is full."


def test_a_model_with_fewer_places_than_parallel_serves_all_in_turn():
    result = run(*(start(f"r{i}", [i + 1]) for i in range(3)), model=FakeModel(max_sequences=1))
    assert [result.done(f"r{i}").reason for i in range(3)] == ["length"] * 3
    refused = run(start("a", [1]), model=FakeModel(max_sequences=0))
    assert refused.done("a").message == "No place for another sequence."


def test_closing_while_a_failed_batch_is_repeated_one_by_one_ends_everything_once():
    model = FakeModel(max_tokens=70)
    result = Run(model)
    result.scheduler.submit(start("a", prompt_of(40, 1)))
    result.scheduler.submit(start("b", prompt_of(40, 2)))
    result.at_layer[1] = result.scheduler.close  # "a" alone, after both together found no pages
    result.scheduler.step()
    assert not result.scheduler.has_work
    assert not model.alive
    assert [result.done(i).reason for i in "ab"] == ["cancelled", "cancelled"]


def test_a_request_cancelled_while_a_failed_batch_is_repeated_is_not_computed():
    model = FakeModel(max_tokens=70)
    result = Run(model)
    result.scheduler.submit(start("a", prompt_of(40, 1), max_tokens=2))
    result.scheduler.submit(start("b", prompt_of(20, 2), max_tokens=2))
    result.scheduler.submit(start("c", prompt_of(20, 3), max_tokens=2))
    result.at_layer[1] = lambda: result.scheduler.cancel("b")
    result.finish()
    assert result.done("b").reason == "cancelled"
    assert result.ids("a") == greedy_answer(prompt_of(40, 1), 2)
    assert result.ids("c") == greedy_answer(prompt_of(20, 3), 2)


def test_forced_tokens_of_a_request_that_was_cancelled_while_waiting_are_forgotten():
    result = Run(limits=SchedulerLimits(context=400, vocab_size=VOCAB, parallel=1))
    result.scheduler.submit(start("a", prompt_of(5), max_tokens=1))
    result.scheduler.submit(start("b", prompt_of(6), max_tokens=3))
    result.scheduler.step()
    result.scheduler.force("b", [7])
    result.scheduler.cancel("b")
    result.scheduler.submit(start("c", prompt_of(6), max_tokens=3))
    result.finish()
    assert result.ids("c") == greedy_answer(prompt_of(6), 3)


def test_a_held_request_pauses_and_others_and_cancels_go_on():
    run = Run()
    run.scheduler.submit(start("held", prompt_of(5), max_tokens=30))
    while sum(len(event.token_ids) for event in run.events if isinstance(event, Tokens)) < 3:
        run.scheduler.step()
    run.scheduler.hold("held", is_held=True)
    assert not run.scheduler.has_work
    run.scheduler.step()  # harmless
    run.scheduler.submit(start("other", prompt_of(7, 1), max_tokens=10))
    while run.scheduler.has_work:
        run.scheduler.step()
    assert [event.request_id for event in run.events if isinstance(event, Done)] == ["other"]
    run.scheduler.hold("held", is_held=False)
    while run.scheduler.has_work:
        run.scheduler.step()
    ids = [
        token_id
        for event in run.events
        if isinstance(event, Tokens) and event.request_id == "held"
        for token_id in event.token_ids
    ]
    assert ids == greedy_answer(prompt_of(5), 30)


def test_a_held_request_that_is_cancelled_ends():
    run = Run()
    run.scheduler.submit(start("held", prompt_of(5)))
    while not any(isinstance(event, Tokens) for event in run.events):
        run.scheduler.step()
    run.scheduler.hold("held", is_held=True)
    run.scheduler.cancel("held")
    assert run.scheduler.has_work
    run.scheduler.step()
    assert not run.scheduler.has_work
    assert run.events[-1].reason == "cancelled"


def test_nothing_is_to_be_done_while_pages_are_held_by_a_request_that_pauses():
    run = Run(FakeModel(max_tokens=70))
    first, second, third = prompt_of(40, 1), prompt_of(40, 2), prompt_of(5, 3)
    run.scheduler.submit(start("held", first, max_tokens=10))
    while not any(isinstance(event, Tokens) for event in run.events):
        run.scheduler.step()
    run.scheduler.hold("held", is_held=True)
    run.scheduler.submit(start("short", second, max_tokens=10))
    run.scheduler.step()
    run.scheduler.submit(start("waits", third, max_tokens=10))
    assert not run.scheduler.has_work  # else the worker would go round and round
    assert run.scheduler.has_requests
    run.scheduler.hold("held", is_held=False)
    run.finish()
    assert run.ids("short") == greedy_answer(second, 10)
    assert run.ids("waits") == greedy_answer(third, 10)
    assert not run.scheduler.has_requests


def test_a_lost_card_ends_the_scheduler_instead_of_request_after_request():
    model = FakeModel()
    scheduler = Scheduler(model, LIMITS, list[object]().append)
    scheduler.submit(start("a", [1, 2, 3], max_tokens=3))

    def lost(batch: Batch) -> None:
        raise DeviceError("The card fell off the bus.")

    model.layers = lost  # type: ignore[method-assign, assignment]
    with pytest.raises(DeviceError, match="off the bus"):
        scheduler.step()
