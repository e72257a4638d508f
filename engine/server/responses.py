"""`POST /v1/responses`, streamed and whole, and the routes around it (spec/api.md section 9.2).

The server keeps no responses, so everything below `/v1/responses/{id}` is not found.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from engine.server.answers import json_response
from engine.server.bodies import parse_object, read_body
from engine.server.delivery import streamed_response, whole_response
from engine.server.errors import ApiError, not_found
from engine.server.front import Front
from engine.server.generation import Generation
from engine.server.prepared import Prepared, admit, ignored_tools_header, prepare, render
from engine.server.responses_events import JsonObject, ResponseHead, ResponseWriter
from engine.server.responses_request import ResponsesRequest, read_responses_request
from engine.server.sse import named_event

# Silence in the stream, in units of the configured one (whose default is 5 s).
SILENCE_FACTOR = 2


def responses_routes(front: Front) -> list[Route]:
    """The routes."""

    async def responses(request: Request) -> Response:
        front.check_open()
        raw = await read_body(request, front.config.max_body_mib)
        # In a thread whatever the size: a long body must not hold up the streams of others.
        asked, prepared = await asyncio.to_thread(_prepare, front, raw)
        generation = admit(front, request.scope["state"]["request_id"], "responses", prepared)
        writer = ResponseWriter(_head(asked, prepared))
        if not asked.stream:
            body = _whole(generation, writer)
            return await whole_response(request, generation, body, prepared.headers)
        return streamed_response(
            front,
            generation,
            _stream(generation, writer),
            error_event=lambda error: _events(writer.fail(error.message)),
            headers=prepared.headers,
            keep_alive=lambda: _events([writer.keep_alive()]),
            keepalive_s=SILENCE_FACTOR * front.config.sse_keepalive_s,
        )

    async def input_tokens(request: Request) -> Response:
        raw = await read_body(request, front.config.max_body_mib)
        count, headers = await asyncio.to_thread(_count, front, raw)
        body = {"object": "response.input_tokens", "input_tokens": count}
        return json_response(body, headers=headers)

    async def stored(request: Request) -> Response:  # noqa: ARG001 - the route's signature
        raise not_found(
            "There is no such response: this server is stateless and keeps none. Send the whole "
            "conversation with each request."
        )

    path = "/v1/responses"
    return [
        Route(path, responses, methods=["POST"]),
        Route(f"{path}/input_tokens", input_tokens, methods=["POST"]),
        Route(f"{path}/{{response_id}}", stored, methods=["GET", "DELETE"]),
        Route(f"{path}/{{response_id}}/cancel", stored, methods=["POST"]),
        Route(f"{path}/{{response_id}}/input_items", stored, methods=["GET"]),
    ]


def _read(front: Front, raw: bytes) -> ResponsesRequest:
    vocab_size = front.model.vocab_size
    return read_responses_request(parse_object(raw), front.config, vocab_size)


def _prepare(front: Front, raw: bytes) -> tuple[ResponsesRequest, Prepared]:
    asked = _read(front, raw)
    try:
        return asked, prepare(front, asked.generation)
    except ApiError as error:
        raise _in_our_terms(error) from error


def _count(front: Front, raw: bytes) -> tuple[int, dict[str, str]]:
    """The tokens of the input, also of one that is longer than the context."""
    generation = _read(front, raw).generation
    front.check_model(generation.model)
    try:
        prompt = render(front, generation.conversation, is_bounded=False)
    except ApiError as error:
        raise _in_our_terms(error) from error
    return len(prompt.token_ids), ignored_tools_header(generation.conversation)


def _in_our_terms(error: ApiError) -> ApiError:
    """What chat completions call messages is the input here."""
    if error.param == "messages":
        error.param = "input"
    return error


def _head(asked: ResponsesRequest, prepared: Prepared) -> ResponseHead:
    settings = dict(asked.settings)
    if prepared.fitted is not None:  # the cap in effect, not the one that did not fit
        settings["max_output_tokens"] = prepared.plan.max_tokens
    return ResponseHead(
        model=prepared.model,
        prompt_tokens=len(prepared.plan.prompt),
        settings=settings,
        tools=asked.tools,
        seals_reasoning=asked.seals_reasoning,
    )


async def _whole(generation: Generation, writer: ResponseWriter) -> JsonObject:
    async with aclosing(generation.steps()) as steps:
        async for step in steps:
            writer.add(step)
    return writer.response()


async def _stream(generation: Generation, writer: ResponseWriter) -> AsyncGenerator[bytes, None]:
    yield _events(writer.start())
    async with aclosing(generation.steps()) as steps:
        async for step in steps:
            events = writer.add(step)
            if events:
                yield _events(events)


def _events(events: list[JsonObject]) -> bytes:
    return b"".join(named_event(str(event["type"]), event) for event in events)
