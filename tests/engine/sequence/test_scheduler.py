"""The scheduler on a made-up model whose logits are a fixed function of the tokens before them."""

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from engine.core.errors import ResourceError
from engine.device.base import DeviceError
from engine.sequence.batch import Batch, LogitsWanted, PassResult, logit_rows
from engine.sequence.pass_parts import chunk_rows
from engine.sequence.scheduler import Scheduler, SchedulerLimits
from engine.worker.messages import Done, PromptProgress, SamplingParams, Start, Tokens

VOCAB = 50
STOP_ID = 49
NUM_LAYERS = 4
LIMITS = SchedulerLimits(context=400, vocab_size=VOCAB, prompt_chunk=128, parallel=3)


@dataclass(eq=False)
class FakeSequence:
    """Remembers its committed tokens; a pass must give exactly those that follow."""

    model: "FakeModel"
    tokens: list[int] = field(default_factory=list)
    pending: list[int] = field(default_factory=list)
    is_released: bool = False

    @property
    def length(self) -> int:
        return len(self.tokens)

    def commit(self, num_tokens: int) -> None:
        assert num_tokens <= len(self.pending)
        self.tokens += self.pending[:num_tokens]
        self.pending = []

    def release(self) -> None:
        assert not self.is_released
        self.is_released = True
        self.model.alive.remove(self)


class FakeModel:
    """Logits are drawn from the hash of all tokens so far: any mix-up changes the answer."""

    ngram_rows = None

    def __init__(self, max_sequences: int = 3, max_tokens: int = 10**9) -> None:
        self.alive: list[FakeSequence] = []
        self.passes: list[list[int]] = []  # rows per sequence of each finished pass
        self.num_abandoned = 0
        self.max_sequences = max_sequences
        self.max_tokens = max_tokens
        self.bad_tokens: set[int] = set()

    def new_sequence(self) -> FakeSequence:
        if len(self.alive) >= self.max_sequences:
            raise ResourceError("No place for another sequence.")
        self.alive.append(FakeSequence(self))
        return self.alive[-1]

    def new_lane(self, max_rows: int) -> "FakeLane":
        return FakeLane(self, max_rows)

    def layers(self, batch: Batch):
        finished = False
        assert not any(entry.state.is_released for entry in batch.entries)
        try:
            used = sum(sequence.length for sequence in self.alive)
            if used + batch.num_rows > self.max_tokens:
                raise ResourceError("The cache is full.")
            yield from range(NUM_LAYERS)
            starts = np.cumsum([0] + [len(entry.token_ids) for entry in batch.entries])
            rows = logit_rows([entry.logits for entry in batch.entries], starts)
            logits = np.zeros((len(rows), VOCAB), np.float32)
            wanted = [e for e in batch.entries if e.logits is LogitsWanted.LAST]
            for i, entry in enumerate(wanted):
                logits[i] = logits_after([*entry.state.tokens, *entry.token_ids])
                if self.bad_tokens & set(entry.token_ids):
                    logits[i] = np.nan
            for entry in batch.entries:
                entry.state.pending = list(entry.token_ids)
            self.passes.append([len(entry.token_ids) for entry in batch.entries])
            finished = True
            return PassResult(logits, rows, np.zeros((int(starts[-1]), 1, 1), np.float32), starts)
        finally:
            self.num_abandoned += not finished


class FakeLane:
    """Passes that are computed while one of the model's is left open."""

    def __init__(self, model: FakeModel, max_rows: int) -> None:
        self.model = model
        self.max_rows = max_rows

    def layers(self, batch: Batch):
        assert batch.num_rows <= self.max_rows
        return self.model.layers(batch)


def logits_after(tokens: list[int]) -> np.ndarray:
    seed = zlib.crc32(np.array(tokens, np.int64).tobytes())
    logits = np.random.default_rng(seed).normal(size=VOCAB).astype(np.float32) * 3
    logits[STOP_ID] = -50
    return logits


def greedy_answer(prompt: list[int], count: int) -> list[int]:
    tokens = list(prompt)
    for _ in range(count):
        tokens.append(int(logits_after(tokens).argmax()))
    return tokens[len(prompt) :]


def start(
    request_id: str, prompt: list[int], sampling: SamplingParams | None = None, **more: object
) -> Start:
    fields: dict[str, object] = {"max_tokens": 20, "stop_ids": (STOP_ID,)} | more
    sampling = sampling or SamplingParams(temperature=0)
    return Start(request_id, tuple(prompt), sampling=sampling, **fields)  # type: ignore[arg-type]


def prompt_of(length: int, seed: int = 0) -> list[int]:
    return [int(i) for i in np.random.default_rng(seed).integers(0, VOCAB - 1, length)]


class Run:
    """A scheduler with everything that it has sent."""

    def __init__(
        self,
        model: FakeModel | None = None,
        limits: SchedulerLimits = LIMITS,
        is_ready: Callable[[Start], bool] = lambda _: True,
    ) -> None:
        self.model = model or FakeModel()
        self.events: list[PromptProgress | Tokens | Done] = []
        self.num_layers_seen = 0
        self.at_layer: dict[int, object] = {}
        self.scheduler = Scheduler(
            self.model,
            limits,
            self.events.append,
            self._between_layers,  # type: ignore[arg-type]
            is_ready=is_ready,
        )

    def _between_layers(self) -> None:
        self.num_layers_seen += 1
        action = self.at_layer.get(self.num_layers_seen)
        if callable(action):
            action()

    def finish(self) -> "Run":
        for _ in range(2000):
            if not self.scheduler.has_work:
                assert not self.model.alive
                return self
            self.scheduler.step()
        raise AssertionError("the scheduler does not come to an end")

    def ids(self, request_id: str) -> list[int]:
        tokens = [e for e in self.events if isinstance(e, Tokens) and e.request_id == request_id]
        return [token_id for event in tokens for token_id in event.token_ids]

    def done(self, request_id: str) -> Done:
        found = [e for e in self.events if isinstance(e, Done) and e.request_id == request_id]
        assert len(found) == 1
        return found[0]


def run(*starts: Start, **more: object) -> Run:
    result = Run(**more)  # type: ignore[arg-type]
    for one in starts:
        result.scheduler.submit(one)
    return result.finish()


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


def test_forced_tokens_that_do_not_exist_are_ignored():
    result = Run()
    result.scheduler.submit(start("a", prompt_of(5), max_tokens=4))
    result.scheduler.force("a", [1, VOCAB])
    result.scheduler.step()
    result.scheduler.force("a", [-1])
    assert result.finish().ids("a") == greedy_answer(prompt_of(5), 4)


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


def test_a_lost_card_ends_the_scheduler_instead_of_request_after_request():
    model = FakeModel()
    scheduler = Scheduler(model, LIMITS, list[object]().append)
    scheduler.submit(start("a", [1, 2, 3], max_tokens=3))

    def lost(batch: Batch) -> None:
        raise DeviceError("The card fell off the bus.")

    model.layers = lost  # type: ignore[method-assign, assignment]
    with pytest.raises(DeviceError, match="off the bus"):
        scheduler.step()
