"""`POST /v1/chat/completions`, streamed and whole (spec/api.md section 5)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from engine.server.bodies import parse_object, read_body
from engine.server.chat_chunks import (
    ChatHead,
    ContentEvents,
    JsonObject,
    UsageCount,
    WholeChoice,
    chunk_choice,
    delta_of,
    progress_chunk_part,
    timings_object,
)
from engine.server.chat_request import ChatRequest, read_chat_request
from engine.server.delivery import streamed_response, whole_response
from engine.server.errors import ApiError
from engine.server.front import Front, new_id
from engine.server.generation import Generation
from engine.server.mcp.opt_in import admit_with_tools
from engine.server.prepared import admit, prepare
from engine.server.sse import DONE, data_event
from engine.server.steps import Began, ChoiceEnd, Delta, PromptRead, ToolEvent
from engine.text.events import ContentDelta


@dataclass(frozen=True, slots=True)
class _Job:
    """An admitted request with everything that its answer needs."""

    request: ChatRequest
    generation: Generation
    head: ChatHead


def chat_routes(front: Front) -> list[Route]:
    """The route."""

    async def chat_completions(request: Request) -> Response:
        front.check_open()
        raw = await read_body(request, front.config.max_body_mib)
        # In a thread whatever the size: a long body must not hold up the streams of others.
        chat = await asyncio.to_thread(_read, front, raw)
        if chat.generation.mcp_servers is not None:
            generation, prepared = await admit_with_tools(
                front, request, chat.generation, can_ask=chat.stream
            )
        else:
            prepared = await asyncio.to_thread(prepare, front, chat.generation)
            generation = admit(front, request.scope["state"]["request_id"], "chat", prepared)
        head = ChatHead(new_id("chatcmpl-"), int(time.time()), prepared.model, chat.include_usage)
        job = _Job(chat, generation, head)
        if not chat.stream:
            return await whole_response(request, generation, _whole(job), prepared.headers)
        return streamed_response(
            front, generation, _events(job), error_event=error_event, headers=prepared.headers
        )

    return [Route("/v1/chat/completions", chat_completions, methods=["POST"])]


def error_event(error: ApiError) -> bytes:
    """What ends a stream that failed: SDKs raise on the key `error` and stop reading at DONE."""
    return data_event(error.openai_body()) + DONE


def _read(front: Front, raw: bytes) -> ChatRequest:
    """Check the body.

    Raises:
        ApiError: 400.
    """
    return read_chat_request(parse_object(raw), front.config, front.model.vocab_size)


async def _whole(job: _Job) -> JsonObject:
    """The whole answer."""
    plan = job.generation.plan
    with_logprobs = plan.sampling.top_logprobs >= 0
    choices = [WholeChoice(with_logprobs=with_logprobs) for _ in range(plan.choices)]
    count = UsageCount(len(plan.prompt))
    fingerprint = ""
    tool_events: list[JsonObject] = []
    async with aclosing(job.generation.steps()) as steps:
        async for step in steps:
            choices[step.choice].add(step)
            if isinstance(step, Began):
                fingerprint = step.fingerprint or fingerprint
            elif isinstance(step, ToolEvent):
                tool_events.append(step.data)
            elif isinstance(step, ChoiceEnd):
                count.add(step)
    return {
        "id": job.head.completion_id,
        "object": "chat.completion",
        "created": job.head.created,
        "model": job.head.model,
        "system_fingerprint": fingerprint,
        "choices": [choice.choice(index) for index, choice in enumerate(choices)],
        "usage": count.usage(),
        "timings": count.timings_object(),
        **({"mcp_events": tool_events} if tool_events else {}),
    }


async def _events(job: _Job) -> AsyncGenerator[bytes, None]:
    """The events of a streamed answer."""
    chat, head, plan = job.request, job.head, job.generation.plan
    count = UsageCount(len(plan.prompt))
    fingerprint = ""
    content = ContentEvents(head, fingerprint, 0)
    async with aclosing(job.generation.steps()) as steps:
        async for step in steps:
            match step:
                case Began():
                    fingerprint = step.fingerprint or fingerprint
                    delta: JsonObject = {"role": "assistant", "content": ""}
                    yield data_event(head.chunk(fingerprint, [chunk_choice(step.choice, delta)]))
                    content = ContentEvents(head, fingerprint, step.choice)
                case PromptRead():
                    if chat.return_progress:
                        chunk = head.chunk(fingerprint, [chunk_choice(step.choice, {})])
                        yield data_event({**chunk, **progress_chunk_part(step)})
                case Delta(event=ContentDelta(text), logprobs=()) if not chat.timings_per_token:
                    if content.index != step.choice:
                        content = ContentEvents(head, fingerprint, step.choice)
                    yield content.event(text)
                case Delta():
                    event = _delta_event(job, step, fingerprint)
                    if event is not None:
                        yield event
                case ToolEvent():
                    chunk = head.chunk(fingerprint, [chunk_choice(step.choice, {})])
                    yield data_event({**chunk, "mcp_event": step.data})
                case ChoiceEnd():
                    count.add(step)
                    end = chunk_choice(step.choice, {}, step.finish)
                    yield data_event(head.chunk(fingerprint, [end]))
    if chat.include_usage:
        usage = {"usage": count.usage(), "timings": count.timings_object()}
        yield data_event({**head.chunk(fingerprint, []), **usage})
    yield DONE


def _delta_event(job: _Job, step: Delta, fingerprint: str) -> bytes | None:
    """The event of any new part of the answer; None where chat chunks show nothing."""
    shown = delta_of(step)
    if shown is None:
        return None
    choice = chunk_choice(step.choice, shown, None, step.logprobs)
    chunk = job.head.chunk(fingerprint, [choice])
    if job.request.timings_per_token:
        chunk["timings"] = timings_object(job.generation.active.timings_so_far())
    return data_event(chunk)
