"""Clients of a server under measurement: answers streamed and whole, read from raw sockets.

They cost a few microseconds a token, so that the two processes of the server have the processor.
"""

from __future__ import annotations

import http.client
import itertools
import json
import selectors
import socket
import time
from dataclasses import dataclass, field

from bench.server_process import HOST, ServerError

PROMPT = "Tell me a long story."
# The published settings of the model, said explicitly so that a scheduler alone can be given the same.
SAMPLING: dict[str, float] = {
    "temperature": 0.7,
    "top_p": 0.8,
    "top_k": 20,
    "presence_penalty": 1.5,
}


@dataclass(slots=True)
class Stream:
    """One answer as it arrived.

    Attributes:
        began_at: when it was asked for.
        is_streamed: it comes as events; else as one object.
        event_times: of each read that brought events of the answer.
        ended_at: when the last byte had come.
        tokens: of the answer, as the server counted them.
    """

    connection: socket.socket
    began_at: float
    is_streamed: bool = True
    event_times: list[float] = field(default_factory=list)
    ended_at: float = 0.0
    tokens: int = 0
    _rest: bytes = b""
    _last: bytes = b""
    _lines: list[bytes] = field(default_factory=list)

    def read(self) -> bool:
        """Take what has arrived; False at the end."""
        data = self.connection.recv(1 << 16)
        now = time.perf_counter()
        if not data:
            self.ended_at = now
            self._finish()
            return False
        self._rest += data
        if not self.is_streamed:
            return True
        *lines, self._rest = self._rest.split(b"\n")
        for line in lines:
            if line.startswith(b"data: {"):
                self._last = line
                if b'"content":"' in line and b'"role"' not in line:
                    self._lines.append(line)
                    self.event_times.append(now)
        return True

    @property
    def longest_gap_s(self) -> float:
        """Between two events of the answer."""
        times = self.event_times
        return max((b - a for a, b in itertools.pairwise(times)), default=0.0)

    @property
    def text(self) -> str:
        """The whole answer, once it has ended."""
        if not self.is_streamed:
            return str(json.loads(self._last[6:])["choices"][0]["message"]["content"])
        deltas = (json.loads(line[6:])["choices"][0]["delta"] for line in self._lines)
        return "".join(delta["content"] for delta in deltas)

    def _finish(self) -> None:
        self.connection.close()
        if not self.is_streamed:
            self._last = b"data: " + self._rest.partition(b"\r\n\r\n")[2]
        last = json.loads(self._last[6:] or b"{}") if self._last else {}
        if not last.get("usage"):
            raise ServerError("An answer ended without its counts: " + self._last[:300].decode())
        self.tokens = int(last["usage"]["completion_tokens"])


def ask(  # all of a request
    port: int,
    prompt: str,
    tokens: int,
    banned: dict[str, float],
    seed: int,
    is_streamed: bool = True,
) -> Stream:
    """Send one request; its answer has exactly so many tokens."""
    request: dict[str, object] = {
        "messages": [{"role": "user", "content": prompt}],
        "max_tokens": tokens,
        "reasoning_effort": "none",
        "seed": seed,
        "logit_bias": banned,
        "stream": is_streamed,
        **SAMPLING,
    }
    if is_streamed:
        request["stream_options"] = {"include_usage": True}
    body = json.dumps(request).encode()
    connection = socket.create_connection((HOST, port), 60)
    began_at = time.perf_counter()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    connection.sendall(head.encode() + body)
    return Stream(connection, began_at, is_streamed)


def read_all(streams: list[Stream], until: Stream | None = None) -> None:
    """Read answers to their ends, or until one of them has ended."""
    with selectors.DefaultSelector() as selector:
        for stream in streams:
            selector.register(stream.connection, selectors.EVENT_READ, stream)
        while selector.get_map():
            for key, _ in selector.select(60):
                connection = key.fileobj
                if not key.data.read():
                    selector.unregister(connection)
                    if key.data is until:
                        return


def stop_ids(port: int) -> dict[str, float]:
    """A logit bias that keeps answers from ending before their last token."""
    tokens = token_ids(port, "<|im_end|><|endoftext|>")
    return {str(token): -100.0 for token in tokens}


def prompt_ids(port: int) -> tuple[int, ...]:
    """The tokens that `PROMPT` becomes."""
    body: dict[str, object] = {
        "messages": [{"role": "user", "content": PROMPT}],
        "reasoning_effort": "none",
    }
    rendered = post(port, "/apply-template", body)
    ids = token_ids(port, str(rendered["prompt"]))
    if len(ids) != rendered["n_tokens"]:
        raise ServerError("The prompt's text becomes other tokens than the prompt.")
    return ids


def token_ids(port: int, text: str) -> tuple[int, ...]:
    """The tokens of a text, special ones included."""
    return tuple(post(port, "/tokenize", {"content": text})["tokens"])  # type: ignore[arg-type]


def post(port: int, path: str, body: dict[str, object]) -> dict[str, object]:
    """One JSON answer."""
    connection = http.client.HTTPConnection(HOST, port, timeout=60)
    connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
    value = json.loads(connection.getresponse().read())
    connection.close()
    if not isinstance(value, dict):
        raise ServerError(f"{path} answered something else than an object.")
    return value
