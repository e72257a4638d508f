"""Where windows of drafts end: loops, ends of turns, cancelled requests, a full cache; on a model that
says what stands in a script."""

from collections.abc import Callable

import numpy as np
import pytest

from engine.core.errors import ResourceError
from engine.decode.draft.costs import ModelBytes, PassCosts
from engine.decode.draft.drafting import Drafting, DraftSettings
from engine.decode.draft.policy import DraftPolicy
from engine.decode.rules import PHRASE_REPEATS
from engine.sequence.batch import Batch, PassResult, logit_rows
from engine.sequence.scheduler import Scheduler, SchedulerLimits
from engine.worker.messages import Done, SamplingParams, Start, Tokens
from tests.support.fake_sequence import FakeSequence

VOCAB = 60
STOP_ID = 59
NUM_LAYERS = 3
LIMITS = SchedulerLimits(context=900, vocab_size=VOCAB, prompt_chunk=128, parallel=3)
GREEDY = SamplingParams(temperature=0)
PHRASE = [11, 12, 13, 14, 15, 16, 17]


class ScriptedModel:
    """Says what a script holds: `scripts[first token]` gives the token behind a length.

    After tokens that are not those of the script it says something else, so that a draft which was
    wrongly kept changes the answer.
    """

    ngram_rows = None

    def __init__(self, scripts: dict[int, list[int]], max_tokens: int = 10**9) -> None:
        self.scripts = scripts
        self.max_tokens = max_tokens
        self.alive: list[FakeSequence] = []
        self.windows: list[int] = []  # rows of passes
        self.num_refused = 0
        self.at_layer: Callable[[int], None] = lambda _: None

    def new_sequence(self) -> FakeSequence:
        self.alive.append(FakeSequence(self))
        return self.alive[-1]

    def new_lane(self, max_rows: int) -> "ScriptedModel":
        return self

    def layers(self, batch: Batch):
        used = sum(sequence.length for sequence in self.alive)
        if used + batch.num_rows > self.max_tokens:
            self.num_refused += 1
            raise ResourceError("The cache is full.")
        for layer in range(NUM_LAYERS):
            self.at_layer(batch.num_rows)
            yield layer
        starts = np.cumsum([0] + [len(entry.token_ids) for entry in batch.entries])
        rows = logit_rows([entry.logits for entry in batch.entries], starts)
        said = np.zeros((int(starts[-1]), VOCAB), np.float32)
        for start, entry in zip(starts, batch.entries, strict=False):
            tokens = [*entry.state.tokens, *entry.token_ids]
            for i in range(len(entry.token_ids)):
                said[start + i, self.next_of(tokens[: entry.state.length + i + 1])] = 9.0
            entry.state.pending = list(entry.token_ids)
        self.windows.append(batch.num_rows)
        return PassResult(
            np.array([said[row] for row in np.atleast_1d(rows)], np.float32),
            rows,
            np.zeros((int(starts[-1]), 1, 1), np.float32),
            starts,
        )

    def next_of(self, tokens: list[int]) -> int:
        script = self.scripts[tokens[0]]
        if tokens != script[: len(tokens)]:
            return (sum(tokens) + len(tokens)) % (VOCAB - 1)
        return script[len(tokens)] if len(tokens) < len(script) else STOP_ID


class Run:
    """A scheduler with all that it has sent."""

    def __init__(self, model: ScriptedModel, *, with_drafts: bool) -> None:
        self.model = model
        self.events: list[object] = []
        self.drafting = None
        if with_drafts:
            costs = PassCosts(ModelBytes(dense=1e9, experts=0.0, num_experts=0, num_used=0))
            settings = DraftSettings(use_head=False, is_fixed=True)
            self.drafting = Drafting(settings, DraftPolicy(costs))
        self.scheduler = Scheduler(model, LIMITS, self.events.append, drafting=self.drafting)

    def of(self, *starts: Start) -> "Run":
        for start in starts:
            self.scheduler.submit(start)
        while self.scheduler.has_work:
            self.scheduler.step()
        assert not self.model.alive
        return self

    def ids(self, request_id: str) -> list[int]:
        return [
            token_id
            for event in self.events
            if isinstance(event, Tokens) and event.request_id == request_id
            for token_id in event.token_ids
        ]

    def end(self, request_id: str) -> Done:
        (done,) = [
            event
            for event in self.events
            if isinstance(event, Done) and event.request_id == request_id
        ]
        return done


def start(request_id: str, prompt: list[int], **more: object) -> Start:
    fields: dict[str, object] = {"max_tokens": 600, "stop_ids": (STOP_ID,)} | more
    return Start(request_id, tuple(prompt), sampling=GREEDY, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize("phrase", [PHRASE, PHRASE[:2], PHRASE[:1]])
def test_a_loop_is_ended_at_the_same_token_whether_it_was_drafted_or_not(phrase):
    script = [1, 2, 3, *phrase * 600]
    asked = start("a", script[:3], repeat_stop_tokens=200)
    plain = Run(ScriptedModel({1: script}), with_drafts=False).of(asked)
    drafted = Run(ScriptedModel({1: script}), with_drafts=True).of(asked)
    assert plain.end("a").reason == drafted.end("a").reason == "repeat"
    assert plain.ids("a") == drafted.ids("a")
    repeats = 200 if len(phrase) == 1 else PHRASE_REPEATS
    assert len(drafted.ids("a")) == repeats * len(phrase)
    timings = drafted.end("a").timings
    assert timings.draft_accepted > 0.8 * timings.generated_tokens
    assert len(drafted.model.windows) < len(plain.model.windows) / 5


def test_nothing_is_said_behind_the_end_of_a_turn_though_more_was_drafted():
    """The prompt holds a whole turn and what came after it; the answer says the same turn again."""
    turn = [20, 21, 22, 23, 24, STOP_ID, 30, 31, 32, 33, 34, 35, 36]
    script = [1, *turn, 2, *turn]
    asked = start("a", script[:15])
    for with_drafts in (False, True):
        run = Run(ScriptedModel({1: script}), with_drafts=with_drafts).of(asked)
        assert run.ids("a") == [20, 21, 22, 23, 24, STOP_ID]
        assert run.end("a").reason == "stop"
        assert run.end("a").timings.generated_tokens == 5
    assert max(run.model.windows[1:]) > 3  # the window went past the end
    assert run.end("a").timings.draft_accepted <= 5


def test_a_request_cancelled_in_a_window_sends_no_token_of_it_and_others_lose_nothing():
    first = [1, *PHRASE * 30]
    second = [2, *PHRASE[::-1] * 8]
    model = ScriptedModel({1: first, 2: second})
    run = Run(model, with_drafts=True)
    seen: list[int] = []

    def cancel_in_window(num_rows: int) -> None:
        if 10 < num_rows < 64 and not seen and len(run.ids("a")) > 10:
            seen.append(len(run.ids("a")))
            run.scheduler.cancel("a")

    model.at_layer = cancel_in_window
    run.of(start("a", first[:30]), start("b", second[:30]))
    assert seen
    assert run.end("a").reason == "cancelled"
    assert len(run.ids("a")) == seen[0]
    assert run.ids("a") == first[30 : 30 + seen[0]]
    assert run.ids("b") == [*second[30:], STOP_ID]


def test_drafts_that_find_no_room_in_the_cache_are_left_out_and_the_answer_goes_on():
    script = [1, *PHRASE * 12]
    asked = start("a", script[:29])
    model = ScriptedModel({1: script}, max_tokens=len(script) + 1)
    run = Run(model, with_drafts=True).of(asked)
    assert model.num_refused  # windows past the script's end would not have fitted
    assert run.ids("a") == [*script[29:], STOP_ID]
    assert run.end("a").reason == "stop"


@pytest.mark.parametrize("max_tokens", [95, 110, 130, 160])
def test_requests_that_fill_the_cache_fare_no_worse_than_without_drafts(max_tokens):
    scripts = {"a": [1, *PHRASE * 9], "b": [2, *PHRASE[::-1] * 9]}
    asked = [start(name, script[:30]) for name, script in scripts.items()]
    runs = [
        Run(
            ScriptedModel({s[0]: s for s in scripts.values()}, max_tokens), with_drafts=with_drafts
        ).of(*asked)
        for with_drafts in (False, True)
    ]
    for name, script in scripts.items():
        answer = [*script[30:], STOP_ID]
        reasons = [run.end(name).reason for run in runs]
        assert reasons[1] in {reasons[0], "stop"}
        for run, reason in zip(runs, reasons, strict=True):
            assert run.ids(name) == (answer if reason == "stop" else answer[: len(run.ids(name))])
    assert runs[1].end("a").reason == "stop"
    assert runs[1].end("a").timings.draft_accepted > 10


def test_what_the_head_takes_for_a_prompt_is_not_taken_from_the_time_of_a_window():
    script = [1, *range(3, 40)]
    run = Run(ScriptedModel({1: script}), with_drafts=True)
    drafting, noted = run.drafting, []
    tell = drafting.tell

    def tell_and_let_the_head_take_note(parts, num_others=0):
        tell(parts, num_others)
        if len(run.model.windows) == 1:  # the prompt
            drafting._head_s = 1e9

    drafting.tell = tell_and_let_the_head_take_note
    drafting._policy.costs.note = lambda num_rows, seconds, _: noted.append((num_rows, seconds))
    run.of(start("a", script[:8]))
    assert noted[0][0] == 0  # says nothing about windows
    assert [num_rows for num_rows, seconds in noted if seconds < 0] == [0]
    assert len(noted) > 8
