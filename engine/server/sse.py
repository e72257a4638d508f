"""Server-sent events: a stream of byte chunks with keep-alives, for clients that may vanish.

The chunks come from a protocol's own generator; here they are sent as they come, a keep-alive (an
SSE comment, or what the protocol's clients need) goes out after a silence (also while the request
waits in the queue or the model loads), and the generator is ended at once when the client goes away
or reads nothing for a minute.
"""

from __future__ import annotations

import asyncio
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

# Chunks that wait for the connection; beyond these the generator waits too.
QUEUED_CHUNKS = 256

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
        queue: asyncio.Queue[bytes | None] = asyncio.Queue(QUEUED_CHUNKS)
        producer = asyncio.create_task(self._produce(queue))
        gone = asyncio.create_task(wait_until_gone(receive))
        try:
            start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
            await send(start)
            await self._send_all(queue, gone, send)
            await producer  # its error, if it had one
        finally:
            for task in (producer, gone):
                task.cancel()
            await asyncio.gather(producer, gone, return_exceptions=True)
            self._on_close()

    async def _produce(self, queue: asyncio.Queue[bytes | None]) -> None:
        try:
            async with aclosing(self._chunks) as chunks:
                async for chunk in chunks:
                    await queue.put(chunk)
        except Exception:
            await queue.put(None)
            raise
        await queue.put(None)  # not when cancelled: nobody reads any more

    async def _send_all(
        self, queue: asyncio.Queue[bytes | None], gone: asyncio.Task[None], send: Send
    ) -> None:
        is_last = False
        while not is_last:
            getter = asyncio.ensure_future(queue.get())
            try:
                await asyncio.wait(
                    {getter, gone},
                    timeout=self._keepalive_s,
                    return_when=asyncio.FIRST_COMPLETED,
                )
                if gone.done():
                    raise ClientGone
                chunk = getter.result() if getter.done() else self._keep_alive()
            finally:
                getter.cancel()
            body = bytearray()
            while chunk is not None:
                body += chunk
                if queue.empty():
                    break
                chunk = queue.get_nowait()
            is_last = chunk is None
            message = {"type": "http.response.body", "body": bytes(body), "more_body": not is_last}
            try:
                await asyncio.wait_for(send(message), READER_SILENCE_S)
            except TimeoutError as error:
                raise ClientGone from error
