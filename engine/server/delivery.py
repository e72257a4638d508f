"""Handing out an answer, whole or as a stream, for all protocols.

Whatever happens (the client goes away, the worker dies, we make a mistake) the generation is closed
exactly once, and its log line says how it ended.
"""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from contextlib import aclosing

from starlette.requests import Request
from starlette.responses import Response

from engine.server.answers import json_response, unless_gone
from engine.server.bodies import ClientGone
from engine.server.errors import ApiError, internal_error
from engine.server.front import Front
from engine.server.generation import Generation
from engine.server.sse import SseResponse, comment_keep_alive
from engine.server.upstream.held import HeldResponse

logger = logging.getLogger(__name__)

DISCONNECTED = "disconnected"


async def whole_response(
    request: Request,
    generation: Generation,
    body: Coroutine[object, object, dict[str, object]],
    headers: Mapping[str, str],
) -> Response:
    """The answer as one JSON body; a client that goes away stops the generation.

    Raises:
        ApiError: the answer failed.
        ClientGone: the client closed the connection.
    """
    started_s = time.monotonic()
    try:
        value = await unless_gone(request, body)
    except ClientGone:
        generation.active.finish = DISCONNECTED
        raise
    except ApiError:
        generation.active.finish = "error"
        raise
    finally:
        generation.close()
    took_ms = round((time.monotonic() - started_s) * 1000)
    return json_response(value, headers={**headers, "openai-processing-ms": str(took_ms)})


def streamed_response(
    front: Front,
    generation: Generation,
    events: AsyncGenerator[bytes, None],
    *,
    error_event: Callable[[ApiError], bytes],
    headers: Mapping[str, str],
    keep_alive: Callable[[], bytes] = comment_keep_alive,
    keepalive_s: float | None = None,
) -> Response:
    """The answer as server-sent events.

    Args:
        front: gives the configured silence.
        generation: closed when the stream has ended, however it did.
        events: the whole stream, its closing event included.
        error_event: what takes the place of the rest when the answer fails.
        headers: response headers.
        keep_alive: what is sent after a silence.
        keepalive_s: the silence, if the protocol's clients need another than the configured one.
    """
    response = SseResponse(
        _with_errors(front, generation, events, error_event),
        keepalive_s=front.config.sse_keepalive_s if keepalive_s is None else keepalive_s,
        headers=headers,
        on_close=generation.close,
        keep_alive=keep_alive,
    )
    if front.upstream is None:
        return response
    return HeldResponse(response, generation, front.config.sse_keepalive_s)


async def _with_errors(
    front: Front,
    generation: Generation,
    events: AsyncGenerator[bytes, None],
    error_event: Callable[[ApiError], bytes],
) -> AsyncGenerator[bytes, None]:
    generation.active.finish = DISCONNECTED  # until the answer is complete
    try:
        async with aclosing(events) as source:
            async for event in source:
                yield event
    except ApiError as error:
        generation.active.finish = "error"
        front.metrics.note_error(error.code)
        yield error_event(error)
    except Exception:
        logger.exception("%s failed", generation.active.request_id)
        generation.active.finish = "error"
        front.metrics.note_error(internal_error().code)
        yield error_event(internal_error())
