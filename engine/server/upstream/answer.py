"""The upstream's stream as the steps of a generation: what all protocols' writers read.

    async for step in upstream_answer(upstream, active, request, choice):
        ...

Reasoning under either of its names, content and tool calls become events; the last chunk's usage
becomes the counts. Ending the iterator ends the connection, and the upstream stops computing.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import TYPE_CHECKING

from engine.core.strict_json import BadJsonError, parse_json
from engine.server.active import ActiveRequest, Phase, unless_ended
from engine.server.errors import ApiError
from engine.server.front import new_id
from engine.server.generation_request import GenerationRequest
from engine.server.steps import Began, ChoiceEnd, Delta, Step
from engine.server.upstream.failures import error_in
from engine.server.upstream.request_body import chat_body
from engine.text.events import (
    CallDelta,
    CallEnd,
    CallStart,
    ContentDelta,
    Event,
    ReasoningDelta,
)
from engine.worker.messages import Timings

if TYPE_CHECKING:
    from engine.server.upstream.client import Upstream

JsonObject = dict[str, object]

DATA = "data:"
DONE = "[DONE]"
CHAT_PATH = "/chat/completions"
REASONING_NAMES = ("reasoning_content", "reasoning")


async def upstream_answer(
    upstream: Upstream, active: ActiveRequest, request: GenerationRequest, choice: int
) -> AsyncGenerator[Step, None]:
    """The steps of one answer.

    Raises:
        ApiError: the upstream cannot be reached, refuses the request, or breaks off.
    """
    active.note_begin()
    reading = _Reading(choice)
    has_begun = False
    model = await unless_ended(active, upstream.model_for(request.model))
    if model is not None:
        by_flags = upstream.continues_by_flags
        body = chat_body(request, model, choice, continues_by_flags=by_flags)
        async with aclosing(upstream_chunks(upstream, CHAT_PATH, body, active)) as chunks:
            async for chunk in chunks:
                if not has_begun:  # only now is it known that the upstream takes the request
                    has_begun = True
                    yield Began(choice, "")
                for event in reading.add(chunk):
                    active.note_tokens(1)
                    active.phase = phase_of(event)
                    yield Delta(choice, event, reading.take_logprobs())
        if not active.is_cancelled and reading.finish is None:
            raise ApiError(503, "engine_failed", "The upstream's answer ended in the middle.")
    if not has_begun:
        yield Began(choice, "")
    for event in reading.close_calls(is_cut=active.is_cancelled):
        yield Delta(choice, event)
    end = reading.end(is_cancelled=active.is_cancelled)
    active.timings = end.timings
    active.prompt_tokens = end.prompt_tokens or 0
    active.cached_tokens = end.timings.cached_tokens
    active.generated = end.generated or active.generated
    active.finish = "cancelled" if end.is_cancelled else end.finish
    yield end


async def upstream_chunks(
    upstream: Upstream, path: str, body: JsonObject, active: ActiveRequest
) -> AsyncGenerator[JsonObject, None]:
    """The chunks of a streamed answer, until its end or the request's.

    Raises:
        ApiError: the upstream cannot be reached, refuses the request, or breaks off.
    """
    async with upstream.post(path, body, active) as response:
        if response is None:
            return
        async with aclosing(data_of(upstream.lines(response), active)) as chunks:
            async for chunk in chunks:
                yield chunk


async def data_of(
    lines: AsyncGenerator[str, None], active: ActiveRequest
) -> AsyncGenerator[JsonObject, None]:
    """The JSON objects of an event stream, until its end or the request's.

    Raises:
        ApiError: an object says that the answer failed.
    """
    async with aclosing(_until_ended(lines, active)) as source:
        async for line in source:
            if line.removeprefix(DATA).strip() == DONE:
                return
            if not line.startswith(DATA):
                continue
            try:
                value = parse_json(line.removeprefix(DATA))
            except BadJsonError as error:
                message = "The upstream's answer could not be read."
                raise ApiError(503, "engine_failed", message) from error
            if isinstance(value, dict):
                failure = error_in(value)
                if failure is not None:
                    raise failure
                yield value


async def _until_ended(
    lines: AsyncGenerator[str, None], active: ActiveRequest
) -> AsyncGenerator[str, None]:
    """The lines, until the request is cancelled; each is read by a task that can be given up."""
    ended = asyncio.ensure_future(active.end_now.wait())
    try:
        async with aclosing(lines) as source:
            while True:
                reading = asyncio.create_task(_next(source))
                try:
                    await asyncio.wait({reading, ended}, return_when=asyncio.FIRST_COMPLETED)
                finally:  # it must have ended before the lines are closed
                    if not reading.done():
                        reading.cancel()
                        await asyncio.gather(reading, return_exceptions=True)
                if active.abort_error is not None:
                    raise active.abort_error
                line = None if active.is_cancelled else reading.result()
                if line is None:
                    return
                yield line
    finally:
        ended.cancel()


async def _next(lines: AsyncGenerator[str, None]) -> str | None:
    """The next line; None at the end."""
    return await anext(lines, None)


def phase_of(event: Event) -> Phase:
    """What a request is doing when this comes."""
    match event:
        case ReasoningDelta():
            return Phase.THINKING
        case ContentDelta():
            return Phase.ANSWERING
        case _:
            return Phase.TOOL_CALL


class _Reading:
    """Collects what the chunks say about one answer."""

    def __init__(self, choice: int) -> None:
        self.finish: str | None = None
        self._choice = choice
        self._stopped: str | None = None
        self._usage: JsonObject = {}
        self._open_call: int | None = None
        self._calls = 0
        self._logprobs: list[dict[str, object]] = []
        self._began_s = time.monotonic()
        self._first_s: float | None = None

    def add(self, chunk: JsonObject) -> Iterator[Event]:
        """The events of a chunk."""
        usage = chunk.get("usage")
        if isinstance(usage, dict):
            self._usage = usage
        choices = chunk.get("choices")
        if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
            return
        entry = choices[0]
        logprobs = entry.get("logprobs")
        if isinstance(logprobs, dict) and isinstance(logprobs.get("content"), list):
            self._logprobs += [item for item in logprobs["content"] if isinstance(item, dict)]
        delta = entry.get("delta")
        if isinstance(delta, dict):
            yield from self._events(delta)
        if isinstance(entry.get("finish_reason"), str):
            self.finish = str(entry["finish_reason"])
            stopped = entry.get("stop_reason")  # vLLM says which stop string it was
            self._stopped = stopped if isinstance(stopped, str) else None

    def take_logprobs(self) -> tuple[dict[str, object], ...]:
        """The entries that came since the last time."""
        taken, self._logprobs = tuple(self._logprobs), []
        return taken

    def close_calls(self, *, is_cut: bool) -> Iterator[Event]:
        """The end of a call that was not cut."""
        if self._open_call is not None and not is_cut and self.finish != "length":
            yield CallEnd(self._open_call)
            self._calls += 1
        self._open_call = None

    def end(self, *, is_cancelled: bool) -> ChoiceEnd:
        """The end with its counts."""
        finish = self.finish if self.finish in ("length", "tool_calls") else "stop"
        if self._calls and finish == "stop":
            finish = "tool_calls"
        elif finish == "tool_calls" and not self._calls:
            finish = "stop"
        prompt = _count(self._usage, "prompt_tokens")
        generated = _count(self._usage, "completion_tokens")
        cached = _count(_table(self._usage, "prompt_tokens_details"), "cached_tokens")
        reasoning = _count(_table(self._usage, "completion_tokens_details"), "reasoning_tokens")
        now = time.monotonic()
        first = now if self._first_s is None else self._first_s
        return ChoiceEnd(
            self._choice,
            "stop" if is_cancelled else finish,
            generated,
            reasoning,
            Timings(
                prompt_tokens=prompt,
                cached_tokens=min(cached, prompt),
                prompt_ms=(first - self._began_s) * 1000,
                generated_tokens=generated,
                generated_ms=(now - first) * 1000,
            ),
            stopped=self._stopped,
            is_cancelled=is_cancelled,
            prompt_tokens=prompt,
        )

    def _events(self, delta: JsonObject) -> Iterator[Event]:
        reasoning = next((text for name in REASONING_NAMES if (text := delta.get(name))), None)
        content, calls = delta.get("content"), delta.get("tool_calls")
        if self._first_s is None and (reasoning or content or calls):
            self._first_s = time.monotonic()
        if isinstance(reasoning, str):
            yield ReasoningDelta(reasoning)
        if isinstance(content, str) and content:
            yield ContentDelta(content)
        if isinstance(calls, list):
            for call in calls:
                if isinstance(call, dict):
                    yield from self._call(call)

    def _call(self, call: JsonObject) -> Iterator[Event]:
        index = call.get("index")
        if not isinstance(index, int):
            index = 0 if self._open_call is None else self._open_call
        function = _table(call, "function")
        if index != self._open_call:
            yield from self.close_calls(is_cut=False)
            name, call_id = function.get("name"), call.get("id")
            if not isinstance(name, str) or not name:
                return  # arguments of a call that was never named
            self._open_call = index
            has_id = isinstance(call_id, str) and bool(call_id)
            yield CallStart(index, str(call_id) if has_id else new_id("call_"), name)
        arguments = function.get("arguments")
        if isinstance(arguments, str) and arguments:
            yield CallDelta(index, arguments)


def _table(value: JsonObject, key: str) -> JsonObject:
    inner = value.get(key)
    return inner if isinstance(inner, dict) else {}


def _count(value: JsonObject, key: str) -> int:
    count = value.get(key)
    return count if isinstance(count, int) and not isinstance(count, bool) and count > 0 else 0
