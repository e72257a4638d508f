"""Streams go on while a long prompt is read: with a clock that the made-up model moves itself."""

import itertools
from collections.abc import Callable

import numpy as np
import pytest

from engine.sequence.batch import Batch
from engine.sequence.pass_budget import PassBudget
from engine.sequence.scheduler import Scheduler, SchedulerLimits
from engine.worker.messages import Done, PromptProgress, Tokens
from tests.engine.sequence.fake_model import (
    NUM_LAYERS,
    VOCAB,
    FakeLane,
    FakeModel,
    greedy_answer,
    prompt_of,
    start,
)

SLICE_S = 0.1
LIMITS = SchedulerLimits(
    context=4000, vocab_size=VOCAB, prompt_chunk=256, parallel=4, prompt_slice_s=SLICE_S
)


class SlowModel(FakeModel):
    """Takes time for every layer: some for the pass, some for each row."""

    def __init__(self, row_s: float, pass_s: float = 0.0) -> None:
        super().__init__(max_sequences=4)
        self.now = 0.0
        self.row_s = row_s
        self.pass_s = pass_s
        self.most_lanes = 0

    def new_lane(self, max_rows: int) -> FakeLane:
        self.most_lanes += 1
        return FakeLane(self, max_rows)

    def layers(self, batch: Batch):
        layers = super().layers(batch)
        try:
            while True:
                self.now += (self.pass_s + batch.num_rows * self.row_s) / NUM_LAYERS
                yield next(layers)
        except StopIteration as end:
            return end.value
        finally:
            layers.close()


class Timed:
    """A run that notes when each message came."""

    def __init__(self, model: SlowModel, limits: SchedulerLimits = LIMITS) -> None:
        self.model = model
        self.events: list[tuple[float, PromptProgress | Tokens | Done]] = []
        self.scheduler = Scheduler(
            model,
            limits,
            lambda event: self.events.append((model.now, event)),
            lambda: self.between(),  # noqa: PLW0108  # tests set it later
            clock=lambda: model.now,
        )
        self.between: Callable[[], None] = lambda: None

    def finish(self) -> "Timed":
        for _ in range(3000):
            if not self.scheduler.has_work:
                assert not self.model.alive
                return self
            self.scheduler.step()
        raise AssertionError("the scheduler does not come to an end")

    def times(self, request_id: str) -> list[float]:
        return [t for t, e in self.events if isinstance(e, Tokens) and e.request_id == request_id]

    def ids(self, request_id: str) -> list[int]:
        return [
            token_id
            for _, e in self.events
            if isinstance(e, Tokens) and e.request_id == request_id
            for token_id in e.token_ids
        ]

    def done(self, request_id: str) -> Done:
        return next(e for _, e in self.events if isinstance(e, Done) and e.request_id == request_id)


def longest_gap(times: list[float]) -> float:
    return max(b - a for a, b in itertools.pairwise(times))


def test_a_long_prompt_on_a_slow_machine_never_stops_a_stream_for_long():
    """10 ms a row: the pass over 256 rows takes 2.6 s, and a stream's token must not wait for it."""
    run = Timed(SlowModel(row_s=0.01, pass_s=0.1))
    run.scheduler.submit(start("warm", prompt_of(300), max_tokens=1))
    run.finish()
    run.scheduler.submit(start("a", prompt_of(5), max_tokens=60))
    for _ in range(3):
        run.scheduler.step()
    run.scheduler.submit(start("b", prompt_of(1000, 1), max_tokens=3))
    run.finish()
    # a layer over 64 rows (the least that is cut) is longer than the slice; the stream's own pass
    assert longest_gap(run.times("a")) < (0.1 + 0.64) / NUM_LAYERS + 0.14
    assert run.ids("a") == greedy_answer(prompt_of(5), 60)
    assert run.ids("b") == greedy_answer(prompt_of(1000, 1), 3)


def test_the_prompt_gets_its_slices_too():
    run = Timed(SlowModel(row_s=0.01, pass_s=0.1))
    run.scheduler.submit(start("a", prompt_of(5), max_tokens=400))
    run.scheduler.step()
    run.scheduler.submit(start("b", prompt_of(512, 1), max_tokens=1))
    run.finish()
    read_s = run.times("b")[0] - run.times("a")[0]
    alone_s = 512 * 0.01 + 0.1 * 8
    assert read_s < 2.5 * alone_s


def test_a_fast_pass_takes_the_streams_along():
    run = Timed(SlowModel(row_s=0.0002))
    run.scheduler.submit(start("a", prompt_of(100), max_tokens=40))
    while not run.ids("a"):
        run.scheduler.step()
    run.scheduler.submit(start("b", prompt_of(600, 1), max_tokens=1))
    run.scheduler.step()
    assert run.model.passes[-1] == [1, 256]
    run.finish()
    assert run.model.most_lanes == 0


def test_all_streams_share_the_short_passes():
    run = Timed(SlowModel(row_s=0.01))
    for name in "abc":
        run.scheduler.submit(start(name, prompt_of(5, ord(name)), max_tokens=80))
    run.scheduler.step()
    run.scheduler.submit(start("d", prompt_of(500), max_tokens=1))
    run.finish()
    assert [1, 1, 1] in run.model.passes
    assert run.model.most_lanes == 1
    for name in "abc":
        assert run.ids(name) == greedy_answer(prompt_of(5, ord(name)), 80)


def test_long_prompts_take_turns():
    run = Timed(SlowModel(row_s=0.001))
    for name in "ab":
        run.scheduler.submit(start(name, prompt_of(1500, ord(name)), max_tokens=1))
    run.scheduler.step()
    run.scheduler.submit(start("c", prompt_of(200, 5), max_tokens=1))
    run.finish()
    read = [
        e.request_id
        for _, e in run.events
        if isinstance(e, PromptProgress) and 0 < e.read < e.total
    ]
    assert read[:5].count("a") >= 2
    assert read[:5].count("b") >= 2
    order = [e.request_id for _, e in run.events if isinstance(e, Done)]
    assert order[0] == "c"  # does not wait for two long prompts


def test_a_prompt_is_cancelled_at_a_layer_although_streams_are_served_in_between():
    run = Timed(SlowModel(row_s=0.01))
    run.scheduler.submit(start("a", prompt_of(5), max_tokens=30))
    run.scheduler.step()
    run.scheduler.submit(start("b", prompt_of(600), max_tokens=1))
    run.between = lambda: run.scheduler.cancel("b") if run.model.now > 1.0 else None
    run.finish()
    cancelled_at = next(t for t, e in run.events if isinstance(e, Done) and e.request_id == "b")
    assert cancelled_at < 1.0 + 2 * 256 * 0.01 / NUM_LAYERS
    assert run.done("b").reason == "cancelled"
    assert run.ids("a") == greedy_answer(prompt_of(5), 30)


def test_a_stream_is_cancelled_in_the_middle_of_anothers_prompt():
    run = Timed(SlowModel(row_s=0.01))
    run.scheduler.submit(start("a", prompt_of(5), max_tokens=300))
    run.scheduler.step()
    run.scheduler.submit(start("b", prompt_of(600), max_tokens=2))
    run.between = lambda: run.scheduler.cancel("a") if run.model.now > 1.0 else None
    run.finish()
    ended_at = next(t for t, e in run.events if isinstance(e, Done) and e.request_id == "a")
    assert ended_at < 1.0 + SLICE_S + 2 * 256 * 0.01 / NUM_LAYERS
    assert run.ids("b") == greedy_answer(prompt_of(600), 2)


def test_closing_in_the_middle_of_a_pass_ends_everything():
    run = Timed(SlowModel(row_s=0.01))
    run.scheduler.submit(start("a", prompt_of(5), max_tokens=300))
    run.scheduler.step()
    run.scheduler.submit(start("b", prompt_of(600), max_tokens=2))
    run.between = lambda: run.scheduler.close() if run.model.now > 1.0 else None
    run.finish()
    assert {run.done(name).reason for name in "ab"} == {"cancelled"}


def test_a_stream_without_pages_pauses_in_the_middle_of_anothers_prompt():
    run = Timed(SlowModel(row_s=0.01))
    run.model.max_tokens = 300
    run.scheduler.submit(start("a", prompt_of(20), max_tokens=100))
    run.scheduler.step()
    run.scheduler.submit(start("b", prompt_of(256), max_tokens=3))
    run.finish()
    assert run.ids("a") == greedy_answer(prompt_of(20), 100)
    assert run.ids("b") == greedy_answer(prompt_of(256), 3)


def test_forced_tokens_of_a_stream_do_not_wait_for_a_prompt():
    run = Timed(SlowModel(row_s=0.001))
    run.scheduler.submit(start("a", prompt_of(100), max_tokens=200))
    run.scheduler.step()
    run.scheduler.submit(start("b", prompt_of(1500, 1), max_tokens=1))
    run.scheduler.force("a", [7] * 20)
    run.finish()
    assert [21] in run.model.passes or any(21 in rows for rows in run.model.passes)
    assert longest_gap(run.times("a")) < SLICE_S + 0.256 / NUM_LAYERS + 0.05


@pytest.mark.parametrize("row_s", [0.0001, 0.002, 0.02])
def test_answers_do_not_depend_on_how_passes_are_divided(row_s: float):
    starts = [
        start("a", prompt_of(70, 1), max_tokens=30),
        start("b", prompt_of(500, 2), max_tokens=10),
        start("c", prompt_of(3, 3), max_tokens=50),
        start("d", prompt_of(700, 4), max_tokens=5),
    ]
    run = Timed(SlowModel(row_s))
    for one in starts:
        run.scheduler.submit(one)
        run.scheduler.step()
    run.finish()
    for one in starts:
        assert run.ids(one.request_id) == greedy_answer(list(one.prompt), one.max_tokens)


def test_the_budget_knows_nothing_at_first_and_learns_from_large_passes():
    budget = PassBudget(0.1)
    assert budget.is_short(8)
    assert not budget.is_short(9)
    assert budget.most_rows(256) == 256
    budget.note(16, 5.0, 5.0)  # says little about a row
    assert budget.most_rows(256) == 256
    budget.note(256, 2.56, 0.053)
    assert budget.is_short(10)
    assert not budget.is_short(11)
    assert budget.most_rows(256) == 256
    assert budget.most_rows(2048) == 448
    budget = PassBudget(0.1)
    budget.note(256, 25.6, 5.3)
    assert budget.most_rows(256) == 64
    assert np.isclose(budget.slice_s, 0.1)


def test_small_passes_that_take_as_long_as_large_ones_do_not_take_streams_along():
    """A card that lacks experts: 1.6 s a pass, 33 ms a layer, whatever the rows."""
    budget = PassBudget(0.1)
    budget.note(4096, 1.6, 0.033)
    assert not budget.is_short(64)  # in proportion it would be: 25 ms
    assert budget.is_short(16)  # a window, of which the processor computes the experts
    assert budget.most_rows(4096) == 4096
    budget.note(64, 1.4, 0.03)
    assert not budget.is_short(64)
    budget.note(64, 0.02, 0.001)  # all experts are on the card now
    budget.note(64, 0.02, 0.001)
    budget.note(64, 0.02, 0.001)
    budget.note(64, 0.02, 0.001)
    budget.note(64, 0.02, 0.001)
    assert budget.is_short(64)
    assert not budget.is_short(256)


def test_passes_are_made_smaller_only_where_that_makes_layers_shorter():
    budget = PassBudget(0.1)
    assert budget.most_rows(8192) == 2048  # before anything is known
    budget.note(4096, 9.0, 0.18)
    assert budget.most_rows(4096) == 2240  # tried: in proportion that would fit the slice
    budget.note(2240, 8.9, 0.178)  # a slow bus: the rows were not what took so long
    assert budget.most_rows(4096) == 4096
    budget = PassBudget(0.1)
    budget.note(4096, 9.0, 0.18)
    budget.note(2240, 5.0, 0.099)  # a slow card: they were
    assert budget.most_rows(4096) == 2240
    budget.note(2240, 7.0, 0.139)
    assert budget.most_rows(4096) < 2240
