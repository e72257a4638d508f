"""Chat and text completions passed on as they are: the upstream speaks their protocol itself.

The client's body goes there unchanged but for the model's name, so everything that the upstream can
do (images, its own extensions) works. Coming back, reasoning gets our name beside the upstream's, and
the client's name for the model is put back. Our own rules hold before and around it: security, sizes,
keep-alives, the end of the request when its client goes away.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from starlette.requests import Request
from starlette.responses import Response

from engine.core.strict_json import BadJsonError, parse_json
from engine.server.active import Phase
from engine.server.chat_completions import error_event
from engine.server.delivery import streamed_response, whole_response
from engine.server.errors import ApiError, invalid_type
from engine.server.fields import Fields
from engine.server.front import Front
from engine.server.generation import Generation, GenerationPlan, unless_ended
from engine.server.sse import DONE, data_event
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
    front.check_open()
    fields = Fields(body)
    name = fields.string("model")
    is_streamed = fields.boolean("stream") is True
    if not isinstance(body.get("messages", []), list | str):
        raise invalid_type("messages", "an array", body["messages"])
    generation = Generation(front, request.scope["state"]["request_id"], protocol, NO_PLAN)
    passing = _Passing(front, upstream, generation, body, name, path)
    if not is_streamed:
        return await whole_response(request, generation, passing.whole(), {})
    return streamed_response(
        front, generation, passing.events(), error_event=error_event, headers={}
    )


class _Passing:
    """One request on its way there and back."""

    def __init__(
        self,
        front: Front,
        upstream: Upstream,
        generation: Generation,
        body: JsonObject,
        name: str | None,
        path: str,
    ) -> None:
        self._front = front
        self._upstream = upstream
        self._generation = generation
        self._active = generation.active
        self._name = name
        self._path = path
        self._body = {key: value for key, value in body.items() if key not in OURS_ALONE}

    async def whole(self) -> JsonObject:
        """The whole answer."""
        await self._prepare()
        async with self._upstream.post(self._path, self._body, self._active) as response:
            raw = None
            if response is not None:
                raw = await unless_ended(self._active, self._upstream.body(response))
        if raw is None:
            self._active.finish = "cancelled"
            raise ApiError(503, "engine_failed", "The request was cancelled.")
        value = _object(raw)
        failure = error_in(value)
        if failure is not None:
            raise failure
        self._active.finish = "stop"
        self._note_usage(value)
        return self._in_our_terms(value, "message")

    async def events(self) -> AsyncGenerator[bytes, None]:
        """The events of a streamed answer."""
        await self._prepare()
        last: JsonObject = {}
        is_finished = False
        async with self._upstream.post(self._path, self._body, self._active) as response:
            if response is not None:
                lines = self._upstream.lines(response)
                async with aclosing(data_of(lines, self._active)) as chunks:
                    async for chunk in chunks:
                        last = chunk
                        is_finished = is_finished or _has_finish(chunk)
                        self._note_chunk(chunk)
                        yield data_event(self._in_our_terms(chunk, "delta"))
        if not is_finished:
            if not self._active.is_cancelled:
                raise ApiError(503, "engine_failed", "The upstream's answer ended in the middle.")
            if last:
                yield data_event(_finish_after(last))
        self._active.finish = "cancelled" if self._active.is_cancelled else "stop"
        yield DONE

    async def _prepare(self) -> None:
        """Wait for a turn, and find the upstream's name for the model."""
        await unless_ended(self._active, self._front.queue.wait_turn(self._active.ticket))
        model = await unless_ended(self._active, self._upstream.model_for(self._name))
        self._body["model"] = model
        self._active.note_begin()

    def _note_chunk(self, chunk: JsonObject) -> None:
        self._note_usage(chunk)
        if chunk.get("choices"):
            self._active.note_tokens(1)
            self._active.phase = Phase.ANSWERING

    def _note_usage(self, value: JsonObject) -> None:
        usage = value.get("usage")
        if isinstance(usage, dict):
            prompt, generated = usage.get("prompt_tokens"), usage.get("completion_tokens")
            if isinstance(prompt, int):
                self._active.prompt_tokens = prompt
            if isinstance(generated, int):
                self._active.generated = generated

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
