"""The SSE sender: keep-alives, errors, clients that vanish, nothing left running."""

import asyncio

import pytest

from engine.server.bodies import ClientGone
from engine.server.sse import QUEUED_CHUNKS, SseResponse


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
        for index in range(3 * QUEUED_CHUNKS):
            yield f"{index},".encode()

    closed, connection = [], Connection()
    await response(chunks(), closed)({}, connection.receive, connection.send)
    assert connection.body == "".join(f"{i}," for i in range(3 * QUEUED_CHUNKS)).encode()
    assert connection.finished
    assert closed == [True]


async def test_a_silence_is_filled_with_comments():
    async def chunks():
        await asyncio.sleep(0.12)
        yield b"data: x\n\n"

    connection = Connection()
    await response(chunks(), [], 0.03)({}, connection.receive, connection.send)
    assert connection.body.startswith(b": keep-alive\n\n: keep-alive\n\n")
    assert connection.body.endswith(b"data: x\n\n")


@pytest.mark.parametrize("produced", [0, 1, 10 * QUEUED_CHUNKS])
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
        await asyncio.wait_for(task, 2)
    assert (ended, closed) == ([True], [True])


async def test_a_client_that_reads_nothing_counts_as_gone(monkeypatch):
    monkeypatch.setattr("engine.server.sse.READER_SILENCE_S", 0.05)

    async def chunks():
        while True:
            yield b"x" * 1000

    closed, connection = [], Connection(reads=False)
    sending = response(chunks(), closed)({}, connection.receive, connection.send)
    with pytest.raises(ClientGone):
        await asyncio.wait_for(sending, 2)
    assert closed == [True]


async def test_a_failing_generator_ends_the_response_and_is_reported():
    async def chunks():
        yield b"one"
        raise ZeroDivisionError

    closed, connection = [], Connection()
    with pytest.raises(ZeroDivisionError):
        await response(chunks(), closed)({}, connection.receive, connection.send)
    assert connection.body == b"one"
    assert closed == [True]
