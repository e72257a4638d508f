"""The SSE sender: keep-alives, errors, clients that vanish, nothing left running."""

import asyncio

import pytest

from engine.server.bodies import ClientGone
from engine.server.sse import BUFFERED_BYTES, PIECE_BYTES, SseResponse


class Connection:
    """An ASGI connection that records what is sent."""

    def __init__(self, *, reads=True):
        self.body = b""
        self.finished = False
        self.gone = asyncio.Event()
        self.reads = reads

    async def receive(self):
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message):
        if message["type"] != "http.response.body":
            return
        if not self.reads:
            await asyncio.Event().wait()
        self.body += message["body"]
        self.finished = not message["more_body"]


def response(chunks, closed, keepalive_s=5.0):
    return SseResponse(
        chunks, keepalive_s=keepalive_s, headers={}, on_close=lambda: closed.append(True)
    )


async def test_everything_is_sent_in_order_and_closed():
    async def chunks():
        for index in range(1000):
            yield f"{index},".encode()

    closed, connection = [], Connection()
    await response(chunks(), closed)({}, connection.receive, connection.send)
    assert connection.body == "".join(f"{i}," for i in range(1000)).encode()
    assert connection.finished
    assert closed == [True]


async def test_a_silence_is_filled_with_comments():
    connection = Connection()

    async def chunks():
        while connection.body.count(b": keep-alive") < 2:
            await asyncio.sleep(0.01)
        yield b"data: x\n\n"

    await response(chunks(), [], 0.03)({}, connection.receive, connection.send)
    assert connection.body.startswith(b": keep-alive\n\n: keep-alive\n\n")
    assert connection.body.endswith(b"data: x\n\n")


@pytest.mark.parametrize("produced", [0, 1, 10_000])
async def test_a_client_that_goes_away_ends_the_generator(produced):
    ended = []

    async def chunks():
        try:
            for _ in range(produced):
                yield b"x"
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    closed, connection = [], Connection()
    task = asyncio.create_task(response(chunks(), closed)({}, connection.receive, connection.send))
    await asyncio.sleep(0.02)
    connection.gone.set()
    with pytest.raises(ClientGone):
        await asyncio.wait_for(task, 60)
    assert (ended, closed) == ([True], [True])


async def test_a_client_that_reads_nothing_counts_as_gone(monkeypatch):
    monkeypatch.setattr("engine.server.sse.READER_SILENCE_S", 0.05)

    async def chunks():
        while True:
            yield b"x" * 1000

    closed, connection = [], Connection(reads=False)
    sending = response(chunks(), closed)({}, connection.receive, connection.send)
    with pytest.raises(ClientGone):
        await asyncio.wait_for(sending, 60)
    assert closed == [True]


async def test_a_slow_reader_holds_up_the_generator_and_loses_nothing():
    produced = 0
    chunk = b"x" * 10_000

    async def chunks():
        nonlocal produced
        for _ in range(300):
            produced += len(chunk)
            yield chunk

    may_read = asyncio.Event()
    connection = Connection()
    pieces = []

    async def send(message):
        await may_read.wait()
        pieces.append(len(message.get("body", b"")))
        await connection.send(message)

    task = asyncio.create_task(response(chunks(), [])({}, connection.receive, send))
    while produced < BUFFERED_BYTES:
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.05)  # time to go too far
    assert BUFFERED_BYTES <= produced <= BUFFERED_BYTES + 3 * len(chunk)
    may_read.set()
    await asyncio.wait_for(task, 60)
    assert len(connection.body) == 300 * len(chunk)
    assert connection.finished
    assert max(pieces) <= PIECE_BYTES


async def test_a_failing_generator_ends_the_response_and_is_reported():
    async def chunks():
        yield b"one"
        raise ZeroDivisionError

    closed, connection = [], Connection()
    with pytest.raises(ZeroDivisionError):
        await response(chunks(), closed)({}, connection.receive, connection.send)
    assert connection.body == b"one"
    assert closed == [True]
