"""HTTP for soaking a server: one connection a request, bytes as they are, clients that misbehave.

Written on plain sockets, because the well-mannered libraries cannot send half a body, stop reading or go
away at a chosen moment, and because ten thousand requests through them would measure the client.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from enum import Enum

HOST = "127.0.0.1"
TIMEOUT_S = 300.0  # far above what the slowest of these requests takes on a busy machine


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back; status 0 stands for a connection that was closed without an answer."""

    status: int
    request_id: str
    body: bytes

    @property
    def text(self) -> str:
        """The body's beginning, for people."""
        return self.body[:300].decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """What a server does; `generated` has the tokens of each running request."""

    generated: tuple[int, ...]
    queued: int
    busy_slots: int
    restarts: int

    @property
    def is_idle(self) -> bool:
        """Nothing runs and nothing waits."""
        return not (self.generated or self.queued or self.busy_slots)


class Protocol(Enum):
    """The four ways to ask, each with its path and the marks of its streams' ends."""

    CHAT = ("/v1/chat/completions", (b"data: [DONE]\n\n",), b'data: {"error":')
    COMPLETIONS = ("/v1/completions", (b"data: [DONE]\n\n",), b'data: {"error":')
    RESPONSES = (
        "/v1/responses",
        (b"event: response.completed", b"event: response.incomplete", b"event: response.failed"),
        b"event: response.failed",
    )
    MESSAGES = ("/v1/messages", (b"event: message_stop", b"event: error"), b"event: error")

    def __init__(self, path: str, ends: tuple[bytes, ...], error: bytes) -> None:
        self.path = path
        self._ends = ends
        self._error = error

    def has_ended(self, stream: bytes) -> bool:
        """Whether a stream was brought to an end in the protocol's own words."""
        return any(end in stream for end in self._ends)

    def has_failed(self, stream: bytes) -> bool:
        """Whether a stream carries the protocol's error event."""
        return self._error in stream

    def body(self, prompt: str, cap: int, *, stream: bool) -> dict[str, object]:
        """The plainest request with this prompt."""
        shared: dict[str, object] = {"stream": stream, "model": "any"}
        match self:
            case Protocol.CHAT:
                messages = [{"role": "user", "content": prompt}]
                return {**shared, "messages": messages, "max_completion_tokens": cap}
            case Protocol.COMPLETIONS:
                return {**shared, "prompt": prompt, "max_tokens": cap}
            case Protocol.RESPONSES:
                return {**shared, "input": prompt, "max_output_tokens": cap}
            case Protocol.MESSAGES:
                messages = [{"role": "user", "content": prompt}]
                return {**shared, "messages": messages, "max_tokens": cap}


def request_bytes(
    method: str, path: str, body: bytes | None = None, *, claimed: int | None = None
) -> bytes:
    """A whole request; `claimed` is a Content-Length that may be a lie."""
    head = [f"{method} {path} HTTP/1.1", f"Host: {HOST}", "Connection: close"]
    if body is not None:
        length = len(body) if claimed is None else claimed
        head += ["Content-Type: application/json", f"Content-Length: {length}"]
    return "\r\n".join([*head, "", ""]).encode() + (body or b"")


def post_bytes(path: str, value: object) -> bytes:
    """A POST of JSON."""
    return request_bytes("POST", path, json.dumps(value).encode())


@contextlib.asynccontextmanager
async def connection(
    port: int, raw: bytes
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection with a request sent on it; closed hard at the end, as by a killed client."""
    reader, writer = await asyncio.open_connection(HOST, port)
    try:
        writer.write(raw)
        with contextlib.suppress(ConnectionError):
            await writer.drain()
        yield reader, writer
    except TimeoutError as error:
        raise TimeoutError(f"{raw[:400]!r}") from error
    finally:
        writer.transport.abort()


async def read_head(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    """Status and headers of an answer; status 0 when there is none."""
    try:
        block = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), TIMEOUT_S)
    except (asyncio.IncompleteReadError, ConnectionError):
        return 0, {}
    lines = block.decode("latin-1").split("\r\n")
    pairs = (line.partition(":") for line in lines[1:] if line)
    return int(lines[0].split()[1]), {name.lower(): value.strip() for name, _, value in pairs}


async def read_rest(reader: asyncio.StreamReader, headers: dict[str, str]) -> bytes:
    """The body of an answer, until the server closes."""
    try:
        raw = await asyncio.wait_for(reader.read(), TIMEOUT_S)
    except ConnectionError:
        return b""
    return _without_chunks(raw) if "transfer-encoding" in headers else raw


async def ask(port: int, raw: bytes) -> Reply:
    """Send a request and read the whole answer."""
    async with connection(port, raw) as (reader, _writer):
        status, headers = await read_head(reader)
        body = await read_rest(reader, headers)
        return Reply(status, headers.get("x-request-id", ""), body)


async def get_status(port: int) -> ServerStatus:
    """What the server says that it does."""
    status = json.loads((await ask(port, request_bytes("GET", "/status"))).body)
    slots = json.loads((await ask(port, request_bytes("GET", "/slots"))).body)
    return ServerStatus(
        generated=tuple(request["generated"] for request in status["requests"]),
        queued=status["queued"],
        busy_slots=sum(slot["is_processing"] for slot in slots),
        restarts=status["restarts"],
    )


def _without_chunks(raw: bytes) -> bytes:
    """The content of a chunked body; a body that is cut gives what there is."""
    content = bytearray()
    while True:
        size_text, _, rest = raw.partition(b"\r\n")
        try:
            size = int(size_text, 16)
        except ValueError:
            return bytes(content)
        if size == 0:
            return bytes(content)
        content += rest[:size]
        raw = rest[size + 2 :]
