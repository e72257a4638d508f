"""A whole answer from token ids: bytes, thinking, calls and stop strings together."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import count
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.text.answer import AnswerStream, AnswerUpdate, ToolCall
from engine.text.events import (
    CallDelta,
    CallEnd,
    CallStart,
    ContentDelta,
    Event,
    FinishReason,
    ReasoningDelta,
    ToolSpec,
    merge_events,
)
from engine.text.parser import Phase
from tests.engine.text.parser_corpus import TOOLS, call
from tests.support.golden_tokenizer import golden_tokenizer

SPECIAL = {"<think>": 256, "</think>": 257, "<tool_call>": 258, "</tool_call>": 259}
SPECIAL |= {"<|im_start|>": 260, "<|im_end|>": 261, "<|endoftext|>": 262}
STOP, LENGTH = FinishReason.STOP, FinishReason.LENGTH


class ByteTokenizer:
    """One token per byte, and the special ones."""

    structure = SimpleNamespace(think=256, think_end=257, tool_call=258, tool_call_end=259)
    eos_ids = frozenset({261, 262})

    def token_bytes(self, token_id: int) -> bytes:
        if token_id < 256:
            return bytes([token_id])
        return next(text for text, special in SPECIAL.items() if special == token_id).encode()

    def is_control(self, token_id: int) -> bool:
        return token_id >= 260

    def encode(self, text: str) -> list[int]:
        ids: list[int] = []
        for part in re.split(f"({'|'.join(map(re.escape, SPECIAL))})", text):
            ids += [SPECIAL[part]] if part in SPECIAL else part.encode()
        return ids


TOKENIZER = ByteTokenizer()


def stream(
    stops: Sequence[str] = (),
    tools: Sequence[ToolSpec] = TOOLS,
    *,
    thinking: bool = False,
    ends_with_call: bool = False,
) -> AnswerStream:
    numbers = count()
    return AnswerStream(
        TOKENIZER,  # type: ignore[arg-type]
        tools,
        starts_in_thinking=thinking,
        stops=stops,
        new_call_id=lambda: f"call_{next(numbers)}",
        ends_with_call=ends_with_call,
    )


def run(
    text: str | list[int],
    stops: Sequence[str] = (),
    *,
    tools: Sequence[ToolSpec] = TOOLS,
    thinking: bool = False,
    size: int = 1,
    reason: FinishReason = STOP,
) -> tuple[AnswerStream, list[Event]]:
    answer = stream(stops, tools, thinking=thinking)
    ids = TOKENIZER.encode(text) if isinstance(text, str) else text
    events: list[Event] = []
    for start in range(0, len(ids), size):
        events += answer.push(ids[start : start + size]).events
    events += answer.finish(reason).events
    return answer, merge_events(events)


SIZES = (1, 2, 7, 10_000)


@pytest.mark.parametrize("size", SIZES)
def test_bytes_become_thinking_content_and_calls(size: int) -> None:
    text = f"hm 🤔\n</think>\n\nÄh… 😀\n\n{call('read', ('path', 'ñ/😀.txt'))}<|im_end|>ignored"
    answer, events = run(text, thinking=True, size=size)
    assert events == [
        ReasoningDelta("hm 🤔\n"),
        ContentDelta("Äh… 😀"),
        CallStart(0, "call_0", "read"),
        CallDelta(0, '{"path":"ñ/😀.txt"}'),
        CallEnd(0),
    ]
    assert answer.reasoning == "hm 🤔\n"
    assert answer.content == "Äh… 😀"
    assert answer.calls == (ToolCall(0, "call_0", "read", '{"path":"ñ/😀.txt"}'),)
    assert answer.num_reasoning_tokens == len("hm 🤔\n".encode())
    assert answer.finish_reason(STOP) is FinishReason.TOOL_CALLS
    assert answer.finish_reason(LENGTH) is LENGTH


@pytest.mark.parametrize("size", SIZES)
def test_an_unfinished_character_becomes_one_replacement_before_a_tag_and_at_the_end(
    size: int,
) -> None:
    broken = list("😀".encode()[:3])
    answer, _ = run([*broken, SPECIAL["</think>"], *b"Hi", *broken], thinking=True, size=size)
    assert answer.reasoning == "\ufffd"
    assert answer.content == "Hi\ufffd"


def test_nothing_of_a_character_is_given_before_it_is_complete() -> None:
    answer = stream()
    *first, last = "😀".encode()
    assert answer.push(first) == AnswerUpdate((), None, 3)
    assert answer.push([last]).events == (ContentDelta("😀"),)


def test_a_turn_end_is_never_text_and_ends_the_answer() -> None:
    for end in (261, 262):
        answer = stream()
        update = answer.push([*b"Hi", end, *b"more"])
        assert update == AnswerUpdate((ContentDelta("Hi"),), None, 2, is_turn_end=True)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("tools", [TOOLS, ()])
def test_a_stop_string_ends_the_answer(tools: Sequence[ToolSpec], size: int) -> None:
    answer, events = run("one\nE\nEND\nthree", ["END", "tree"], tools=tools, size=size)
    assert events == [ContentDelta("one\nE\n")]
    assert answer.content == "one\nE\n"
    assert answer.stopped == "END"
    assert answer.finish_reason(LENGTH) is STOP
    assert answer.push([65]) == AnswerUpdate((), "END", 0, is_over=True)


def test_a_possible_start_of_a_stop_is_held_back_and_given_at_the_end() -> None:
    answer = stream(["END"])
    assert answer.push(list(b"a E")).events == (ContentDelta("a "),)
    assert answer.push(list(b"N")).events == ()
    assert answer.finish(STOP).events == (ContentDelta("EN"),)


def test_the_update_says_how_many_tokens_belong_to_the_answer() -> None:
    update = stream(["b"]).push(list(b"abcd"))
    assert update == AnswerUpdate((ContentDelta("a"),), "b", 2, is_over=True)


@pytest.mark.parametrize("size", SIZES)
def test_a_stop_does_not_apply_to_thinking_or_calls(size: int) -> None:
    text = f"END</think>\n\na\n{call('read', ('path', 'END'))}\nb END c"
    answer, _ = run(text, ["END", "read"], thinking=True, size=size)
    assert answer.reasoning == "END"
    assert [json.loads(one.arguments) for one in answer.calls] == [{"path": "END"}]
    assert answer.content == "ab "
    assert answer.stopped == "END"
    assert answer.finish_reason(STOP) is FinishReason.TOOL_CALLS


@pytest.mark.parametrize("size", SIZES)
def test_a_stop_does_not_reach_over_a_call(size: int) -> None:
    answer, events = run(f"E{call('get_time')}ND", ["END"], size=size)
    assert answer.stopped is None
    assert answer.content == "END"
    assert [type(event) for event in events] == [
        ContentDelta, CallStart, CallDelta, CallEnd, ContentDelta
    ]  # fmt: skip


@pytest.mark.parametrize("size", SIZES)
def test_a_stop_in_text_that_was_held_to_the_end_counts(size: int) -> None:
    answer, _ = run("Hi\n\n", ["\n\n"], size=size)
    assert (answer.content, answer.stopped) == ("Hi", "\n\n")


@pytest.mark.parametrize("size", SIZES)
def test_a_cut_call_is_streamed_but_not_among_the_calls(size: int) -> None:
    text = call("get_time") + "<tool_call>\n<function=read>\n<parameter=path>\nab"
    answer, events = run(text, size=size, reason=LENGTH)
    assert [one.name for one in answer.calls] == ["get_time"]
    assert events[-1] == CallDelta(1, '{"path":"ab')
    assert answer.finish_reason(LENGTH) is LENGTH
    broken, _ = run(text, size=size)
    assert broken.outcome.tool_call_broken == 1


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    ("ending", "behind"), [("\n</tool_call>", "\nb"), ("", "\n<function=read>"), ("", "<|im_end|>")]
)
def test_an_answer_of_one_call_is_over_behind_it_however_its_tokens_are_divided(
    size: int, ending: str, behind: str
) -> None:
    first = f"a\n{call('get_time').removesuffix('</tool_call>').rstrip()}{ending}"
    ids = TOKENIZER.encode(f"{first}{behind}{call('get_time')}c")

    def read(size: int) -> tuple[AnswerStream, int]:
        answer = stream(ends_with_call=True)
        pieces = range(0, len(ids), size)
        return answer, sum(answer.push(ids[i : i + size]).num_tokens for i in pieces)

    answer, num_tokens = read(size)
    assert num_tokens == read(1)[1]
    if ending:
        assert num_tokens == len(TOKENIZER.encode(first))
    answer.finish(STOP)
    assert (answer.content, len(answer.calls), answer.is_complete) == ("a", 1, True)


def test_a_retry_after_thinking_goes_on() -> None:
    answer = stream(thinking=True)
    answer.push([*b"hm", 261])
    answer.finish(STOP)
    assert answer.outcome.needs_retry
    answer.push([257, *b"\n\nHi", 261])
    answer.finish(STOP)
    assert (answer.reasoning, answer.content) == ("hm", "Hi")
    assert not answer.outcome.needs_retry


def test_the_phase_follows_the_model() -> None:
    answer = stream(thinking=True)
    phases = []
    for token_id in TOKENIZER.encode("h</think>a\n<tool_call>\n<function=get_time>\n</tool_call>"):
        answer.push([token_id])
        if not phases or phases[-1] is not answer.phase:
            phases.append(answer.phase)
    assert phases == [Phase.THINKING, Phase.ANSWERING, Phase.TOOL_CALL, Phase.ANSWERING]


@pytest.mark.parametrize("size", SIZES)
def test_a_model_file_s_own_tokens_give_the_same_answer(size: int) -> None:
    tokenizer = golden_tokenizer("full")
    text = f"hm 🤔\n</think>\n\nÄh…\n\n{call('read', ('path', 'ñ</parameter>.txt'))}<|im_end|>"
    ids = tokenizer.encode(text, parse_special=True)
    answer = AnswerStream(
        tokenizer, TOOLS, starts_in_thinking=True, stops=["END"], new_call_id=lambda: "call_x"
    )
    for start in range(0, len(ids), size):
        answer.push(ids[start : start + size])
    answer.finish(STOP)
    assert (answer.reasoning, answer.content) == ("hm 🤔\n", "Äh…")
    assert [one.arguments for one in answer.calls] == ['{"path":"ñ</parameter>.txt"}']


def test_a_raw_answer_shows_tags_and_newlines_as_they_came_and_ends_at_a_turn_end() -> None:
    text = f"\n\n<think>hm\n</think>\n\nyes\n{call('read', ('path', 'x'))}\n"
    answer = AnswerStream(
        TOKENIZER,  # type: ignore[arg-type]
        (),
        starts_in_thinking=False,
        stops=["END"],
        new_call_id=lambda: "call_x",
        is_raw=True,
    )
    answer.push([*TOKENIZER.encode(text), 261, *b"more"])
    answer.finish(STOP)
    assert (answer.content, answer.reasoning, answer.calls) == (text, "", ())
    assert answer.num_reasoning_tokens == 0


PARTS = st.sampled_from(
    [*SPECIAL, "a", "END", "E", "\n", "😀", "é", call("read", ("path", "x\n<EN")), "</parameter>"]
)


@settings(deadline=None, max_examples=150)
@given(st.lists(PARTS, max_size=15), st.booleans(), st.sampled_from([(), ("END",), ("\n", "EE")]))
def test_streamed_and_whole_answers_are_equal_in_any_division(
    parts: list[str], thinking: bool, stops: Sequence[str]
) -> None:
    text = "".join(parts)
    whole, events = run(text, stops, thinking=thinking, size=10_000)
    for size in SIZES:
        answer, got = run(text, stops, thinking=thinking, size=size)
        assert got == events
        assert answer.stopped == whole.stopped
        assert answer.num_reasoning_tokens == whole.num_reasoning_tokens
        assert (answer.reasoning, answer.content) == (whole.reasoning, whole.content)
        assert answer.calls == whole.calls
    assert whole.reasoning == "".join(e.text for e in events if isinstance(e, ReasoningDelta))
    assert whole.content == "".join(e.text for e in events if isinstance(e, ContentDelta))
