"""The line codec of the worker's messages: what goes in comes out, and nothing else gets in."""

import json
import math

import pytest

from engine.worker.messages import (
    Cancel,
    Done,
    Failed,
    Force,
    Hold,
    Load,
    Message,
    MessageError,
    Progress,
    PromptProgress,
    Quit,
    Ready,
    SamplingParams,
    Start,
    StatusQuery,
    StatusReport,
    Timings,
    TokenLogprobs,
    Tokens,
    decode,
    encode,
)

EVERY_KIND: list[Message] = [
    Load({"model": "/päth with space/\udcff.gguf", "sampling": {"top_k": 3, "x": [1, None, 2.5]}}),
    Start("r1", (1, 2, 3), 5, (7,), SamplingParams(logit_bias=((4, -1.5),), seed=-(2**63)), 256),
    Start("r2", (), 1, (), SamplingParams(), 0, 9, (9, 10), 5, (6, 9), 3, 4),
    Cancel("r1"),
    Force("r1", (1, 2)),
    Hold("r1", is_held=True),
    StatusQuery(),
    Quit(),
    Progress("weights", 3, 10**12),
    Ready(4096, "host avx512", "fp_1"),
    Ready(4096, "cuda sm_89", "fp_1", "Card 1 is not used.", ("RTX 5070, GPU-1",)),
    Failed("file_truncated", "Zeile\nzwei 👋", {"a": 1, "b": 2.5, "c": True, "d": None, "e": "x"}),
    PromptProgress("r1", 1, 2, 0),
    Tokens("r1", (5, 6)),
    Tokens("r1", (5,), (TokenLogprobs(5, -0.25, ((5, -0.25), (9, -3.0))),)),
    Done("r1", "stop", Timings(1, 2, 3.0, 4, 5.0, 6, 7)),
    StatusReport(1, 2, 3, 4),
]


@pytest.mark.parametrize("message", EVERY_KIND, ids=lambda message: message.kind)
def test_every_message_comes_back_equal_from_its_line(message: Message):
    line = encode(message)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert decode(line) == message


def line_of(**fields: object) -> bytes:
    return json.dumps(fields).encode()


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"Loading weights...\n", "not JSON"),
        (b"\xff\xfe{}\n", "not JSON"),
        (b"[1]", "not a JSON object"),
        (b"{}", "unknown kind None"),
        (b"[" * 100_000, "not JSON"),
        (line_of(kind="dance"), "unknown kind 'dance'"),
        (line_of(kind=["cancel"], request_id="r"), "unknown kind"),
        (line_of(kind="cancel"), "cancel lacks request_id"),
        (line_of(kind="cancel", request_id="r", more=1), "unknown field 'more'"),
        (line_of(kind="cancel", request_id=7), "cancel.request_id must be text"),
        (
            line_of(kind="force", request_id="r", token_ids=[1, "2"]),
            r"token_ids\[1\] must be a who",
        ),
        (
            line_of(kind="force", request_id="r", token_ids=[1, True]),
            r"token_ids\[1\] must be a wh",
        ),
        (line_of(kind="force", request_id="r", token_ids=3), "token_ids must be a list"),
        (line_of(kind="load", config=[]), "load.config must be an object"),
        (b'{"kind":"done","request_id":"r","reason":"x","message":"","timings":{}}', "lacks"),
        (b'{"kind":"progress","phase":"x","done_bytes":NaN,"total_bytes":1}', "NaN"),
        (b'{"kind":"failed","code":"x","message":"","params":{"a":[1]}}', "params.a"),
        (b'{"kind":"failed","code":"x","message":"","params":{"a":1e999}}', "params.a"),
    ],
)
def test_a_line_that_is_no_message_is_refused_with_its_reason(line: bytes, reason: str):
    with pytest.raises(MessageError, match=reason):
        decode(line)


@pytest.mark.parametrize(
    "ids",
    [(), (0,), (5, 10**11), tuple(range(2000)), (10**30,)],
    ids=["none", "zero", "large", "many", "huge"],
)
@pytest.mark.parametrize("name", ["req_1-0", "", 'a"b', "a\\b", "ä \u2028", "x y", "\x7f"])
def test_tokens_are_read_alike_whether_their_line_is_known_by_sight_or_not(
    name: str, ids: tuple[int, ...]
):
    message = Tokens(name, ids)
    line = encode(message)
    assert decode(line) == decode(line.rstrip()) == message
    assert decode(json.dumps(json.loads(line), indent=1).encode()) == message


def test_a_whole_number_is_a_float_where_a_float_is_wanted():
    line = encode(Done("r", "stop", Timings())).replace(b'"prompt_ms":0.0', b'"prompt_ms":12')
    message = decode(line)
    assert isinstance(message, Done)
    assert isinstance(message.timings.prompt_ms, float)
    assert message.timings.prompt_ms == 12


def test_nan_is_refused_before_it_is_sent():
    with pytest.raises(MessageError, match="done cannot be sent"):
        encode(Done("r", "stop", Timings(prompt_ms=math.nan)))


def test_a_line_longer_than_any_message_is_refused_unread(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("engine.worker.messages.MAX_LINE_BYTES", 40)
    with pytest.raises(MessageError, match="more than any message"):
        decode(encode(Cancel("r" * 50)))
