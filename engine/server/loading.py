"""Loading and unloading on request, and unloading when nobody needs the model (spec/api.md 1).

`/load` and `/unload` are control routes: no page of another origin may use them (security.py).
"""

from __future__ import annotations

import asyncio
import logging

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from engine.core.errors import EngineError
from engine.server.answers import json_response, unless_gone
from engine.server.bodies import parse_object, read_body
from engine.server.errors import ApiError, load_error
from engine.server.fields import Fields
from engine.server.front import Front, unknown_model
from engine.worker.supervisor import WorkerState

logger = logging.getLogger(__name__)

# How often idleness is looked at.
LOOK_S = 5.0


def loading_routes(front: Front) -> list[Route]:
    """The routes, each under two names."""

    async def load(request: Request) -> Response:
        front.check_open()
        await _check_body(front, request)
        try:
            await unless_gone(request, front.worker.load())
        except EngineError as error:
            if front.worker.state is WorkerState.UNLOADED:
                message = "The model was unloaded while it was loading. Load it again."
                raise ApiError(409, "busy", message) from error
            raise load_error(error) from error
        return json_response({"status": "loaded"})

    async def unload(request: Request) -> Response:
        await _check_body(front, request)
        if len(front.active):
            raise ApiError(
                409, "busy", "A request is running or waiting. Wait for its end, or cancel it."
            )
        await unload_model(front)
        return json_response({"status": "unloaded"})

    return [
        Route(prefix + path, endpoint, methods=["POST"])
        for prefix in ("", "/v1")
        for path, endpoint in (("/load", load), ("/unload", unload))
    ]


async def unload_model(front: Front) -> None:
    """Give all memory of the model back; nothing happens when that has been done."""
    if front.worker.state is not WorkerState.UNLOADED:
        front.metrics.unloads.add()
        await front.worker.unload()


async def unload_when_idle(front: Front, idle_s: float) -> None:
    """Unload whenever there was no generation for so long; runs until it is cancelled."""
    while True:
        await asyncio.sleep(min(LOOK_S, idle_s / 4))
        if front.worker.state is WorkerState.READY and front.idle_s >= idle_s:
            logger.info("nothing was asked for %.0f s: the model is unloaded", front.idle_s)
            await unload_model(front)


async def _check_body(front: Front, request: Request) -> None:
    raw = await read_body(request, front.config.max_body_mib)
    name = Fields(parse_object(raw) if raw else {}).string("model")
    if name is not None and not front.model.knows(name):
        raise unknown_model(name)
