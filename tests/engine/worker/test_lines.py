"""Lines out of a byte stream."""

import random

import pytest

from engine.worker.lines import LineSplitter
from engine.worker.messages import MessageError


@pytest.mark.parametrize("chunk_bytes", [1, 2, 7, 1000])
def test_lines_come_out_whole_however_the_chunks_fall(chunk_bytes: int):
    data = "erste\n\nzwei 👋\ndritte ohne Ende".encode()
    splitter = LineSplitter()
    lines: list[bytes] = []
    for i in range(0, len(data), chunk_bytes):
        lines += splitter.feed(data[i : i + chunk_bytes])
    assert [line.decode() for line in lines] == ["erste", "", "zwei 👋"]
    assert splitter.rest == b"dritte ohne Ende"


def test_random_chunks_lose_nothing():
    rng = random.Random(5)  # noqa: S311  # a test's data
    data = bytes(rng.choice(b"ab\n") for _ in range(5000))
    splitter, lines, place = LineSplitter(), [], 0
    while place < len(data):
        size = rng.randint(1, 300)
        lines += splitter.feed(data[place : place + size])
        place += size
    assert b"\n".join([*lines, splitter.rest]) == data


def test_a_line_past_the_limit_is_refused_before_it_is_whole():
    splitter = LineSplitter(max_bytes=10)
    assert splitter.feed(b"0123456789\n") == [b"0123456789"]
    splitter.feed(b"01234")
    with pytest.raises(MessageError, match="more than 10 bytes"):
        splitter.feed(b"567890")
