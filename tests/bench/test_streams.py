"""Answers as the benchmark's clients read them."""

from __future__ import annotations

import json
import socket

import pytest

from bench.server_process import ServerError
from bench.streams import Stream, read_all

USAGE = {"usage": {"completion_tokens": 7}}


def chunk(delta: dict[str, str]) -> bytes:
    return b"data: " + json.dumps({"choices": [{"delta": delta}]}, separators=(",", ":")).encode()


def answered(body: bytes, *, is_streamed: bool, piece: int = 11) -> Stream:
    """A client that was sent this answer, some bytes at a time."""
    client, server = socket.socketpair()
    stream = Stream(client, 0.0, is_streamed)
    whole = b"HTTP/1.1 200 OK\r\ncontent-type: x\r\n\r\n" + body
    for start in range(0, len(whole), piece):
        server.sendall(whole[start : start + piece])
        assert stream.read()
    server.close()
    read_all([stream])
    return stream


def test_a_stream_is_its_events_texts_with_the_servers_count() -> None:
    events = [
        chunk({"role": "assistant", "content": ""}),
        chunk({"content": "Once"}),
        b": keep-alive",
        chunk({"content": " upon\n"}),
        b"data: " + json.dumps({"choices": [], **USAGE}).encode(),
        b"data: [DONE]",
    ]
    stream = answered(b"\n\n".join([*events, b""]), is_streamed=True)
    assert (stream.text, stream.tokens, len(stream.event_times)) == ("Once upon\n", 7, 2)
    assert stream.event_times[0] <= stream.event_times[1] <= stream.ended_at
    assert stream.longest_gap_s == stream.event_times[1] - stream.event_times[0]


def test_a_whole_answer_is_read_to_its_end() -> None:
    body = {"choices": [{"message": {"content": "Once\r\n\r\nupon"}}], **USAGE}
    stream = answered(json.dumps(body).encode(), is_streamed=False)
    assert (stream.text, stream.tokens, stream.event_times) == ("Once\r\n\r\nupon", 7, [])


def test_an_answer_without_counts_is_no_measurement() -> None:
    with pytest.raises(ServerError, match="without its counts"):
        answered(chunk({"content": "Once"}) + b"\n\ndata: [DONE]\n\n", is_streamed=True)
