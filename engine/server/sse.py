"""Server-sent events: a stream of byte chunks with keep-alives, for clients that may vanish.

The chunks come from a protocol's own generator; here they are sent as they come, a keep-alive (an
SSE comment, or what the protocol's clients need) goes out after a silence (also while the request
waits in the queue or the model loads), and the generator is ended at once when the client goes away
or reads nothing for a minute.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing

from starlette.background import BackgroundTask
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from engine.server.answers import to_json, wait_until_gone
from engine.server.bodies import ClientGone

SSE_HEADERS = {
    "content-type": "text/event-stream; charset=utf-8",
    "cache-control": "no-cache",
    "x-accel-buffering": "no",
}
KEEP_ALIVE = b": keep-alive\n\n"
DONE = b"data: [DONE]\n\n"

# Bytes that wait for the connection; beyond these the generator waits too.
BUFFERED_BYTES = 1 << 20

# Sent at once; small enough that every slow but living reader takes it in the time below.
PIECE_BYTES = 1 << 16

# A client that takes nothing for this long counts as gone.
READER_SILENCE_S = 60.0


def data_event(value: object) -> bytes:
    """One `data:` event with a JSON value."""
    return b"data: " + to_json(value).encode("utf-8", "replace") + b"\n\n"


def named_event(name: str, value: object) -> bytes:
    """One event with a name, for protocols whose clients go by it."""
    return b"event: " + name.encode("ascii") + b"\n" + data_event(value)


def comment_keep_alive() -> bytes:
    """The keep-alive that every client of server-sent events skips."""
    return KEEP_ALIVE


class _Alarm:
    """Calls a function when it has not been set again for a while.

    Setting it costs next to nothing: a timer of the loop is made only when the last one has run out.
    """

    def __init__(self, ring: Callable[[], None]) -> None:
        self._ring = ring
        self._loop = asyncio.get_running_loop()
        self._due_s: float | None = None
        self._timer: asyncio.TimerHandle | None = None

    def set(self, seconds: float) -> None:
        """Ring after this time, unless it is set anew or stopped before."""
        self._due_s = self._loop.time() + seconds
        if self._timer is None or self._timer.when() > self._due_s:
            self._start(self._due_s)

    def stop(self) -> None:
        """Do not ring."""
        self._due_s = None

    def close(self) -> None:
        """Do not ring any more."""
        self.stop()
        if self._timer is not None:
            self._timer.cancel()

    def _start(self, due_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(due_s, self._check)

    def _check(self) -> None:
        self._timer = None
        if self._due_s is None:
            return
        if self._loop.time() < self._due_s:
            self._start(self._due_s)
        else:
            self._due_s = None
            self._ring()


class _Buffer:
    """Bytes between the generator and the connection."""

    def __init__(self) -> None:
        self._silence = _Alarm(self.wake)
        self._chunks: deque[bytes] = deque()
        self._num_bytes = 0
        self._is_closed = False
        self._has_news = asyncio.Event()
        self._has_room = asyncio.Event()

    async def put(self, chunk: bytes) -> None:
        """Add a chunk, as soon as there is room."""
        while self._num_bytes >= BUFFERED_BYTES:
            self._has_room.clear()
            await self._has_room.wait()
        self._chunks.append(chunk)
        self._num_bytes += len(chunk)
        self._has_news.set()

    def close(self) -> None:
        """Nothing more comes."""
        self._is_closed = True
        self._silence.close()
        self._has_news.set()

    def wake(self) -> None:
        """End a `wait_for_news`."""
        self._has_news.set()

    async def wait_for_news(self, timeout_s: float) -> bool:
        """Wait for bytes, the end or `wake`; false when nothing happened in time."""
        if self._chunks or self._is_closed:
            return True
        self._has_news.clear()
        self._silence.set(timeout_s)
        await self._has_news.wait()
        self._silence.stop()
        return bool(self._chunks) or self._is_closed

    @property
    def is_finished(self) -> bool:
        """Whether everything has been taken, and nothing more comes."""
        return self._is_closed and not self._chunks

    def take(self) -> bytes:
        """The next bytes, whole chunks unless one alone is larger than a piece."""
        taken = bytearray()
        while self._chunks and len(taken) < PIECE_BYTES:
            chunk = self._chunks.popleft()
            room = PIECE_BYTES - len(taken)
            taken += chunk[:room]
            if len(chunk) > room:
                self._chunks.appendleft(chunk[room:])
        self._num_bytes -= len(taken)
        self._has_room.set()
        return bytes(taken)


class SseResponse(Response):
    """Sends a generator's chunks; `on_close` is called at the end, whatever happened."""

    def __init__(
        self,
        chunks: AsyncGenerator[bytes, None],
        *,
        keepalive_s: float,
        headers: Mapping[str, str],
        on_close: Callable[[], None],
        keep_alive: Callable[[], bytes] = comment_keep_alive,
    ) -> None:
        self._chunks = chunks
        self._keepalive_s = keepalive_s
        self._keep_alive = keep_alive
        self._on_close = on_close
        self.status_code = 200
        self.background: BackgroundTask | None = None
        self.init_headers({**SSE_HEADERS, **headers})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        """Send everything.

        Raises:
            ClientGone: the client closed the connection, or stopped reading.
        """
        buffer = _Buffer()
        producer = asyncio.create_task(self._produce(buffer))
        gone = asyncio.create_task(wait_until_gone(receive))
        gone.add_done_callback(lambda _: buffer.wake())
        try:
            start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
            await send(start)
            await self._send_all(buffer, gone, send)
            await producer  # its error, if it had one
        finally:
            for task in (producer, gone):
                task.cancel()
            await asyncio.gather(producer, gone, return_exceptions=True)
            self._on_close()

    async def _produce(self, buffer: _Buffer) -> None:
        try:
            async with aclosing(self._chunks) as chunks:
                async for chunk in chunks:
                    await buffer.put(chunk)
        finally:
            buffer.close()

    async def _send_all(self, buffer: _Buffer, gone: asyncio.Task[None], send: Send) -> None:
        task = asyncio.current_task()
        is_given_up = False

        def give_up() -> None:
            nonlocal is_given_up
            is_given_up = True
            if task is not None:
                task.cancel()

        reader = _Alarm(give_up)
        is_last = False
        try:
            while not is_last:
                has_news = await buffer.wait_for_news(self._keepalive_s)
                if gone.done():
                    raise ClientGone
                body = buffer.take() if has_news else self._keep_alive()
                is_last = buffer.is_finished
                reader.set(READER_SILENCE_S)
                await send({"type": "http.response.body", "body": body, "more_body": not is_last})
                reader.stop()
        except asyncio.CancelledError as error:
            if task is None or not is_given_up:
                raise
            task.uncancel()
            raise ClientGone from error
        finally:
            reader.close()
