"""`POST /v1/completions`: a text goes on, without a template (spec/api.md section 9.1)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from engine.server.bodies import parse_object, read_body
from engine.server.chat_chunks import JsonObject, UsageCount
from engine.server.chat_completions import error_event
from engine.server.completions_request import CompletionRequest, read_completion_request
from engine.server.context import output_room
from engine.server.delivery import streamed_response, whole_response
from engine.server.front import Front, new_id
from engine.server.generation import Generation
from engine.server.prepared import Prepared, admit
from engine.server.sampling_fields import sampling_headers
from engine.server.sse import DONE, data_event
from engine.server.steps import Began, ChoiceEnd, Delta, GenerationPlan, Step
from engine.text.events import ContentDelta


def completions_routes(front: Front) -> list[Route]:
    """The route."""

    async def completions(request: Request) -> Response:
        front.check_open()
        raw = await read_body(request, front.config.max_body_mib)
        asked, prepared = await asyncio.to_thread(_prepare, front, raw)
        generation = admit(front, request.scope["state"]["request_id"], "completions", prepared)
        head = _Head(new_id("cmpl-"), int(time.time()), prepared.model)
        if not asked.stream:
            body = _whole(generation, head)
            return await whole_response(request, generation, body, prepared.headers)
        return streamed_response(
            front,
            generation,
            _events(generation, head, include_usage=asked.include_usage),
            error_event=error_event,
            headers=prepared.headers,
        )

    return [Route("/v1/completions", completions, methods=["POST"])]


@dataclass(slots=True)
class _Head:
    """What all chunks share; the fingerprint is known when the worker begins."""

    completion_id: str
    created: int
    model: str
    fingerprint: str = ""

    def body(self, choices: list[JsonObject]) -> JsonObject:
        return {
            "id": self.completion_id,
            "object": "text_completion",
            "created": self.created,
            "model": self.model,
            "system_fingerprint": self.fingerprint,
            "choices": choices,
        }

    def note(self, step: Step) -> None:
        if isinstance(step, Began):
            self.fingerprint = step.fingerprint or self.fingerprint


@dataclass(slots=True)
class _Choice:
    """One answer so far."""

    index: int
    with_logprobs: bool
    texts: list[str] = field(default_factory=list)
    entries: list[JsonObject] = field(default_factory=list)
    finish: str | None = None
    num_chars: int = 0  # of text in earlier chunks and entries, for `text_offset`

    def add(self, step: Step) -> None:
        if isinstance(step, Delta):
            if isinstance(step.event, ContentDelta):
                self.texts.append(step.event.text)
            self.entries += step.logprobs
        elif isinstance(step, ChoiceEnd):
            self.finish = step.finish

    def take(self) -> JsonObject:
        """The entry of `choices` for what was added since the last call."""
        text, entries = "".join(self.texts), list(self.entries)
        self.texts.clear()
        self.entries.clear()
        logprobs = self._logprobs(entries) if self.with_logprobs else None
        return {
            "index": self.index,
            "text": text,
            "finish_reason": self.finish,
            "logprobs": logprobs,
        }

    def _logprobs(self, entries: list[JsonObject]) -> JsonObject:
        """OpenAI's old shape, from the entries that chat uses."""
        offsets: list[int] = []
        for entry in entries:
            offsets.append(self.num_chars)
            self.num_chars += len(str(entry["token"]))
        return {
            "tokens": [entry["token"] for entry in entries],
            "token_logprobs": [entry["logprob"] for entry in entries],
            "top_logprobs": [_top(entry) for entry in entries],
            "text_offset": offsets,
        }


def _top(entry: JsonObject) -> dict[str, object]:
    alternatives = entry["top_logprobs"]
    if not isinstance(alternatives, list):
        return {}
    return {str(item["token"]): item["logprob"] for item in alternatives}


def _prepare(front: Front, raw: bytes) -> tuple[CompletionRequest, Prepared]:
    """Check everything that can be checked before a header is sent.

    Raises:
        ApiError: 400 or 404.
    """
    asked = read_completion_request(parse_object(raw), front.config, front.model.tokenizer)
    model = front.check_model(asked.model)
    room = output_room(
        len(asked.prompt), asked.cap, front.context, fit=asked.fit_max_tokens, param="prompt"
    )
    plan = GenerationPlan(
        prompt=asked.prompt,
        starts_in_thinking=False,
        max_tokens=room.max_tokens,
        sampling=asked.sampling,
        stops=asked.stops,
        choices=asked.choices,
        is_raw=True,
    )
    headers = sampling_headers(asked.sampling)
    if room.header is not None:
        headers["x-fit-max-tokens"] = room.header
    return asked, Prepared(model, plan, room.header, headers)


async def _whole(generation: Generation, head: _Head) -> JsonObject:
    choices, count = _choices(generation.plan), UsageCount(len(generation.plan.prompt))
    async with aclosing(generation.steps()) as steps:
        async for step in steps:
            head.note(step)
            choices[step.choice].add(step)
            if isinstance(step, ChoiceEnd):
                count.add(step)
    return {
        **head.body([choice.take() for choice in choices]),
        "usage": count.usage(),
        "timings": count.timings_object(),
    }


async def _events(
    generation: Generation, head: _Head, *, include_usage: bool
) -> AsyncGenerator[bytes, None]:
    choices, count = _choices(generation.plan), UsageCount(len(generation.plan.prompt))
    no_usage: JsonObject = {"usage": None} if include_usage else {}
    async with aclosing(generation.steps()) as steps:
        async for step in steps:
            head.note(step)
            if not isinstance(step, (Delta, ChoiceEnd)):
                continue
            choices[step.choice].add(step)
            yield data_event({**head.body([choices[step.choice].take()]), **no_usage})
            if isinstance(step, ChoiceEnd):
                count.add(step)
    if include_usage:
        usage = {"usage": count.usage(), "timings": count.timings_object()}
        yield data_event({**head.body([]), **usage})
    yield DONE


def _choices(plan: GenerationPlan) -> list[_Choice]:
    with_logprobs = plan.sampling.top_logprobs >= 0
    return [_Choice(index, with_logprobs) for index in range(plan.choices)]
