"""`POST /v1/messages`, streamed and whole, and `/v1/messages/count_tokens` (spec/api.md 9.3)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from engine.server.answers import json_response
from engine.server.anthropic_events import (
    BlockEvents,
    JsonObject,
    MessageHead,
    WholeContent,
    message_delta,
    message_start,
    stop_of,
)
from engine.server.anthropic_request import (
    MessagesRequest,
    read_conversation,
    read_messages_request,
)
from engine.server.bodies import parse_object, read_body
from engine.server.delivery import streamed_response, whole_response
from engine.server.errors import ApiError, internal_error
from engine.server.fields import Fields
from engine.server.front import Front, new_id
from engine.server.generation import Generation
from engine.server.prepared import Prepared, admit, ignored_tools_header, prepare, render
from engine.server.shared_fields import read_model
from engine.server.sse import named_event
from engine.server.steps import ChoiceEnd, Delta, PromptRead

PING: JsonObject = {"type": "ping"}


def messages_routes(front: Front) -> list[Route]:
    """The routes."""

    async def messages(request: Request) -> Response:
        front.check_open()
        raw = await read_body(request, front.config.max_body_mib)
        # In a thread whatever the size: a long body must not hold up the streams of others.
        wanted, prepared = await asyncio.to_thread(_prepare, front, raw)
        generation = admit(front, request.scope["state"]["request_id"], "messages", prepared)
        head = MessageHead(new_id("msg_"), prepared.model, len(prepared.plan.prompt))
        if wanted.stream:
            return streamed_response(
                front,
                generation,
                _stream(generation, head),
                error_event=_error_event,
                headers=prepared.headers,
                keep_alive=ping,
            )
        return await whole_response(request, generation, _whole(generation, head), prepared.headers)

    async def count_tokens(request: Request) -> Response:
        raw = await read_body(request, front.config.max_body_mib)
        count, headers = await asyncio.to_thread(_count, front, raw)
        return json_response({"input_tokens": count}, headers=headers)

    return [
        Route("/v1/messages", messages, methods=["POST"]),
        Route("/v1/messages/count_tokens", count_tokens, methods=["POST"]),
    ]


def ping() -> bytes:
    """The keep-alive: an event, because watchdogs of clients are not reset by comments."""
    return _event(PING)


def _prepare(front: Front, raw: bytes) -> tuple[MessagesRequest, Prepared]:
    wanted = read_messages_request(parse_object(raw), front.config, front.model.vocab_size)
    return wanted, prepare(front, wanted.generation)


def _count(front: Front, raw: bytes) -> tuple[int, dict[str, str]]:
    """The tokens of the prompt, also of one that is longer than the context."""
    body = Fields(parse_object(raw))
    front.check_model(read_model(body))
    conversation, _ = read_conversation(body, front.config)
    prompt = render(front, conversation, is_bounded=False)
    return len(prompt.token_ids), ignored_tools_header(conversation)


async def _whole(generation: Generation, head: MessageHead) -> JsonObject:
    """The whole answer."""
    content = WholeContent()
    async with aclosing(generation.steps()) as steps:
        async for step in steps:
            match step:
                case Delta():
                    content.add(step.event)
                case ChoiceEnd():
                    return head.message(content.blocks(), head.usage_of(step), *stop_of(step))
    raise internal_error()  # the steps of a generation end with a `ChoiceEnd`, or with an error


async def _stream(generation: Generation, head: MessageHead) -> AsyncGenerator[bytes, None]:
    """The events of a streamed answer."""
    blocks = BlockEvents()
    has_started = False
    async with aclosing(generation.steps()) as steps:
        async for step in steps:
            if not has_started and isinstance(step, PromptRead | Delta | ChoiceEnd):
                has_started = True
                # The worker says what its cache had before it reads the rest of the prompt.
                yield _event(message_start(head, generation.active.cached_tokens))
                yield ping()
            match step:
                case Delta():
                    for event in blocks.add(step.event):
                        yield _event(event)
                case ChoiceEnd():
                    for event in blocks.finish():
                        yield _event(event)
                    yield _event(message_delta(head, step))
    yield _event({"type": "message_stop"})


def _event(value: JsonObject) -> bytes:
    """One event, named after its type: clients skip events without a name."""
    return named_event(str(value["type"]), value)


def _error_event(error: ApiError) -> bytes:
    return _event(
        {"type": "error", "error": {"type": "api_error", "message": error.anthropic_message()}}
    )
