"""Sessions on golden models: what resumes where, what it computes then, and what goes first."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from engine.core.config import KvType
from engine.core.errors import ResourceError
from engine.core.model_sizes import checkpoint_bytes, kv_page_bytes
from engine.model.trunk import Model
from engine.sequence.batch import Batch, BatchEntry, LogitsWanted
from engine.sequence.prefix_tree import token_array
from engine.sequence.scheduler import Scheduler, SchedulerLimits
from engine.sequence.session_visit import Visit, next_step
from engine.sequence.sessions import CheckpointKind, Line, Sessions
from engine.sequence.state import SequenceState
from engine.worker.messages import Done, SamplingParams, Start, Tokens
from tests.support.golden import OPS_NAMES, REFERENCE_BOUND, arrays, load_golden

BIG = 1 << 30


def golden_tokens(case: str, count: int, seed: int = 0) -> list[int]:
    """Tokens of the golden sequence, then made-up ones."""
    known = arrays(case)["tokens"].tolist()
    more = np.random.default_rng(seed).integers(0, max(known), count)
    return [int(t) for t in [*known, *more][:count]]


def sessions_of(model: Model, budget_bytes: int = BIG) -> Sessions:
    return Sessions(model.store.pages, budget_bytes, model.store.page_bytes)


def read(
    model: Model,
    sessions: Sessions | None,
    prompt: Sequence[int],
    shared_prefix: int = 0,
    turn_start: int = 0,
    chunk: int = 128,
) -> tuple[SequenceState, Visit, np.ndarray]:
    """Read a prompt as the scheduler does; the logits are those of its last token."""
    visit = Visit(sessions, tuple(prompt), shared_prefix, turn_start)
    state = model.new_sequence()
    visit.resume(state)
    logits = np.empty(0)
    while state.length < len(prompt):
        stop = min(visit.next_stop(state.length), state.length // chunk * chunk + chunk)
        entry = BatchEntry(state, prompt[state.length : stop], LogitsWanted.LAST)
        logits = model.forward(Batch([entry])).logits[0].copy()
        state.commit(len(entry.token_ids))
        visit.note(state)
    return state, visit, logits


def leave(state: SequenceState, visit: Visit, tokens: Sequence[int], **fields: bool) -> None:
    visit.end(state, list(tokens), **fields)
    state.release()


def assert_nothing_leaks(model: Model, sessions: Sessions) -> None:
    """Every page is free or a checkpoint's, every slot is free, and all can be had back."""
    store = model.store
    assert len(store.free_slots) == model.limits.max_sequences
    assert store.pages.num_free + len(sessions.held_pages) == store.pages.num_pages
    sessions.clear()
    assert store.pages.num_free == store.pages.num_pages
    assert sessions.figures.num_bytes == 0


# -- what is computed after resuming -------------------------------------------------------------


@pytest.mark.parametrize("ops_name", OPS_NAMES)
@pytest.mark.parametrize("case", ["full", "odd"])
def test_a_repeated_prompt_gets_the_bits_that_it_got(case, ops_name):
    model = load_golden(case, ops_name)
    sessions = sessions_of(model)
    prompt = golden_tokens(case, 100)
    cold = read(model, None, prompt, 20, 93)
    first = read(model, sessions, prompt, 20, 93)
    np.testing.assert_array_equal(first[2], cold[2])
    again = read(model, sessions, prompt, 20, 93)
    assert (first[1].num_cached, again[1].num_cached) == (0, 93)
    np.testing.assert_array_equal(again[2], cold[2])


@pytest.mark.parametrize("ops_name", OPS_NAMES)
def test_a_shared_system_turn_gives_the_bits_of_reading_it_anew(ops_name):
    model = load_golden("full", ops_name)
    sessions = sessions_of(model)
    system = golden_tokens("full", 70)
    one, other = [*system, *range(5, 40)], [*system, *range(50, 100)]
    leave(*read(model, sessions, one, 70, 100)[:2], one)
    cold = read(model, None, other, 70, 115)
    warm = read(model, sessions, other, 70, 115)
    assert warm[1].num_cached == 70
    np.testing.assert_array_equal(warm[2], cold[2])


@pytest.mark.parametrize("ops_name", OPS_NAMES)
@pytest.mark.parametrize("case", ["full", "nople", "odd"])
def test_a_further_turn_agrees_with_reading_everything_anew(case, ops_name):
    model = load_golden(case, ops_name)
    sessions = sessions_of(model)
    tokens = golden_tokens(case, 200)
    state, visit, _ = read(model, sessions, tokens[:60], 10, 55)
    for position in range(60, 83):  # the answer, token by token
        model.forward(Batch([BatchEntry(state, tokens[position : position + 1])]))
        state.commit(1)
    leave(state, visit, tokens[:84])  # the last token of an answer was never computed
    warm = read(model, sessions, tokens[:150], 10, 144)
    cold = read(model, None, tokens[:150], 10, 144)
    assert warm[1].num_cached == 83
    if ops_name == "host":  # its rows have the same bits however they are cut into passes
        np.testing.assert_array_equal(warm[2], cold[2])
    else:  # whole blocks of 64 positions have a form of their own
        assert np.abs(warm[2] - cold[2]).max() <= REFERENCE_BOUND


def test_a_sequence_does_not_touch_the_checkpoint_that_it_began_with():
    model = load_golden("full", "host")
    sessions = sessions_of(model)
    prompt = golden_tokens("full", 100)
    wanted = read(model, sessions, prompt, 0, 90)[2]
    for last in (7, 8, 9):  # other turns write into the page in which the checkpoint ends
        other = [*prompt[:90], *([last] * 20)]
        leave(*read(model, sessions, other, 0, 95)[:2], other)
    np.testing.assert_array_equal(read_and_leave(model, sessions, prompt, 0, 90), wanted)


def read_and_leave(model: Model, sessions: Sessions, prompt: list[int], *borders: int):
    state, visit, logits = read(model, sessions, prompt, *borders)
    leave(state, visit, prompt)
    return logits


# -- where checkpoints lie -----------------------------------------------------------------------


def depths(sessions: Sessions) -> list[int]:
    return sorted(place.depth for place in sessions.tree)


def test_checkpoints_lie_at_the_system_turns_end_the_last_turns_beginning_and_the_end():
    model = load_golden("full", "host")
    sessions = sessions_of(model)
    prompt = golden_tokens("full", 100)
    read_and_leave(model, sessions, prompt, 20, 93)
    assert depths(sessions) == [20, 93, 100]
    kinds = {place.depth: place.value.kind for place in sessions.tree}
    assert kinds[20] is CheckpointKind.SYSTEM
    assert sessions.figures.sessions == 1
    assert sessions.figures.tokens == 100
    one = next(iter(sessions.tree)).value.checkpoint.num_bytes
    pages = len(sessions.held_pages) * model.store.page_bytes
    assert sessions.figures.num_bytes == 3 * one + pages


def test_a_prompt_without_turns_is_kept_at_its_last_multiple_of_64():
    model = load_golden("full", "host")
    sessions = sessions_of(model)
    prompt = golden_tokens("full", 150)
    read_and_leave(model, sessions, prompt)
    assert depths(sessions) == [128, 150]
    assert read(model, sessions, prompt)[1].num_cached == 128


def test_a_long_prompt_is_kept_on_its_way_at_growing_distances():
    model = load_golden("nople", "host", context=6000, kv_pages=260)
    sessions = sessions_of(model)
    prompt = golden_tokens("nople", 5200)
    visit = read(model, sessions, prompt, 0, 5190, chunk=256)[1]
    assert depths(sessions) == [1024, 2048, 3072, 4608, 5190]
    assert visit.num_cached == 0
    edited = [*prompt[:3000], *reversed(prompt[3000:3300])]
    assert read(model, sessions, edited, 0, 3290, chunk=256)[1].num_cached == 2048


def test_where_two_prompts_part_a_third_can_go_on():
    model = load_golden("nople", "host", context=1000, kv_pages=60)
    sessions = sessions_of(model)
    base = golden_tokens("nople", 400)
    prompts = [[*base, *([i] * 20)] for i in (1, 2, 3)]
    cached = [read_and_leave_cached(model, sessions, prompt) for prompt in prompts]
    assert cached == [0, 0, 384]


def read_and_leave_cached(model: Model, sessions: Sessions, prompt: list[int]) -> int:
    state, visit, _ = read(model, sessions, prompt, 0, 410)
    leave(state, visit, prompt)
    return visit.num_cached


def test_steps_grow_with_depth():
    steps, depth = [], 0
    while depth < 262_144:
        depth = next_step(depth)
        steps.append(depth)
    assert len(steps) < 18


# -- the scheduler -------------------------------------------------------------------------------


class Served:
    """A scheduler on a golden model, with everything that it has sent."""

    def __init__(
        self, model: Model, sessions: Sessions | None, prompt_chunk: int = 128, parallel: int = 3
    ) -> None:
        self.sessions = sessions
        self.events: list[object] = []
        self.scheduler = Scheduler(
            model,
            SchedulerLimits(model.limits.context, model.config.vocab_size, prompt_chunk, parallel),
            self.events.append,
            sessions=sessions,
        )

    def submit(self, name: str, prompt: Sequence[int], num: int = 4, **fields: object) -> None:
        sampling = fields.pop("sampling", SamplingParams(temperature=0))
        self.scheduler.submit(
            Start(name, tuple(prompt), num, (), sampling, **fields)  # type: ignore[arg-type]
        )

    def finish(self) -> None:
        for _ in range(5000):
            if not self.scheduler.has_work:
                return
            self.scheduler.step()
        raise AssertionError("the scheduler does not come to an end")

    def ask(self, prompt: Sequence[int], num: int = 4, **fields: object) -> tuple[list[int], int]:
        """The answer, and how much was cached."""
        name = str(len(self.events))
        self.submit(name, prompt, num, **fields)
        self.finish()
        return self.ids(name), self.done(name).timings.cached_tokens

    def ids(self, name: str) -> list[int]:
        messages = [e for e in self.events if isinstance(e, Tokens) and e.request_id == name]
        return [token_id for message in messages for token_id in message.token_ids]

    def done(self, name: str) -> Done:
        (found,) = [e for e in self.events if isinstance(e, Done) and e.request_id == name]
        return found


def test_two_conversations_alternate_and_read_only_what_is_new():
    model = load_golden("nople", "host", context=1000, kv_pages=100)
    warm, cold = Served(model, sessions_of(model)), Served(model, None)
    conversations = [golden_tokens("nople", 200, 1)[-150:], golden_tokens("nople", 300, 2)[-150:]]
    for turn in range(5):
        for history in conversations:
            history.extend([turn, 3, 5, 9, 11])
            borders = {"shared_prefix": 40, "turn_start": len(history) - 2}
            ids, cached = warm.ask(history, **borders)
            assert ids == cold.ask(history, **borders)[0]
            # the last generated token was sampled only; nothing else is read twice
            assert cached == (len(history) - 6 if turn else 0)
            history.extend(ids)
    assert warm.sessions is not None
    assert_nothing_leaks(model, warm.sessions)


def test_several_answers_to_one_prompt_read_it_once():
    model = load_golden("full", "host")
    served = Served(model, sessions_of(model))
    prompt = golden_tokens("full", 90)
    seeds = [SamplingParams(seed=seed) for seed in range(3)]
    cached = [served.ask(prompt, sampling=one, turn_start=85)[1] for one in seeds]
    assert cached == [0, 85, 85]


def test_requests_that_arrive_together_read_their_common_system_turn_once():
    model = load_golden("full", "host")
    served = Served(model, sessions_of(model))
    system = golden_tokens("full", 130)
    for name, last in (("a", 3), ("b", 4), ("c", 5)):
        served.submit(name, [*system, *([last] * 20)], shared_prefix=130, turn_start=145)
    served.finish()
    assert [served.done(name).timings.cached_tokens for name in "abc"] == [0, 130, 130]


def test_a_cancelled_prompt_goes_on_where_it_was_left():
    model = load_golden("nople", "host", context=1000, kv_pages=60)
    served = Served(model, sessions_of(model))
    prompt = golden_tokens("nople", 600)
    served.submit("a", prompt)
    served.scheduler.step()
    served.scheduler.step()
    served.scheduler.cancel("a")
    served.finish()
    assert served.done("a").reason == "cancelled"
    ids, cached = served.ask(prompt)
    assert cached == 256
    assert ids == Served(model, None).ask(prompt)[0]


def test_sessions_give_way_before_a_request_has_to_wait():
    model = load_golden("nople", "host", context=256, kv_pages=10)  # of 32 tokens
    served = Served(model, sessions_of(model))
    assert served.sessions is not None
    for seed in range(6):
        prompt = golden_tokens("nople", 400 + seed, seed)[-200:]
        served.ask(prompt, turn_start=190)
        assert served.events[-1].reason == "length"  # type: ignore[attr-defined]
    assert len(served.sessions.tree) > 0
    assert_nothing_leaks(model, served.sessions)


def test_a_budget_too_small_for_one_checkpoint_keeps_nothing():
    model = load_golden("full", "host")
    served = Served(model, sessions_of(model, budget_bytes=1000))
    prompt = golden_tokens("full", 90)
    assert [served.ask(prompt)[1] for _ in range(2)] == [0, 0]
    assert served.sessions is not None
    assert len(served.sessions.tree) == 0


def test_what_a_failed_request_made_or_used_is_not_kept():
    model = load_golden("full", "host")
    sessions = sessions_of(model)
    prompt = golden_tokens("full", 100)
    read_and_leave(model, sessions, prompt[:50], 0, 45)
    state, visit, _ = read(model, sessions, prompt, 0, 90)
    assert visit.num_cached == 50
    leave(state, visit, prompt, is_sound=False)
    assert depths(sessions) == [45]
    assert_nothing_leaks(model, sessions)


@pytest.mark.parametrize("seed", range(3))
def test_random_requests_get_what_they_get_alone_and_leak_nothing(seed):
    model = load_golden("nople", "host", context=256, kv_pages=20)
    one = 4 * 1024 * 40
    served = Served(model, sessions_of(model, budget_bytes=one * 8), prompt_chunk=64)
    cold = Served(model, None, prompt_chunk=64)
    rng = np.random.default_rng(seed)
    bases = [golden_tokens("nople", 400, i)[-200:] for i in range(3)]
    asked: list[tuple[list[int], int, dict[str, int]]] = []
    for number in range(40):
        base = bases[rng.integers(3)]
        prompt = [
            *base[: rng.integers(1, 200)],
            *map(int, rng.integers(0, 30, rng.integers(1, 40))),
        ]
        borders = sorted(map(int, rng.integers(0, len(prompt), 2)))
        fields = {"shared_prefix": borders[0], "turn_start": borders[1]}
        num = int(rng.integers(1, 12))
        served.submit(str(number), prompt, num, **fields)
        asked.append((prompt, num, fields))
        for _ in range(rng.integers(6)):
            served.scheduler.step()
        if rng.random() < 0.3:
            served.scheduler.cancel(str(rng.integers(number + 1)))
    served.finish()
    reasons = {served.done(str(number)).reason for number in range(40)}
    assert reasons <= {"length", "cancelled", "context"}
    assert sum(served.done(str(number)).timings.cached_tokens for number in range(40)) > 500
    for number, (prompt, num, fields) in enumerate(asked):
        alone, _ = cold.ask(prompt, num, **fields)
        assert served.ids(str(number)) == alone[: len(served.ids(str(number)))]
        if served.done(str(number)).reason != "cancelled":
            assert served.ids(str(number)) == alone
    assert served.sessions is not None
    assert len(served.sessions.tree) > 0
    assert_nothing_leaks(model, served.sessions)


@pytest.mark.parametrize("case", ["full", "nople", "odd"])
def test_placement_counts_what_a_checkpoint_and_a_page_take(case):
    model = load_golden(case, "reference")
    sessions = sessions_of(model)
    read_and_leave(model, sessions, golden_tokens(case, 20))
    checkpoint = next(iter(sessions.tree)).value.checkpoint
    assert checkpoint.num_bytes == checkpoint_bytes(model.config)
    page_tokens = model.store.pages.page_tokens
    assert model.store.page_bytes == kv_page_bytes(model.config, KvType.F32, page_tokens)


# -- what goes first -----------------------------------------------------------------------------


class Keeper:
    """Sessions with room for a number of checkpoints, filled by hand."""

    def __init__(self, room: int) -> None:
        self.model = load_golden("full", "reference")
        probe = self.model.new_sequence()
        self.extend(probe, [1])
        self.sessions = sessions_of(self.model, probe.fixed_bytes * room)
        probe.release()
        self.line = Line(rounds=1)

    def extend(self, state: SequenceState, tokens: list[int]) -> None:
        self.model.forward(Batch([BatchEntry(state, tokens)]))
        state.commit(len(tokens))

    def keep(self, name: int, kind: CheckpointKind, line: Line | None = None) -> bool:
        state = self.model.new_sequence()
        self.extend(state, [name, 1])
        tokens = token_array([name, 1])
        is_kept = self.sessions.keep(tokens, state, kind, line or self.line)
        state.release()
        return is_kept

    @property
    def names(self) -> set[int]:
        return {int(place.edge[0]) for place in self.sessions.tree}


def test_the_least_recently_used_goes_first_and_a_system_turn_last():
    keeper = Keeper(3)
    keeper.keep(1, CheckpointKind.SYSTEM)
    keeper.keep(2, CheckpointKind.TURN)
    keeper.keep(3, CheckpointKind.TURN)
    place = keeper.sessions.tree.deepest(token_array([2, 1]), 2)
    assert place is not None
    keeper.sessions.use(place)
    keeper.keep(4, CheckpointKind.TURN)
    assert keeper.names == {1, 2, 4}


def test_steps_and_what_the_conversation_has_left_behind_go_before_other_conversations():
    keeper = Keeper(4)
    other, line = Line(rounds=1), Line(rounds=1)
    keeper.keep(1, CheckpointKind.TURN, other)  # the longest unused
    keeper.keep(2, CheckpointKind.TURN, line)
    line.rounds = 3
    keeper.keep(3, CheckpointKind.TURN, line)
    keeper.keep(4, CheckpointKind.STEP, line)
    keeper.keep(5, CheckpointKind.TURN, line)
    assert keeper.names == {1, 3, 4, 5}
    keeper.keep(6, CheckpointKind.TURN, line)
    assert keeper.names == {1, 3, 5, 6}


def test_single_questions_do_not_drive_out_a_conversation_that_goes_on():
    keeper = Keeper(6)
    chat = Line(rounds=2)
    keeper.keep(1, CheckpointKind.TURN, chat)
    keeper.keep(2, CheckpointKind.TURN, chat)
    for name in range(10, 20):
        keeper.keep(name, CheckpointKind.TURN, Line(rounds=1))
    assert keeper.names == {1, 2, 16, 17, 18, 19}


def test_old_conversations_do_not_keep_new_ones_out():
    keeper = Keeper(4)
    for name in range(1, 5):
        keeper.keep(name, CheckpointKind.TURN, Line(rounds=5))
    new = Line(rounds=1)
    keeper.keep(8, CheckpointKind.TURN, new)
    keeper.keep(9, CheckpointKind.TURN, new)
    assert keeper.names == {3, 4, 8, 9}


def test_a_step_does_not_drive_out_a_conversation():
    keeper = Keeper(2)
    assert keeper.keep(1, CheckpointKind.TURN)
    assert keeper.keep(2, CheckpointKind.TURN)
    assert not keeper.keep(3, CheckpointKind.STEP)
    assert keeper.names == {1, 2}


def test_system_turns_that_change_with_every_request_do_not_fill_the_cache():
    keeper = Keeper(4)
    for name in range(10, 20):
        keeper.keep(name, CheckpointKind.SYSTEM)
    keeper.keep(1, CheckpointKind.TURN)
    keeper.keep(2, CheckpointKind.TURN)
    assert keeper.names == {18, 19, 1, 2}
    for name in range(20, 24):
        keeper.keep(name, CheckpointKind.SYSTEM)
    assert 23 in keeper.names
    keeper.keep(3, CheckpointKind.TURN)
    assert 23 in keeper.names


def test_pages_are_given_back_until_none_is_left_to_give():
    model = load_golden("nople", "reference", kv_pages=8)
    sessions = sessions_of(model)
    prompt = golden_tokens("nople", 130)
    read_and_leave(model, sessions, prompt, 0, 120)
    state = model.new_sequence()
    state.begin_pass([1] * 250, None)  # all pages there are
    assert len(sessions.tree) == 0
    state.release()
    other = model.new_sequence()
    other.begin_pass([1] * 200, None)
    with pytest.raises(ResourceError):
        model.new_sequence().begin_pass([1] * 100, None)
