"""Content blocks out of an answer's events: order, indexes, signatures, calls that were cut."""

import json

import pytest

from engine.server.anthropic_events import BlockEvents, MessageHead, WholeContent, stop_of
from engine.server.steps import ChoiceEnd
from engine.text.events import CallDelta, CallEnd, CallStart, ContentDelta, ReasoningDelta
from engine.worker.messages import Timings

THOUGHT = [ReasoningDelta("Let me "), ReasoningDelta("see.")]
CALL = [
    CallStart(0, "call_abc", "f"),
    CallDelta(0, '{"a":'),
    CallDelta(0, "1}"),
    CallEnd(0),
]
NO_ARGUMENTS = [CallStart(1, "call_def", "now"), CallDelta(1, "{}"), CallEnd(1)]
CUT = [CallStart(2, "call_ghi", "g"), CallDelta(2, '{"text":"half')]

ANSWERS = {
    "nothing": [],
    "text": [ContentDelta("a"), ContentDelta("b")],
    "thinking only": THOUGHT,
    "thinking and text": [*THOUGHT, ContentDelta("Yes.")],
    "two thoughts": [*THOUGHT, ContentDelta("a"), ReasoningDelta("Again."), ContentDelta("b")],
    "calls": [*THOUGHT, ContentDelta("I look."), *CALL, *NO_ARGUMENTS],
    "text after a call": [*CALL, ContentDelta("Let me wait.")],
    "a cut call": [ContentDelta("I write."), *CUT],
    "only a cut call": CUT,
    "empty texts": [ContentDelta(""), ReasoningDelta(""), ContentDelta("")],
}


def stream_of(events):
    blocks = BlockEvents()
    sent = [item for event in events for item in blocks.add(event)]
    return [*sent, *blocks.finish()], blocks.cut


def whole_of(events):
    content = WholeContent()
    for event in events:
        content.add(event)
    return content.blocks()


@pytest.mark.parametrize("events", ANSWERS.values(), ids=ANSWERS)
def test_blocks_follow_each_other_with_indexes_without_gaps(events):
    open_index, count = None, 0
    for item in stream_of(events)[0]:
        if item["type"] == "content_block_start":
            assert open_index is None
            assert item["index"] == count
            open_index, count = item["index"], count + 1
        else:
            assert item["index"] == open_index
            if item["type"] == "content_block_stop":
                open_index = None
    assert open_index is None
    assert count >= 1


@pytest.mark.parametrize("events", ANSWERS.values(), ids=ANSWERS)
def test_each_thinking_block_ends_with_one_signature(events):
    sent = stream_of(events)[0]
    for position, item in enumerate(sent):
        if item.get("delta", {}).get("type") == "signature_delta":
            assert item["delta"]["signature"]
            assert sent[position + 1]["type"] == "content_block_stop"
    thoughts = [i for i in sent if i.get("content_block", {}).get("type") == "thinking"]
    signed = [i for i in sent if i.get("delta", {}).get("type") == "signature_delta"]
    assert [i["index"] for i in thoughts] == [i["index"] for i in signed]


@pytest.mark.parametrize("events", ANSWERS.values(), ids=ANSWERS)
def test_streamed_and_whole_blocks_are_equal(events):
    blocks, sent = [], stream_of(events)
    for item in sent[0]:
        if item["type"] == "content_block_start":
            blocks.append(dict(item["content_block"]))
            joined = ""
        elif item["type"] == "content_block_delta":
            delta = item["delta"]
            if delta["type"] == "signature_delta":
                blocks[-1]["signature"] = delta["signature"]
                continue
            key = {"text_delta": "text", "thinking_delta": "thinking"}.get(delta["type"])
            if key:
                blocks[-1][key] += delta[key]
            else:
                joined += delta["partial_json"]
                blocks[-1]["input"] = joined
    complete = [block for index, block in enumerate(blocks) if index not in sent[1]]
    whole = whole_of(events)
    assert len(whole) == (len(complete) or 1)
    for streamed, block in zip(complete, whole, strict=False):
        if block["type"] == "tool_use":
            assert json.loads(streamed.pop("input")) == block.pop("input")
        assert streamed == block


def test_a_whole_answer_has_its_calls_with_decoded_input():
    assert whole_of(ANSWERS["calls"])[2:] == [
        {"type": "tool_use", "id": "toolu_abc", "name": "f", "input": {"a": 1}},
        {"type": "tool_use", "id": "toolu_def", "name": "now", "input": {}},
    ]


def test_a_call_without_arguments_sends_one_empty_object():
    sent = stream_of(NO_ARGUMENTS)[0]
    assert [item["delta"] for item in sent if "delta" in item] == [
        {"type": "input_json_delta", "partial_json": "{}"}
    ]


def test_a_cut_call_is_left_out_of_a_whole_answer():
    assert [block["type"] for block in whole_of(ANSWERS["a cut call"])] == ["text"]
    assert whole_of(CUT) == [{"type": "text", "text": ""}]


@pytest.mark.parametrize(
    ("finish", "stopped", "expected"),
    [
        ("stop", None, ("end_turn", None)),
        ("stop", "END", ("stop_sequence", "END")),
        ("length", None, ("max_tokens", None)),
        ("tool_calls", None, ("tool_use", None)),
        ("tool_calls", "END", ("tool_use", None)),
    ],
)
def test_the_stop_reason_follows_the_finish(finish, stopped, expected):
    assert stop_of(ChoiceEnd(0, finish, 1, 0, Timings(), stopped=stopped)) == expected


def test_cached_tokens_are_not_input_tokens():
    usage = MessageHead("msg_1", "m", 100).usage(30, 5)
    assert usage == {
        "input_tokens": 70,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 30,
        "output_tokens": 5,
    }
