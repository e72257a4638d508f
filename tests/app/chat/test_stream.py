"""Server-sent events become events of ours, whatever pieces they come in."""

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.chat.stream import (
    Began,
    CallGrown,
    Counted,
    Ended,
    Finished,
    Grown,
    Inbox,
    PromptProgress,
    RateWindow,
    ToolNews,
    Usage,
    data_lines,
    events_of,
)

STREAM = (
    b": keep-alive\n\n"
    b'data: {"a": 1}\n\n'
    b"data: \xe4\xb8\xad\xe6\x96\x87\r\n\r\n"
    b": keep-alive\n\n"
    b"data: [DONE]\n\n"
)


@given(st.lists(st.integers(0, len(STREAM)), max_size=20))
def test_the_pieces_of_a_stream_may_be_cut_anywhere(cuts):
    places = sorted({0, len(STREAM), *cuts})
    chunks = [STREAM[a:b] for a, b in itertools.pairwise(places)]
    assert list(data_lines(chunks)) == [b'{"a": 1}', "中文".encode(), b"[DONE]"]


def choice(delta, finish=None):
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


@pytest.mark.parametrize(
    ("chunk", "events"),
    [
        (choice({"role": "assistant", "content": ""}), [Began()]),
        (choice({"content": "", "reasoning_content": "hm"}), [Grown(is_thinking=True, pieces=["hm"])]),
        (
            {**choice({"content": "x"}), "timings": {"predicted_n": 7}},
            [Grown(is_thinking=False, pieces=["x"]), Counted(7)],
        ),
        (choice({}, "length"), [Finished("length")]),
        (
            {**choice({}), "prompt_progress": {"total": 9, "cache": 2, "processed": 5}},
            [PromptProgress(9, 2, 5)],
        ),
        (
            {**choice({}), "mcp_event": {"phase": "limit", "rounds": 8}},
            [ToolNews("limit", {"phase": "limit", "rounds": 8})],
        ),
        (
            {"choices": [], "usage": {"prompt_tokens": 3}, "timings": {"predicted_n": 2}},
            [Usage({"prompt_tokens": 3}, {"predicted_n": 2})],
        ),
        (
            choice({"tool_calls": [{"index": 1, "id": "c", "function": {"name": "f", "arguments": "{"}}]}),
            [CallGrown(1, "c", "f", "{")],
        ),
        ({"choices": "odd", "usage": None, "prompt_progress": 3}, []),
    ],
)  # fmt: skip
def test_each_chunk_is_understood(chunk, events):
    assert list(events_of(json.loads(json.dumps(chunk)))) == events


def test_waiting_text_is_joined_and_order_is_kept():
    inbox = Inbox()
    for event in (
        PromptProgress(9, 0, 1),
        PromptProgress(9, 0, 9),
        Grown(is_thinking=True, pieces=["a"]),
        Counted(1),
        Grown(is_thinking=True, pieces=["b"]),
        Counted(2),
        Grown(is_thinking=False, pieces=["c"]),
        Finished("stop"),
        Ended(),
    ):
        inbox.put(event)
    assert inbox.take() == [
        PromptProgress(9, 0, 9),
        Grown(is_thinking=True, pieces=["a", "b"]),
        Grown(is_thinking=False, pieces=["c"]),
        Finished("stop"),
        Counted(2),
        Ended(),
    ]
    assert inbox.take() == []


def test_the_rate_is_over_two_seconds_and_starts_without_wild_figures():
    rate = RateWindow()
    rate.add(0.0, 1)
    rate.add(0.001, 5)
    assert rate.per_s(0.001) == 0.0
    for step in range(1, 100):
        rate.add(step * 0.1, 5 + step * 10)
    assert rate.per_s(9.9) == pytest.approx(100, rel=0.01)
    # It slows down: after two seconds nothing of the old speed is left.
    for step in range(1, 22):
        rate.add(9.9 + step * 0.1, 995 + step)
    assert rate.per_s(12.0) == pytest.approx(10, rel=0.1)
    assert rate.per_s(30.0) < 3
