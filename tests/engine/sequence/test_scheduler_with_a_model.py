"""Interleaved passes and held answers on the bundled model: the same tokens as alone."""

from dataclasses import replace

import pytest

from engine.core.config import BUNDLED_MODEL, RunConfig
from engine.decode.constraint import AnswerConstraint
from engine.decode.grammar_vocabulary import GrammarVocabulary
from engine.sequence.scheduler import Scheduler
from engine.text.events import ToolSpec
from engine.text.grammar import answer_grammar
from engine.text.output_rules import FREE_TEXT, CallMode, ToolChoice
from engine.text.tokenizer import Tokenizer
from engine.worker.answer_limits import ordered_stop_ids, with_call_rules
from engine.worker.loading import load_model
from engine.worker.messages import Done, SamplingParams, Start, Tokens

STORY = "The quick brown fox jumps over the lazy dog, and then it sleeps. "


@pytest.fixture(scope="module")
def loaded():
    model = load_model(RunConfig(model=BUNDLED_MODEL, context=2048, parallel=3, threads=1))
    yield model
    model.close()


@pytest.fixture(scope="module")
def tokenizer(loaded):
    return Tokenizer.from_metadata(loaded.header.metadata)


def answers(loaded, starts, slice_s, vocabulary=None):
    """Ids by request; the requests arrive one step after the other."""
    events = []
    scheduler = Scheduler(
        loaded.model,
        replace(loaded.limits, prompt_slice_s=slice_s),
        events.append,
        constrain=None if vocabulary is None else lambda s: AnswerConstraint(s, vocabulary),
    )
    for start in starts:
        scheduler.submit(start)
        for _ in range(3):
            scheduler.step()
    while scheduler.has_work:
        scheduler.step()
    assert all(event.reason in ("length", "stop") for event in events if isinstance(event, Done))
    return {
        start.request_id: [
            token_id
            for event in events
            if isinstance(event, Tokens) and event.request_id == start.request_id
            for token_id in event.token_ids
        ]
        for start in starts
    }


@pytest.mark.parametrize("slice_s", [0.0, 0.01, 10.0])
def test_streams_served_between_layers_get_the_tokens_that_they_get_alone(
    loaded, tokenizer, slice_s
):
    sampling = SamplingParams(temperature=0.8, top_k=20, seed=3)
    starts = [
        Start("short", tuple(tokenizer.encode("Once")), 40, (), sampling),
        Start("long", tuple(tokenizer.encode(STORY * 40)), 10, (), sampling),
        Start("other", tuple(tokenizer.encode(f"No. {STORY * 20}")), 10, (), sampling),
    ]
    together = answers(loaded, starts, slice_s)
    for start in starts:
        assert together[start.request_id] == answers(loaded, [start], 10.0)[start.request_id]


def test_held_answers_share_passes_with_free_ones(loaded, tokenizer):
    vocabulary = GrammarVocabulary(tokenizer)
    tool = ToolSpec("f", {"properties": {"n": {"enum": [1, 22, 333]}}, "required": ["n"]})
    constraint = answer_grammar(
        [tool], ToolChoice(CallMode.REQUIRED), FREE_TEXT, is_parallel=False
    ).constraint
    stops = ordered_stop_ids(tokenizer)
    sampling = SamplingParams(temperature=1.0, seed=5)
    held = Start("held", tuple(tokenizer.encode("Call.")), 100, stops, sampling)
    held = with_call_rules(replace(held, constraint=constraint), tokenizer)
    free = Start("free", tuple(tokenizer.encode(STORY)), 30, (), sampling)
    together = answers(loaded, [free, held], 0.01, vocabulary)
    text = tokenizer.decode(together["held"], skip_control=False)
    assert text.lstrip().startswith("<tool_call>\n<function=f>\n<parameter=n>\n")
    assert any(f"\n{n}\n</parameter>\n</function>\n</tool_call>" in text for n in (1, 22, 333))
    assert together["free"] == answers(loaded, [free], 10.0)["free"]


def test_a_form_that_cannot_be_enforced_ends_one_request_only(loaded, tokenizer):
    vocabulary = GrammarVocabulary(tokenizer)
    made = answer_grammar([ToolSpec("f", {})], ToolChoice(CallMode.REQUIRED), FREE_TEXT).constraint
    assert made is not None
    sampling = SamplingParams(temperature=0)
    events = []
    scheduler = Scheduler(
        loaded.model,
        loaded.limits,
        events.append,
        constrain=lambda start: AnswerConstraint(start, vocabulary),
    )
    bad = replace(made, calls="banned", document="start: ???")
    scheduler.submit(Start("bad", (5,), 5, (), sampling, constraint=bad))
    scheduler.submit(Start("good", (5,), 5, (), sampling))
    while scheduler.has_work:
        scheduler.step()
    reasons = {event.request_id: event.reason for event in events if isinstance(event, Done)}
    assert reasons == {"bad": "error", "good": "length"}
    message = next(e.message for e in events if isinstance(e, Done) and e.request_id == "bad")
    assert message.startswith("The form that this request asks")
