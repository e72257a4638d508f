"""Chat and text completions passed on as they are: the upstream speaks their protocol itself.

The client's body goes there unchanged but for the model's name, so everything that the upstream can
do (images, its own extensions) works. Coming back, reasoning gets our name beside the upstream's, and
the client's name for the model is put back. Our own rules hold before and around it: security, sizes,
keep-alives, the end of the request when its client goes away.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, aclosing

import httpx2
from starlette.requests import Request
from starlette.responses import Response

from engine.core.strict_json import BadJsonError, parse_json
from engine.server.active import Phase, unless_ended
from engine.server.chat_completions import error_event
from engine.server.delivery import streamed_response, whole_response
from engine.server.errors import ApiError
from engine.server.fields import Fields
from engine.server.front import Front, new_id
from engine.server.generation import Generation
from engine.server.sse import DONE, data_event
from engine.server.steps import GenerationPlan
from engine.server.upstream.answer import data_of
from engine.server.upstream.client import Upstream
from engine.server.upstream.failures import error_in
from engine.worker.messages import SamplingParams

JsonObject = dict[str, object]

NO_PLAN = GenerationPlan(
    prompt=(), starts_in_thinking=False, max_tokens=0, sampling=SamplingParams()
)
OURS_ALONE = ("stratum_mcp",)


async def forward(
    front: Front,
    upstream: Upstream,
    request: Request,
    body: JsonObject,
    *,
    protocol: str,
    path: str,
) -> Response:
    """Pass a request on, and its answer back.

    Args:
        front: the server.
        upstream: where to.
        request: the client's.
        body: its JSON object.
        protocol: name for the log.
        path: below the upstream's base URL.

    Raises:
        ApiError: the upstream cannot be reached, or refuses the request.
    """
    fields = Fields(body)
    fields.string("model")
    is_streamed = fields.boolean("stream") is True
    request_id = request.scope["state"]["request_id"]
    passing = Forwarding(front, upstream, request_id, protocol, body, path)
    if not is_streamed:
        return await whole_response(request, passing, passing.whole(), {})
    return streamed_response(front, passing, passing.events(), error_event=error_event, headers={})


class Forwarding(Generation):
    """One request on its way there and back; it has its place in the queue like any other."""

    def __init__(
        self,
        front: Front,
        upstream: Upstream,
        request_id: str,
        protocol: str,
        body: JsonObject,
        path: str,
    ) -> None:
        """Enter the queue.

        Raises:
            ApiError: 503 while stopping, 429 when the queue is full.
        """
        super().__init__(front, request_id, protocol, NO_PLAN)
        name = body.get("model")
        self._name = name if isinstance(name, str) else None
        self._body = {key: value for key, value in body.items() if key not in OURS_ALONE}
        self._path = path
        self._upstream = upstream
        self._stack = AsyncExitStack()
        self._opening = asyncio.ensure_future(self._open())
        self._closing: asyncio.Task[None] | None = None

    async def ready(self, wait_s: float) -> None:
        """Wait for the upstream's first sign, but not long.

        Raises:
            ApiError: it cannot be reached, or refuses the request.
        """
        await asyncio.wait({self._opening}, timeout=wait_s)
        if self._opening.done():
            self._opening.result()

    async def whole(self) -> JsonObject:
        """The whole answer."""
        response = await self._opening
        raw = None
        if response is not None:
            raw = await unless_ended(self.active, self._upstream.body(response))
        if raw is None:
            raise ApiError(503, "engine_failed", "The request was cancelled.")
        value = _object(raw)
        failure = error_in(value)
        if failure is not None:
            raise failure
        self.active.finish = "stop"
        self._note_usage(value)
        return self._in_our_terms(value, "message")

    async def events(self) -> AsyncGenerator[bytes, None]:
        """The events of a streamed answer."""
        response = await self._opening
        last: JsonObject = {}
        is_finished = False
        if response is not None:
            lines = self._upstream.lines(response)
            async with aclosing(data_of(lines, self.active)) as chunks:
                async for chunk in chunks:
                    last = chunk
                    is_finished = is_finished or _has_finish(chunk)
                    self._note_chunk(chunk)
                    yield data_event(self._in_our_terms(chunk, "delta"))
        if not is_finished:
            if not self.active.is_cancelled:
                raise ApiError(503, "engine_failed", "The upstream's answer ended in the middle.")
            yield data_event(_finish_after(last or self._first_chunk()))
        self.active.finish = "cancelled" if self.active.is_cancelled else "stop"
        yield DONE

    def close(self) -> None:
        """Give the place back, and end the answer at the upstream; a second call does nothing."""
        super().close()
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._hang_up())

    async def _hang_up(self) -> None:
        self._opening.cancel()
        await asyncio.gather(self._opening, return_exceptions=True)
        await self._stack.aclose()

    async def _open(self) -> httpx2.Response | None:
        """Wait for a turn, find the upstream's name for the model, and send the request there."""
        await unless_ended(self.active, self._front.queue.wait_turn(self.active.ticket))
        self.active.note_begin()
        model = await unless_ended(self.active, self._upstream.model_for(self._name))
        if model is None:
            return None
        body = {**self._body, "model": model}
        post = self._upstream.post(self._path, body, self.active)
        return await self._stack.enter_async_context(post)

    def _first_chunk(self) -> JsonObject:
        """What an answer begins with that was ended before the upstream began it."""
        kind = "chat.completion.chunk" if self.active.protocol == "chat" else "text_completion"
        head: JsonObject = {"id": new_id("chatcmpl-"), "object": kind, "created": int(time.time())}
        return {**head, "model": self._name or self._front.model.name}

    def _note_chunk(self, chunk: JsonObject) -> None:
        self._note_usage(chunk)
        if chunk.get("choices"):
            self.active.note_tokens(1)
            self.active.phase = Phase.ANSWERING

    def _note_usage(self, value: JsonObject) -> None:
        usage = value.get("usage")
        if isinstance(usage, dict):
            prompt, generated = usage.get("prompt_tokens"), usage.get("completion_tokens")
            if isinstance(prompt, int):
                self.active.prompt_tokens = prompt
            if isinstance(generated, int):
                self.active.generated = generated

    def _in_our_terms(self, value: JsonObject, key: str) -> JsonObject:
        """The answer or chunk with the client's model name, and reasoning under our name too."""
        shown = dict(value)
        if self._name is not None and "model" in shown:
            shown["model"] = self._name
        choices = value.get("choices")
        if isinstance(choices, list):
            shown["choices"] = [_with_reasoning(choice, key) for choice in choices]
        return shown


def _with_reasoning(choice: object, key: str) -> object:
    part = choice.get(key) if isinstance(choice, dict) else None
    if not isinstance(choice, dict) or not isinstance(part, dict):
        return choice
    reasoning = part.get("reasoning")
    if not isinstance(reasoning, str) or part.get("reasoning_content") is not None:
        return choice
    return {**choice, key: {**part, "reasoning_content": reasoning}}


def _has_finish(chunk: JsonObject) -> bool:
    choices = chunk.get("choices")
    return isinstance(choices, list) and any(
        isinstance(choice, dict) and choice.get("finish_reason") for choice in choices
    )


def _finish_after(last: JsonObject) -> JsonObject:
    """What ends an answer that its owner cancelled, in the shape of its chunks."""
    head: JsonObject = {
        key: last[key] for key in ("id", "object", "created", "model") if key in last
    }
    choice: JsonObject = {"index": 0, "finish_reason": "stop", "logprobs": None}
    if last.get("object") == "text_completion":
        choice["text"] = ""
    else:
        choice["delta"] = {}
    head["choices"] = [choice]
    return head


def _object(raw: bytes) -> JsonObject:
    try:
        value = parse_json(raw.decode("utf-8", "replace"))
    except BadJsonError as error:
        message = "The upstream's answer could not be read."
        raise ApiError(503, "engine_failed", message) from error
    if not isinstance(value, dict):
        raise ApiError(503, "engine_failed", "The upstream's answer is no JSON object.")
    return value
