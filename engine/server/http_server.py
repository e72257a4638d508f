"""uvicorn, run by us: our sockets, our signals, JSON also for requests that are not HTTP."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from collections.abc import Callable, Iterator
from types import FrameType

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from engine.server.answers import JSON_TYPE, to_json
from engine.server.errors import ApiError
from engine.server.front import STOP_GRACE_S, Front, new_id
from engine.server.gateway import HEADER_BLOCK_BYTES

MAX_CONNECTIONS = 128
KEEP_ALIVE_S = 75
# The headers of a request must arrive in this time, and the first ones in it after connecting; so
# must the rest of a body whose request was refused.
HEADERS_S = 30.0
# A body may come in chunks of any size, but beyond this many bytes not mainly in their frames: each chunk
# costs h11 some 20 us of the event loop, which all streams share.
CHUNK_FRAME_BYTES = 256 * 1024
MAX_FRAMED_SHARE = 4
STOP_SIGNALS = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGBREAK") if hasattr(signal, name)
)


class JsonH11Protocol(H11Protocol):
    """uvicorn's HTTP/1.1, for clients that may be clumsy or hostile.

    The body of a 400 for what is no HTTP is JSON too. Connections are limited in number, and none
    is held by a client that sends its headers in drops, does not read its answer, or sends on and
    on while it waits.
    """

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a connection, unless there are too many."""
        self._headers_due_s: float | None = None
        self._num_received = 0
        self._num_body = 0
        if len(self.connections) >= MAX_CONNECTIONS:
            transport.abort()
            return
        super().connection_made(transport)
        # For the gateway: `close` would wait for ever for a client that does not read.
        self.app_state = {**self.app_state, "abort": transport.abort}
        self._await_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget a connection that was taken."""
        if self.transport is not None:
            super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read what came."""
        before = self.cycle
        num_before = len(before.body) if before is not None else 0
        super().data_received(data)
        self._check_chunks(len(data), before, num_before)
        if self.cycle is None or self.cycle.response_complete:
            if self.timeout_keep_alive_task is None and not self.transport.is_closing():
                self._await_headers()
            return
        self._headers_due_s = None
        if not self.cycle.more_body:
            # uvicorn stops reading at a second request, and then would not see the client go.
            self.flow.resume_reading()
            if len(self.conn.trailing_data[0]) > HEADER_BLOCK_BYTES:
                self.transport.abort()

    def _check_chunks(
        self, num_received: int, before: RequestResponseCycle | None, num_before: int
    ) -> None:
        """End a connection whose body consists of frames around next to nothing."""
        if self.cycle is None or self.cycle.response_complete:
            return
        if self.cycle is not before:
            self._num_received, self._num_body, num_before = 0, 0, 0
        self._num_received += num_received
        self._num_body += len(self.cycle.body) - num_before
        if (
            self._num_received > CHUNK_FRAME_BYTES
            and self._num_received > MAX_FRAMED_SHARE * self._num_body
            and self.cycle.more_body
        ):
            self.send_400_response("The request body comes in too many tiny chunks.")

    def timeout_keep_alive_handler(self) -> None:
        """End a connection on which nothing happens, or that does not read its answer."""
        self.transport.abort()

    def _await_headers(self) -> None:
        """Give the client its time for the headers, counted from their first byte."""
        if self._headers_due_s is None:
            self._headers_due_s = self.loop.time() + HEADERS_S
        self.timeout_keep_alive_task = self.loop.call_at(
            self._headers_due_s, self.timeout_keep_alive_handler
        )

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP, or has no or two Host headers."""
        error = ApiError(400, "invalid_value", msg)
        body = to_json(error.openai_body()).encode("utf-8", "replace")
        headers = [
            (b"content-type", JSON_TYPE.encode()),
            (b"content-length", str(len(body)).encode()),
            (b"x-request-id", new_id("req_").encode()),
            (b"x-content-type-options", b"nosniff"),
            (b"connection", b"close"),
        ]
        with contextlib.suppress(h11.LocalProtocolError):  # an answer is under way already
            response = h11.Response(status_code=400, headers=headers, reason=b"Bad Request")
            for event in (response, h11.Data(data=body), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()


class HttpServer(uvicorn.Server):
    """Serves until a signal or `/shutdown`; running answers get ten seconds to end."""

    def __init__(self, app: ASGIApp, front: Front, on_started: Callable[[], None]) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=JsonH11Protocol,
                ws="none",
                lifespan="off",
                loop="asyncio",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_keep_alive=KEEP_ALIVE_S,
                timeout_graceful_shutdown=round(STOP_GRACE_S) + 5,
                h11_max_incomplete_event_size=HEADER_BLOCK_BYTES,
            )
        )
        self._front = front
        self._on_started = on_started
        self._loop: asyncio.AbstractEventLoop | None = None

    async def run_on(self, sockets: list[socket.socket]) -> None:
        """Serve until the server is asked to stop; running requests have ended then."""
        self._loop = asyncio.get_running_loop()
        stopper = asyncio.create_task(self._stop_when_asked())
        try:
            await self.serve(sockets)
        finally:
            stopper.cancel()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to accept connections."""
        await super().startup(sockets)
        self._on_started()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop gracefully at the first signal, at once at the second."""
        del sig, frame
        if self._loop is None:
            return
        if self._front.is_stopping:
            self._front.stop_is_forced = True
        self._loop.call_soon_threadsafe(self._front.stop_requested.set)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Our handlers while serving. Unlike uvicorn's, a clean stop is not raised again."""
        previous = {number: signal.signal(number, self.handle_exit) for number in STOP_SIGNALS}
        try:
            yield
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)

    async def _stop_when_asked(self) -> None:
        await self._front.stop_requested.wait()
        await self._front.drain(STOP_GRACE_S)
        self.should_exit = True
