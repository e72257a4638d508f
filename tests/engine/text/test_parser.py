"""The answer parser on well-formed output: rules T1 and T11 to T23 of the tool format."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.text.events import CallDelta, CallEnd, CallStart, Event, FinishReason, ToolSpec
from engine.text.parser import AnswerParser, Phase
from tests.engine.text.parser_corpus import (
    CHUNKINGS,
    ORDINARY,
    STRUCTURE,
    TAG_IDS,
    TOOLS,
    call,
    parse,
    pieces,
    tokens,
)

ALL_TAGS = (
    "<|im_start|>assistant\n⟦<think>⟧\n⟦</think>⟧ ⟦<tool_call>⟧\n<function=NAME>\n"
    "<parameter=P1>\nx\n</parameter>\n more\n<parameter=P2> y </parameter> z\n</function>\n"
    "⟦</tool_call>⟧\n<|im_end|><tool_response></tool_response><|vision_start|><|image_pad|>"
)
VALUES = {
    "plain": "a.txt",
    "empty": "",
    "quotes": "say \"hi\" and 'ho'",
    "backslashes": "C:\\new\\table \\u0041 \\\\",
    "tabs and indentation": "\tif x:\n\t\treturn  \n    end  ",
    "control characters": "\x00\x01\x1b[0m\x7f\x85\u2028",
    "emoji": "👩‍👩‍👧 ok 🏳️‍🌈",
    "crlf": "one\r\ntwo\r\n\r\nthree",
    "lone carriage returns": "\rone\r\rtwo",
    "trailing blank line": "one\n\n",
    "leading blank line": "\n\none",
    "only a newline": "\n",
    "looks like json": '{"a": [1, 2, "x"]}',
    "digits": "007",
    "html": "<p>a < b</p><</parameter",
    "closing tag in the middle": "a</parameter>b\n</parameter>\n\nc </function> d",
    "two closing tags": "a\n</parameter>\n</parameter> b",
    "angle brackets": "<" * 50 + "</" * 20,
    "tags as ids": "a<think>b</think>c<tool_call>d</tool_call>e",
}


@pytest.mark.parametrize("chunking", CHUNKINGS)
@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_a_string_value_arrives_exactly(value: str, chunking: str) -> None:
    got = parse(call("read", ("path", value)), chunking=chunking)
    assert got.calls == [
        ("read", json.dumps({"path": value}, ensure_ascii=False).replace(": ", ":", 1))
    ]


@pytest.mark.parametrize("chunking", CHUNKINGS)
def test_a_value_may_hold_every_tag_of_the_format(chunking: str) -> None:
    got = parse(call("write", ("path", "p"), ("content", ALL_TAGS)), chunking=chunking)
    value = ALL_TAGS.replace("⟦", "").replace("⟧", "")
    assert [(name, json.loads(text)) for name, text in got.calls] == [
        ("write", {"path": "p", "content": value})
    ]


@pytest.mark.parametrize("chunking", CHUNKINGS)
def test_crlf_around_a_value_counts_as_one_newline_t11(chunking: str) -> None:
    text = call("read", ("path", " a\n ")).replace("\n", "\r\n")
    assert parse(text, chunking=chunking).calls == [("read", r'{"path":" a\r\n "}')]


@pytest.mark.parametrize("chunking", CHUNKINGS)
def test_values_may_stand_on_the_line_of_their_tags(chunking: str) -> None:
    text = "<tool_call><function=read><parameter=path> a </parameter></function></tool_call>"
    assert parse(text, chunking=chunking).calls == [("read", '{"path":" a "}')]
    empty = "<tool_call><function=read><parameter=path></parameter></function></tool_call>"
    assert parse(empty, chunking=chunking).calls == [("read", '{"path":""}')]


@pytest.mark.parametrize("chunking", CHUNKINGS)
@pytest.mark.parametrize(
    ("text", "thinking", "reasoning", "content"),
    [
        ("hm\n</think>\n\nHi", True, "hm\n", "Hi"),
        ("hm</think>Hi", True, "hm", "Hi"),
        ("</think>\n\n", True, "", ""),
        ("<think>\nhm</think>\nHi", True, "hm", "Hi"),
        ("<think></think>Hi", True, "", "Hi"),
        ("Hi\n</think>\n\nyou\n", False, "", "Hi\nyou\n"),
        ("a</think>b</think>c", True, "a", "bc"),
        ("One\n<think>\nhm\n</think>\n\ntwo", False, "hm\n", "One\ntwo"),
        ("One<think>a</think><think>b</think>two", False, "ab", "Onetwo"),
        ("a<think>b", True, "ab", ""),
        ("⟦<think>⟧x⟦</think>⟧", False, "", "<think>x</think>"),
        ("\n\nHi", False, "", "\n\nHi"),
        ("\nhm", True, "\nhm", ""),
        ("a\r\n\r\nb\r", False, "", "a\r\n\r\nb\r"),
        ("a" + "\n" * 100 + "b" + "\n" * 40, False, "", "a" + "\n" * 100 + "b" + "\n" * 40),
    ],
)
def test_thinking_and_content_are_told_apart_by_id(
    text: str, thinking: bool, reasoning: str, content: str, chunking: str
) -> None:
    for tools in (TOOLS, ()):
        got = parse(text, chunking=chunking, thinking=thinking, tools=tools)
        assert (got.reasoning, got.content, got.calls) == (reasoning, content, [])


@pytest.mark.parametrize("chunking", CHUNKINGS)
def test_newlines_around_calls_are_dropped(chunking: str) -> None:
    one, two = call("read", ("path", "a")), call("get_time")
    got = parse(f"hm</think>{one}\n\n{two}\n", chunking=chunking, thinking=True)
    assert (got.content, [name for name, _ in got.calls]) == ("", ["read", "get_time"])
    got = parse(f"Now.\n\n{one}\n{two}\n\nDone.\n", chunking=chunking)
    assert (got.content, len(got.calls)) == ("Now.Done.\n", 2)


@pytest.mark.parametrize("chunking", CHUNKINGS)
def test_calls_without_parameters_and_ten_calls_and_equal_calls(chunking: str) -> None:
    assert parse(call("get_time"), chunking=chunking).calls == [("get_time", "{}")]
    ten = [call("read", ("path", str(number))) for number in range(10)]
    got = parse("\n".join(ten), chunking=chunking)
    assert got.calls == [("read", f'{{"path":"{number}"}}') for number in range(10)]
    ids = [event.call_id for event in got.events if isinstance(event, CallStart)]
    assert len(set(ids)) == 10
    same = parse("\n".join(ten[:1] * 2), chunking=chunking)
    assert same.calls == [("read", '{"path":"0"}')] * 2


@pytest.mark.parametrize("chunking", CHUNKINGS)
def test_parameters_may_be_called_name_and_arguments(chunking: str) -> None:
    got = parse(call("odd", ("name", "x"), ("arguments", "{}")), chunking=chunking)
    assert got.calls == [("odd", '{"name":"x","arguments":"{}"}')]


@pytest.mark.parametrize("chunking", CHUNKINGS)
def test_the_first_of_two_equal_parameters_wins_t14(chunking: str) -> None:
    got = parse(
        call("read", ("path", "a"), ("path", "b"), ("x", "1"), ("x", "2")), chunking=chunking
    )
    assert got.calls == [("read", '{"path":"a","x":"1"}')]


@pytest.mark.parametrize("chunking", CHUNKINGS)
def test_white_space_between_tags_does_not_matter(chunking: str) -> None:
    text = "<tool_call>\n\n <function=read>  \n\n<parameter=path>\na\n</parameter>\n\n\t</function>\n  </tool_call>"
    assert parse(text, chunking=chunking).calls == [("read", '{"path":"a"}')]
    far = call("read", ("path", "a")).replace("</parameter>", "</parameter>" + "\n" * 500)
    assert parse(far, chunking=chunking).calls == [("read", '{"path":"a"}')]


def test_a_call_starts_as_soon_as_its_name_is_known_and_its_string_streams() -> None:
    parser = AnswerParser(STRUCTURE, TOOLS, starts_in_thinking=False, new_call_id=lambda: "call_x")
    seen: list[Event] = []
    seen += parser.push(3, "<tool_call>")
    seen += parser.push(ORDINARY, "\n<function=write")
    assert seen == []
    assert parser.phase is Phase.TOOL_CALL
    assert parser.push(ORDINARY, ">\n") == [CallStart(0, "call_x", "write")]
    assert parser.push(ORDINARY, "<parameter=path>\n") == [CallDelta(0, '{"path":"')]
    assert parser.push(ORDINARY, 'a"b') == [CallDelta(0, r"a\"b")]
    assert parser.push(ORDINARY, "\n</par") == []
    assert parser.push(ORDINARY, "ty>") == [CallDelta(0, r"\n</party>")]
    assert parser.push(ORDINARY, "\n</parameter>\n<parameter=mode>\n4") == [CallDelta(0, '"')]
    assert parser.push(ORDINARY, "2\n</parameter>\n</") == []
    assert parser.push(ORDINARY, "function>") == [CallDelta(0, ',"mode":42}'), CallEnd(0)]
    assert parser.push(4, "</tool_call>") == []
    assert parser.phase is Phase.ANSWERING


@pytest.mark.parametrize(
    "kind", [["string", "null"], ["string", "integer"], ["string", "object"], None]
)
def test_a_value_that_may_only_be_a_string_streams_too(kind: object) -> None:
    properties = {} if kind is None else {"text": {"type": kind}}
    parser = AnswerParser(
        STRUCTURE,
        [ToolSpec("put", {"properties": properties})],
        starts_in_thinking=False,
        new_call_id=lambda: "call_x",
    )
    parser.push(3, "<tool_call>")
    parser.push(ORDINARY, "\n<function=put>\n<parameter=text>\n")
    assert parser.push(ORDINARY, "note: nothing") == [CallDelta(0, '{"text":"note: nothing')]


def test_turn_end_ids_give_no_event() -> None:
    parser = AnswerParser(STRUCTURE, TOOLS, starts_in_thinking=False, new_call_id=lambda: "call_x")
    assert parser.push(5, "<|im_end|>") == []
    assert parser.finish(FinishReason.STOP) == []


def test_text_before_a_tag_that_comes_with_it_is_kept() -> None:
    parser = AnswerParser(STRUCTURE, (), starts_in_thinking=True, new_call_id=lambda: "call_x")
    events = parser.push(2, "\ufffd</think>") + parser.push(ORDINARY, "Hi")
    assert [event.text for event in events] == ["\ufffd", "Hi"]


def test_a_retry_goes_on_with_the_same_parser() -> None:
    parser = AnswerParser(STRUCTURE, TOOLS, starts_in_thinking=True, new_call_id=lambda: "call_x")
    parser.push(ORDINARY, "hm")
    assert parser.finish(FinishReason.STOP) == []
    assert parser.outcome.needs_retry
    parser.push(2, "</think>")
    events = parser.push(ORDINARY, "\n\nHi") + parser.finish(FinishReason.STOP)
    assert [event.text for event in events] == ["Hi"]
    assert not parser.outcome.needs_retry


def test_100_kb_of_code_streams_exactly() -> None:
    line = "def f(x):\n\treturn \"<b>\" if x < 3 else '\\\\n'  # </parameter> é\n"
    code = line * (100_000 // len(line))
    got = parse(call("write", ("path", "p"), ("content", code)), chunking="7")
    assert json.loads(got.calls[0][1]) == {"path": "p", "content": code}


RUNS = ["x", "\n", " ", "<", "</parameter>", "</parameter>\n", "<parameter=", "```\n<"]


def _seconds(run: str, num_chars: int) -> float:
    """The least time of three for a text of that length, one character at a time."""
    text = run * (num_chars // len(run))
    texts = (
        call("read", ("path", text)),
        text,
        f"<tool_call>\n<function=read>\n{text}",
        f"<function=read>\n<parameter=path>{text}",
    )
    seconds = []
    for _ in range(3):
        started = time.process_time()
        for whole in texts:
            parse(whole, chunking="1")
        parse(f"{text}\n<tool_call>\n<function=read>{text}", chunking="1", thinking=True)
        seconds.append(time.process_time() - started)
    return min(seconds)


@pytest.mark.parametrize("run", RUNS)
def test_a_step_costs_its_new_characters_only(run: str) -> None:
    # eight times the text; a rescan of what came before would cost 64 times as much
    assert _seconds(run, 8_000) < 24 * _seconds(run, 1_000)


def test_outside_values_at_most_64_characters_are_held() -> None:
    text = "a" + "\n" * 80 + "<tool_call>" + " \n" * 40 + "\n\n<function=read_all\n\n\n<function=w"
    for chunking in CHUNKINGS:
        assert parse(text, chunking=chunking).most_held <= 64
        assert parse(text + call("read", ("path", "x" * 500)), chunking=chunking).most_held <= 64


FRAGMENTS = st.sampled_from(
    [
        *TAG_IDS,
        *(f"⟦{tag}⟧" for tag in TAG_IDS),
        "<function=read>", "<function=write>", "<function=get_time>", "<function=nope>", "<function=",
        "</function>", "<parameter=path>", "<parameter=content>", "<parameter=mode>", "<parameter=",
        "</parameter>", "<", ">", "\n", "\n", "\n", "\r\n", " ", "x", "7", '"', "\\", "```", "é", "😀", "{", "}",
        '{"name":"read","arguments":{"path":"a"}}', "\n<tool_call>\n<function=read>\n<parameter=path>\n",
        "\n</parameter>\n</function>\n</tool_call>",
    ]
)  # fmt: skip
REASONS = st.sampled_from([FinishReason.STOP, FinishReason.LENGTH, FinishReason.CANCELLED])


@settings(deadline=None, max_examples=400)
@given(st.lists(FRAGMENTS, max_size=24), st.booleans(), st.booleans(), REASONS)
def test_every_division_of_any_text_gives_the_same_events(
    parts: list[str], thinking: bool, has_tools: bool, reason: FinishReason
) -> None:
    text = "".join(parts)
    tools = TOOLS if has_tools else ()
    whole = parse(text, thinking=thinking, tools=tools, reason=reason)
    for chunking in CHUNKINGS:
        got = parse(text, chunking=chunking, thinking=thinking, tools=tools, reason=reason)
        assert got.events == whole.events
        assert got.outcome == whole.outcome
        assert got.most_held <= 64 or "<function=" in text  # a call without wrapper waits (M7)
    assert all(isinstance(json.loads(arguments), dict) for _, arguments in whole.calls)
    is_call_turn = whole.outcome.finish_reason(reason) is FinishReason.TOOL_CALLS
    assert is_call_turn == (bool(whole.calls) and reason is FinishReason.STOP)
    assert whole.outcome.num_complete_calls == len(whole.calls)


@settings(deadline=None, max_examples=200)
@given(
    st.dictionaries(
        st.sampled_from(["path", "content"]),
        st.text(st.characters(codec="utf-8", exclude_characters="⟦⟧")),
        min_size=1,
    )
)
def test_joined_fragments_are_one_json_object_with_the_values(values: dict[str, str]) -> None:
    # a value that ends in "\r" meets the newline of the closing tag as "\r\n" (T11)
    values = {name: value.rstrip("\r") for name, value in values.items()}
    text = call("write", *values.items())
    for chunking in CHUNKINGS:
        got = parse(text, chunking=chunking)
        fragments = "".join(e.arguments for e in got.events if isinstance(e, CallDelta))
        assert json.loads(fragments) == values


def test_divisions_cover_what_they_promise() -> None:
    assert pieces("a bc\n", "words") == ["a", " bc", "\n"]
    assert pieces("abc", "2") == ["ab", "c"]
    assert list(tokens("a<think>⟦<think>⟧b", "whole")) == [
        (ORDINARY, "a"), (1, "<think>"), (ORDINARY, "<think>b"),
    ]  # fmt: skip
