"""Connections of clients that are clumsy or hostile, below HTTP's rules."""

import asyncio
import contextlib
import types

import pytest
import uvicorn
from starlette.responses import PlainTextResponse
from starlette.routing import Route, Router
from uvicorn.server import ServerState

from engine.server import http_server, sse
from engine.server.engine_metrics import EngineMetrics
from engine.server.gateway import Gateway
from engine.server.http_server import JsonH11Protocol
from engine.server.security import SecurityPolicy
from engine.server.sse import SseResponse

# Longer than a busy machine takes for anything.
PATIENCE_S = 60
GET = b"GET /%b HTTP/1.1\r\nHost: localhost\r\n\r\n"


class Routes:
    """Routes that wait, flood and fail; `ended` says which streams have ended."""

    def __init__(self):
        self.ended = asyncio.Event()

    async def quick(self, _request):
        return PlainTextResponse("pong!")

    async def broken(self, _request):
        raise RuntimeError("a secret")

    async def waiting(self, _request):
        return self._stream(self._nothing())

    async def flood(self, _request):
        return self._stream(self._much())

    async def _nothing(self):
        await asyncio.Event().wait()
        yield b""

    async def _much(self):
        while True:
            yield b"x" * 65536

    def _stream(self, chunks):
        return SseResponse(chunks, keepalive_s=60, headers={}, on_close=self.ended.set)


@contextlib.asynccontextmanager
async def serving():
    """The routes behind our gateway and protocol, and a function that connects."""
    routes = Routes()
    table = [
        Route(f"/{name}", getattr(routes, name)) for name in ("quick", "broken", "waiting", "flood")
    ]
    front = types.SimpleNamespace(security=SecurityPolicy(), metrics=EngineMetrics())
    app = Gateway(Router(table), front)
    config = uvicorn.Config(app, http=JsonH11Protocol, lifespan="off", log_config=None)
    config.load()
    state = ServerState()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: JsonH11Protocol(config, state, {}), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with contextlib.AsyncExitStack() as stack:

        async def connect():
            reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
            stack.callback(writer.close)
            return reader, writer

        try:
            yield routes, connect, state
        finally:
            server.close()
            for connection in list(state.connections):
                connection.transport.abort()
            await asyncio.gather(*state.tasks, return_exceptions=True)


async def test_a_client_that_sends_a_second_request_and_goes_away_is_noticed():
    async with serving() as (routes, connect, _):
        reader, writer = await connect()
        writer.write(GET % b"waiting")
        assert b" 200 " in await reader.readline()
        writer.write(GET % b"quick")
        await asyncio.sleep(0.05)
        writer.close()
        await asyncio.wait_for(routes.ended.wait(), PATIENCE_S)


async def test_a_client_that_sends_on_and_on_while_it_waits_is_cut_off():
    async with serving() as (routes, connect, _):
        _reader, writer = await connect()
        writer.write(GET % b"waiting")
        with contextlib.suppress(ConnectionError):
            while not routes.ended.is_set():
                writer.write(GET % b"quick" * 100)
                await writer.drain()
                await asyncio.sleep(0)
        await asyncio.wait_for(routes.ended.wait(), PATIENCE_S)


async def test_pipelined_requests_are_answered_in_turn():
    async with serving() as (_, connect, _):
        reader, writer = await connect()
        writer.write(GET % b"quick" * 3 + GET % b"nothing")
        answers = b""
        while b"not_found_error" not in answers:
            answers += await asyncio.wait_for(reader.read(4096), PATIENCE_S)
        assert answers.count(b"pong!") == 3


async def test_a_client_that_stops_reading_loses_its_connection(monkeypatch):
    monkeypatch.setattr(sse, "READER_SILENCE_S", 0.2)
    async with serving() as (routes, connect, state):
        await_connection = connect()
        _reader, writer = await await_connection
        writer.write(GET % b"flood")
        await asyncio.wait_for(routes.ended.wait(), PATIENCE_S)
        async with asyncio.timeout(PATIENCE_S):
            while state.connections:
                await asyncio.sleep(0.01)


@pytest.mark.parametrize("beginning", [b"", b"GET / HT"])
async def test_headers_must_arrive_in_their_time_however_they_trickle(monkeypatch, beginning):
    monkeypatch.setattr(http_server, "HEADERS_S", 0.3)
    async with serving() as (_, connect, _):
        reader, writer = await connect()
        started_s = asyncio.get_running_loop().time()
        writer.write(beginning)
        with contextlib.suppress(ConnectionError):
            while not reader.at_eof():
                if beginning:
                    writer.write(b"x")
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(reader.read(1), 0.05)
                assert asyncio.get_running_loop().time() - started_s < PATIENCE_S


async def test_a_slow_second_request_gets_its_own_time(monkeypatch):
    monkeypatch.setattr(http_server, "HEADERS_S", 2)
    async with serving() as (_, connect, _):
        reader, writer = await connect()
        for _ in range(8):  # 0.3 s each
            for part in (b"GET /quick HTTP/1.1\r\n", b"Host: localhost\r\n", b"\r\n"):
                writer.write(part)
                await asyncio.sleep(0.1)
            assert b" 200 " in await reader.readline()
            await reader.readuntil(b"pong!")


async def test_our_own_mistakes_are_json_without_details():
    async with serving() as (_, connect, _):
        reader, writer = await connect()
        writer.write(GET % b"broken")
        answer = await asyncio.wait_for(reader.readuntil(b"}}"), PATIENCE_S)
        assert b" 500 " in answer
        assert b'"code":"internal_error"' in answer
        assert b"x-request-id: req_" in answer
        assert b"secret" not in answer


async def test_the_rest_of_a_refused_body_is_read_for_a_while_only(monkeypatch):
    monkeypatch.setattr(http_server, "HEADERS_S", 0.3)
    async with serving() as (_, connect, _):
        reader, writer = await connect()
        writer.write(
            b"POST /nothing HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n"
        )
        await asyncio.wait_for(reader.readuntil(b"}}"), PATIENCE_S)
        started_s = asyncio.get_running_loop().time()
        with contextlib.suppress(ConnectionError):
            while not reader.at_eof():
                writer.write(b"x")
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(reader.read(1), 0.05)
                assert asyncio.get_running_loop().time() - started_s < PATIENCE_S
