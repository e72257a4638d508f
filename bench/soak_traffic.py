"""Random traffic of all protocols: good requests, clients that go away, bodies that are none.

Every request is drawn from one seeded generator, so that a run can be repeated; what went against the
rules (an error of the server, a stream without an end) is kept as a sentence.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from bench.soak_client import (
    Protocol,
    Reply,
    ask,
    connection,
    post_bytes,
    read_head,
    read_rest,
    request_bytes,
)

WORDS = (
    "river",
    "stone",
    "teacher",
    "window",
    "garden",
    "silver",
    "morning",
    "paper",
    "ocean",
    "music",
)
SYSTEMS = ("", "You are brief.", "Answer with one word.", "You are a dictionary. " * 12)
LOOK = {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]}
SCHEMA = {
    "type": "object",
    "properties": {"word": {"type": "string", "maxLength": 8}, "n": {"type": "integer"}},
    "required": ["word", "n"],
}
# What a server may say to a request that it need not serve.
REFUSALS = frozenset({400, 404, 405, 408, 413, 415, 422})
MAX_SENTENCES = 20
TURNED_AWAY_S = 0.3


@dataclass(slots=True)
class Seen:
    """What happened.

    Attributes:
        kinds: requests by kind.
        statuses: answers by status; 0 for none.
        faults: sentences about what must not happen.
    """

    kinds: Counter[str] = field(default_factory=Counter)
    statuses: Counter[int] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)

    def blame(self, sentence: str) -> None:
        """Keep a fault, if there are not too many already."""
        if len(self.faults) < MAX_SENTENCES:
            self.faults.append(sentence)


class Traffic:
    """Makes requests against a port."""

    def __init__(self, port: int, seed: int) -> None:
        self.seen = Seen()
        self._port = port
        self._random = random.Random(seed)  # noqa: S311 - no secret is made of it
        self._kinds: tuple[tuple[int, Callable[[], Awaitable[None]]], ...] = (
            (30, self.whole),
            (26, self.streamed),
            (12, self.left),
            (5, self.slow),
            (5, self.cancelled),
            (14, self.malformed),
            (8, self.service),
        )

    async def run(self, num_requests: int, concurrency: int) -> None:
        """Make so many requests, so many of them at once."""
        weights, kinds = zip(*self._kinds, strict=True)
        left = iter(range(num_requests))

        async def client() -> None:
            for _ in left:
                kind = self._random.choices(kinds, weights)[0]
                self.seen.kinds[kind.__name__] += 1
                try:
                    await kind()
                except TimeoutError as error:
                    self.seen.blame(f"{kind.__name__}: no answer came to {error}")
                except OSError as error:
                    self.seen.blame(f"{kind.__name__}: the server was not to be reached: {error}")

        await asyncio.gather(*(client() for _ in range(concurrency)))

    async def whole(self) -> None:
        """An answer in one piece."""
        protocol, body = self._request(stream=False)
        reply = await ask(self._port, post_bytes(protocol.path, body))
        await self._check(protocol, reply, {200, 429})
        if reply.status == 200:
            json.loads(reply.body)

    async def streamed(self) -> None:
        """A stream, read to its end."""
        protocol, body = self._request(stream=True)
        reply = await ask(self._port, post_bytes(protocol.path, body))
        await self._check(protocol, reply, {200, 429})
        self._check_end(protocol, reply)

    async def left(self) -> None:
        """A client that goes away: at once, while waiting, or in mid-answer."""
        protocol, body = self._request(stream=self._random.random() < 0.6, cap=200)
        async with connection(self._port, post_bytes(protocol.path, body)) as (reader, _):
            if self._random.random() < 0.7:
                await asyncio.sleep(self._random.random() * 0.1)
            else:
                await asyncio.wait_for(reader.read(200), 60)

    async def slow(self) -> None:
        """A client that reads in small sips, and sometimes never reads the rest."""
        protocol, body = self._request(stream=True, cap=60)
        async with connection(self._port, post_bytes(protocol.path, body)) as (reader, _):
            status, headers = await read_head(reader)
            sips = b""
            for _ in range(self._random.randrange(8)):
                sips += await asyncio.wait_for(reader.read(64), 60)
                await asyncio.sleep(0.05)
            if self._random.random() < 0.7 and not sips:
                rest = await read_rest(reader, headers)
                self._check_end(protocol, Reply(status, "", rest))

    async def cancelled(self) -> None:
        """A stream that its owner cancels, or whose thinking it ends."""
        protocol, body = self._request(stream=True, cap=200)
        verb = self._random.choice(("cancel", "stop_thinking"))
        async with connection(self._port, post_bytes(protocol.path, body)) as (reader, _):
            status, headers = await read_head(reader)
            if status == 200:
                path = f"/v1/requests/{headers['x-request-id']}/{verb}"
                reply = await ask(self._port, post_bytes(path, {}))
                if reply.status not in (200, 404):  # 404: it has ended meanwhile
                    self.seen.blame(f"{verb} was answered {reply.status}: {reply.text}")
            rest = await read_rest(reader, headers)
            if status == 200:
                self._check_end(protocol, Reply(status, "", rest))

    async def malformed(self) -> None:
        """A body that is no request."""
        protocol, body = self._request(stream=self._random.random() < 0.5)
        good = json.dumps(body).encode()
        path = protocol.path
        chunked = request_bytes("POST", path)[:-2] + b"Transfer-Encoding: chunked\r\n\r\n"
        raw = self._random.choice(
            (
                request_bytes("POST", path, good[: self._random.randrange(len(good))]),
                request_bytes("POST", path, bytes(reversed(good))),
                request_bytes("POST", path, good.replace(b'"', b"\xff", 1)),
                request_bytes("POST", path, b"[" * 5000),
                request_bytes("POST", path, b""),
                post_bytes(path, {**body, "temperature": "hot", "max_tokens": -7, "messages": 3}),
                post_bytes(path, {**body, "messages": [{"role": "user", "content": {"a": []}}]}),
                post_bytes(path, [body]),
                post_bytes(path + "/nothing/here", body),
                request_bytes("PUT", path, good),
                request_bytes("POST", path, good, claimed=len(good) // 2),
                request_bytes("POST", path, good, claimed=-5),
                chunked + b"zz\r\n",
                b"\x00\x01\x02 garbage\r\n\r\n",
            )
        )
        if self._random.random() < 0.15:  # more is promised than ever comes
            async with connection(self._port, request_bytes("POST", path, good, claimed=10**6)):
                await asyncio.sleep(0.02)
            return
        reply = await ask(self._port, raw)
        # One of these mistakes may leave a good request; the server's own errors are never right.
        await self._check(protocol, reply, REFUSALS | {0, 200, 429})

    async def service(self) -> None:
        """Routes beside the answers."""
        prompt = self._sentence(12)
        messages = [{"role": "user", "content": prompt}]
        raw = self._random.choice(
            (
                *(request_bytes("GET", path) for path in ("/health", "/status", "/metrics")),
                *(request_bytes("GET", path) for path in ("/slots", "/props", "/v1/models", "/")),
                post_bytes("/tokenize", {"content": prompt}),
                post_bytes("/detokenize", {"tokens": [5, 6, 7]}),
                post_bytes("/apply-template", {"messages": messages}),
                post_bytes("/v1/messages/count_tokens", {"messages": messages}),
                post_bytes("/v1/responses/input_tokens", {"input": prompt}),
            )
        )
        reply = await ask(self._port, raw)
        self.seen.statuses[reply.status] += 1
        if reply.status != 200:
            self.seen.blame(f"{raw[:40]!r} was answered {reply.status}: {reply.text}")

    def _sentence(self, num_words: int) -> str:
        return " ".join(self._random.choices(WORDS, k=num_words))

    def _request(self, *, stream: bool, cap: int = 16) -> tuple[Protocol, dict[str, object]]:
        """A good request of a random protocol."""
        pick = self._random
        protocol = pick.choice(list(Protocol))
        length = 300 if pick.random() < 0.05 else pick.randrange(1, 30)
        body = protocol.body(self._sentence(length), pick.randrange(1, cap + 1), stream=stream)
        if pick.random() < 0.5:
            body["temperature"] = pick.choice((0, 0.7, 1.5))
        if protocol is Protocol.CHAT:
            self._vary_chat(body)
        if protocol is Protocol.MESSAGES and pick.random() < 0.3:
            body["thinking"] = {"type": "enabled", "budget_tokens": 8}
            body["tools"] = [{"name": "look", "input_schema": LOOK}]
        return protocol, body

    def _vary_chat(self, body: dict[str, object]) -> None:
        pick = self._random
        messages = [{"role": "user", "content": self._sentence(8)}]
        for _ in range(pick.choice((0, 0, 1, 3))):  # a conversation that went on for a while
            messages.append({"role": "assistant", "content": self._sentence(5)})
            messages.append({"role": "user", "content": self._sentence(5)})
        system = pick.choice(SYSTEMS)
        if system:
            messages.insert(0, {"role": "system", "content": system})
        body["messages"] = messages
        body["reasoning_effort"] = pick.choice(("none", "low", "high"))
        extras: tuple[dict[str, object], ...] = (
            {},
            {},
            {"n": 2},
            {"logprobs": True, "top_logprobs": 2},
            {"stop": ["e", "\n"]},
            {"reasoning_budget_tokens": 4},
            {"tools": [{"type": "function", "function": {"name": "look", "parameters": LOOK}}]},
            {"response_format": {"type": "json_object"}},
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "w", "schema": SCHEMA},
                }
            },
        )
        body.update(pick.choice(extras))

    async def _check(
        self, protocol: Protocol, reply: Reply, allowed: set[int] | frozenset[int]
    ) -> None:
        self.seen.statuses[reply.status] += 1
        if reply.status not in allowed:
            self.seen.blame(f"{protocol.name} was answered {reply.status}: {reply.text}")
        if reply.status == 429:  # as a client that honours Retry-After, only less patient
            await asyncio.sleep(TURNED_AWAY_S)

    def _check_end(self, protocol: Protocol, reply: Reply) -> None:
        if reply.status != 200:
            return
        if not protocol.has_ended(reply.body):
            self.seen.blame(f"a stream of {protocol.name} has no end: ...{reply.body[-200:]!r}")
        elif protocol.has_failed(reply.body):
            self.seen.blame(f"a stream of {protocol.name} failed: ...{reply.body[-300:]!r}")
