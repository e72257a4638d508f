"""Drafts on the bundled model: the same tokens as without, whatever is drafted."""

import itertools
from contextlib import contextmanager
from dataclasses import replace

import pytest

from engine.core.config import BUNDLED_MODEL, RunConfig
from engine.decode.constraint import AnswerConstraint
from engine.decode.draft.policy import RequestPolicy
from engine.decode.grammar_vocabulary import GrammarVocabulary
from engine.text.events import ToolSpec
from engine.text.grammar import answer_grammar
from engine.text.output_rules import (
    ANY_TOOL,
    FREE_TEXT,
    CallMode,
    FormatKind,
    ResponseFormat,
    ToolChoice,
)
from engine.text.tokenizer import Tokenizer
from engine.worker.answer_limits import ordered_stop_ids, with_call_rules
from engine.worker.loading import load_model
from engine.worker.messages import SamplingParams, Start
from tests.support.drafted_runs import SETTINGS, answers_of, chat, named_drafting

STORY = "The quick brown fox jumps over the lazy dog, and then it sleeps. "
GREEDY = SamplingParams(temperature=0)


@pytest.fixture(scope="module")
def loaded():
    model = load_model(RunConfig(model=BUNDLED_MODEL, context=2048, parallel=3, threads=1))
    yield model
    model.close()


@pytest.fixture(scope="module")
def tokenizer(loaded):
    return Tokenizer.from_metadata(loaded.header.metadata)


def starts(tokenizer, sampling=GREEDY, max_tokens=60):
    texts = [
        f"Repeat this text: {STORY * 3}",
        "What does the noun river mean?",
        "Rename total to sum in this function:\n\ndef add(total, x):\n    return total + x",
        "Hello",
        STORY,
    ]
    stops = ordered_stop_ids(tokenizer)
    return [
        Start(f"r{i}", chat(tokenizer, text), max_tokens, stops, sampling)
        for i, text in enumerate(texts)
    ]


@pytest.mark.parametrize("name", sorted(SETTINGS))
def test_greedy_answers_are_the_same_with_drafts(loaded, tokenizer, name):
    wanted, plain_ends = answers_of(loaded, starts(tokenizer))
    drafts = named_drafting(loaded, name)
    got, ends = answers_of(loaded, starts(tokenizer), drafts)
    assert got == wanted
    assert {i: e.reason for i, e in ends.items()} == {i: e.reason for i, e in plain_ends.items()}
    for end in ends.values():
        assert 0 <= end.timings.draft_accepted <= end.timings.draft_tokens
    if name != "policy":
        assert sum(end.timings.draft_accepted for end in ends.values()) > 20


@pytest.mark.parametrize("name", ["both", "head"])
@pytest.mark.parametrize("temperature", [0.7, 1.0])
def test_sampled_answers_of_a_seed_are_the_same_with_drafts(loaded, tokenizer, name, temperature):
    sampling = SamplingParams(
        temperature=temperature, top_k=40, top_p=0.95, seed=11, presence_penalty=0.6
    )
    wanted, _ = answers_of(loaded, starts(tokenizer, sampling))
    got, ends = answers_of(loaded, starts(tokenizer, sampling), named_drafting(loaded, name))
    assert got == wanted
    assert sum(end.timings.draft_accepted for end in ends.values()) > 5


def test_a_copied_text_comes_in_long_windows(loaded, tokenizer):
    copy = replace(starts(tokenizer)[0], max_tokens=48)
    _, plain = answers_of(loaded, [copy])
    assert plain["r0"].timings.draft_tokens == 0
    drafts = named_drafting(loaded, "lookup")
    _, ends = answers_of(loaded, [copy], drafts)
    timings = ends["r0"].timings
    assert timings.draft_accepted >= 0.8 * timings.generated_tokens
    assert drafts.totals["lookup"].accepted == timings.draft_accepted


def test_requests_that_never_run_alone_draft_too_and_the_head_rests_where_it_does_not_pay(
    loaded, tokenizer
):
    copies = [replace(starts(tokenizer)[0], request_id=f"r{i}", max_tokens=64) for i in range(3)]
    drafting = named_drafting(loaded, "policy")
    wanted, _ = answers_of(loaded, copies)
    got, ends = answers_of(loaded, copies, drafting)
    assert got == wanted
    assert sum(end.timings.draft_tokens for end in ends.values()) > 0


def test_the_head_is_weighed_with_the_rows_of_the_others_once_a_step_without_drafts_is_known(
    loaded, tokenizer, monkeypatch
):
    copies = [replace(starts(tokenizer)[0], request_id=f"r{i}", max_tokens=32) for i in range(3)]
    drafting, asked = named_drafting(loaded, "policy"), []
    head_length = RequestPolicy.head_length

    def noted(self, most, other_rows=0, num_sharing=1):
        asked.append((other_rows, num_sharing, drafting._policy.costs.is_known))
        return head_length(self, most, other_rows, num_sharing)

    monkeypatch.setattr(RequestPolicy, "head_length", noted)
    answers_of(loaded, copies, drafting)
    assert (2, 3, True) in asked
    assert all(is_known for _, _, is_known in asked)


@pytest.mark.parametrize("max_tokens", range(1, 20))
def test_an_answer_ends_at_its_limit_also_in_the_middle_of_a_window(loaded, tokenizer, max_tokens):
    copy = replace(starts(tokenizer)[0], max_tokens=max_tokens)
    wanted, _ = answers_of(loaded, [copy])
    got, ends = answers_of(loaded, [copy], named_drafting(loaded, "both"))
    assert got == wanted
    assert len(got["r0"]) == max_tokens
    assert ends["r0"].reason == "length"


def test_the_context_ends_an_answer_in_the_middle_of_a_window(loaded, tokenizer):
    filled = chat(tokenizer, f"Repeat this text: {STORY}")
    filled = (*filled[:5] * 2000, *filled)[-(loaded.limits.context - 9) :]
    start = Start("r", filled, 500, (), GREEDY)
    wanted, _ = answers_of(loaded, [start])
    got, ends = answers_of(loaded, [start], named_drafting(loaded, "both"))
    assert (got, ends["r"].reason) == (wanted, "context")


def test_constrained_answers_are_the_same_with_drafts(loaded, tokenizer):
    vocabulary = GrammarVocabulary(tokenizer)
    tool = ToolSpec(
        "f",
        {
            "properties": {"n": {"enum": [1, 22, 333]}, "text": {"type": "string"}},
            "required": ["n", "text"],
        },
    )
    constraint = answer_grammar(
        [tool], ToolChoice(CallMode.REQUIRED), FREE_TEXT, is_parallel=False
    ).constraint
    sampling = SamplingParams(temperature=1.0, seed=5, frequency_penalty=0.4)
    stops = ordered_stop_ids(tokenizer)
    asked = [
        with_call_rules(
            Start(f"r{i}", chat(tokenizer, text), 90, stops, sampling, constraint=constraint),
            tokenizer,
        )
        for i, text in enumerate(["Call.", f"Say {STORY}", "1 22 333 1 22 333"])
    ]

    def constrain(start):
        return AnswerConstraint(start, vocabulary)

    wanted, _ = answers_of(loaded, asked, constrain=constrain)
    for name in ("both", "head", "lookup"):
        got, _ = answers_of(loaded, asked, named_drafting(loaded, name), constrain=constrain)
        assert got == wanted


def test_tokens_that_a_form_forces_come_together_and_are_those_that_come_one_by_one(
    loaded, tokenizer
):
    """With log-probabilities the model is asked about each token, without them it is not."""
    schema = {
        "type": "array",
        "minItems": 4,
        "items": {
            "type": "object",
            "properties": {"kindness": {"type": "boolean"}, "temperature": {"enum": ["warm"]}},
            "required": ["kindness", "temperature"],
        },
    }
    form = ResponseFormat(FormatKind.JSON_SCHEMA, schema)
    constraint = answer_grammar([], ANY_TOOL, form).constraint
    vocabulary = GrammarVocabulary(tokenizer)
    prompt, stops = chat(tokenizer, "A list."), ordered_stop_ids(tokenizer)

    def constrain(start):
        return AnswerConstraint(start, vocabulary)

    for temperature, max_tokens in itertools.product((0.0, 1.0), (30, 31, 32, 80)):
        sampling = SamplingParams(temperature=temperature, seed=3)
        quick = Start("r", prompt, max_tokens, stops, sampling, constraint=constraint)
        slow = replace(quick, sampling=replace(sampling, top_logprobs=0))
        with watched_passes(loaded.model) as passes:
            got, ends = answers_of(loaded, [quick], constrain=constrain)
            num_quick = len(passes)
            wanted, slow_ends = answers_of(loaded, [slow], constrain=constrain)
        assert got == wanted
        assert ends["r"].reason == slow_ends["r"].reason
        assert num_quick < 0.9 * (len(passes) - num_quick)


@contextmanager
def watched_passes(model):
    """The number of rows of each pass."""
    passes = []
    layers = model.layers

    def noted(batch, *more):
        passes.append(batch.num_rows)
        return layers(batch, *more)

    model.layers = noted
    try:
        yield passes
    finally:
        del model.layers


def test_a_further_turn_goes_on_from_what_drafts_left(loaded, tokenizer):
    """Kept states hold exactly the accepted tokens, and the head's cache goes on with them."""
    first = starts(tokenizer)[0]
    plain, _ = answers_of(loaded, [first])
    question = chat(tokenizer, "And now what does the noun dog mean?")
    second = replace(
        first, request_id="r9", prompt=(*first.prompt, *plain["r0"], *question), max_tokens=40
    )
    wanted, _ = answers_of(loaded, [second])
    for name in ("both", "head"):
        loaded.sessions.clear()
        drafts = named_drafting(loaded, name)
        answers_of(loaded, [first], drafts, loaded.sessions)
        got, ends = answers_of(loaded, [second], drafts, loaded.sessions)
        assert ends["r9"].timings.cached_tokens >= len(first.prompt)
        assert got == wanted
        if name == "head":
            timings = ends["r9"].timings
            assert timings.draft_accepted > 0.3 * timings.draft_tokens
    loaded.sessions.clear()


def test_the_head_takes_note_of_one_row_more_than_a_pass_has(loaded, tokenizer):
    """A restored sequence's newest row comes on top; with a full pass behind it this was an end."""
    prompt = chat(tokenizer, STORY * 60)
    stops = ordered_stop_ids(tokenizer)
    first = Start("r0", prompt[:640], 1, stops, GREEDY)
    second = Start("r1", prompt, 40, stops, GREEDY)
    assert len(prompt) >= 640 + 256
    wanted, _ = answers_of(loaded, [second])
    drafts = named_drafting(loaded, "head")
    loaded.sessions.clear()
    answers_of(loaded, [first], drafts, loaded.sessions)
    got, ends = answers_of(loaded, [second], drafts, loaded.sessions)
    loaded.sessions.clear()
    assert ends["r1"].timings.cached_tokens % 64 == 0 < ends["r1"].timings.cached_tokens
    assert got == wanted
    assert ends["r1"].timings.draft_tokens > 0


def test_the_head_reads_long_passes_of_the_trunk_in_several_of_its_own(tokenizer):
    config = RunConfig(model=BUNDLED_MODEL, context=2048, parallel=1, threads=1, prompt_chunk=1024)
    large = load_model(config)
    try:
        prompt, stops = chat(tokenizer, STORY * 60), ordered_stop_ids(tokenizer)
        assert len(prompt) > 3 * large.model.limits.of_head().max_rows
        one = Start("r0", prompt, 40, stops, GREEDY)
        wanted, _ = answers_of(large, [one])
        got, ends = answers_of(large, [one], named_drafting(large, "head"))
    finally:
        large.close()
    assert got == wanted
    assert ends["r0"].timings.draft_accepted > 0


def test_no_request_sees_the_tokens_of_another(loaded, tokenizer):
    copy, other = starts(tokenizer)[0], starts(tokenizer)[3]
    drafts = named_drafting(loaded, "lookup")
    alone, alone_ends = answers_of(loaded, [other], named_drafting(loaded, "lookup"))
    answers_of(loaded, [copy], drafts)
    after, after_ends = answers_of(loaded, [other], drafts)
    assert after == alone
    timings = [ends["r3"].timings for ends in (alone_ends, after_ends)]
    assert timings[0].draft_tokens == timings[1].draft_tokens


def test_a_head_that_belongs_to_another_model_is_noticed(loaded, tokenizer, caplog):
    drafts = named_drafting(loaded, "head")
    right = itertools.repeat(0)
    original = drafts._head.take_note
    drafts._head.take_note = lambda told: [[next(right)] * 3 for _ in original(told)]
    for i in range(4):
        start = replace(starts(tokenizer)[1], request_id=f"r{i}", stop_ids=())
        answers_of(loaded, [start], drafts)
    assert "does not seem to belong to this model" in caplog.text


def test_timings_name_what_each_drafter_offered(loaded, tokenizer):
    _, ends = answers_of(loaded, starts(tokenizer)[:1], named_drafting(loaded, "both"))
    timings = ends["r0"].timings
    assert {name for name, _, _ in timings.drafters} <= {"mtp", "lookup"}
    assert sum(offered for _, offered, _ in timings.drafters) == timings.draft_tokens > 0
    assert sum(accepted for _, _, accepted in timings.drafters) == timings.draft_accepted


def test_calibration_sets_the_least_probability_of_a_draft_for_one_request(loaded, tokenizer):
    offered = {}
    wanted, _ = answers_of(loaded, starts(tokenizer))
    for min_p in (0.0, 0.5, 0.9):
        asked = [replace(s, tuning=(("spec_min_p", min_p),)) for s in starts(tokenizer)]
        got, ends = answers_of(loaded, asked, named_drafting(loaded, "head"))
        assert got == wanted
        offered[min_p] = sum(end.timings.draft_tokens for end in ends.values())
    assert offered[0.0] > offered[0.5] > offered[0.9] > 0
