"""`GET /status`: what the server does now, without a word of any request's text."""

from __future__ import annotations

import dataclasses
import time

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from engine.server.active import Phase
from engine.server.answers import json_response
from engine.server.front import Front
from engine.server.queue import Place
from engine.worker.supervisor import WorkerState

JsonObject = dict[str, object]

# What the state is called while a request runs, the most advanced request first.
BUSY_PHASES = (Phase.TOOL_CALL, Phase.ANSWERING, Phase.THINKING, Phase.READING)


def status_routes(front: Front) -> list[Route]:
    """The route, under both of its names."""

    async def status(_request: Request) -> Response:
        await front.warm.refresh()
        return json_response(describe(front))

    return [Route(path, status) for path in ("/status", "/v1/status")]


def describe(front: Front) -> JsonObject:
    """The whole status object."""
    running = front.active.running()
    waiting = [request for request in front.active if request.ticket.place is Place.WAITING]
    config = front.config
    failure = front.worker.failure if front.worker.state is WorkerState.FAILED else None
    progress = front.worker.progress
    ready = front.worker.ready
    timings = front.last_timings
    return {
        "state": state_name(front),
        "loading": dataclasses.asdict(progress) if progress is not None else None,
        "error": dataclasses.asdict(failure) if failure is not None else None,
        "instance": front.instance,
        "model": front.model.name,
        "ops": ready.ops if ready is not None else None,
        "card_notice": (ready.card_notice or None) if ready is not None else None,
        "loaded": front.worker.state is WorkerState.READY,
        "restarts": front.worker.restarts,
        "queued": front.queue.queued,
        "waiting": [
            {
                "request_id": request.request_id,
                "position": front.queue.position(request.ticket),
                "waited_s": round(request.elapsed_s, 3),
            }
            for request in waiting
        ],
        "running": running[0].summary() if running else None,
        "requests": [request.summary() for request in running],
        "last_timings": dataclasses.asdict(timings) if timings is not None else None,
        "recent": list(front.recent),
        "warm": front.warm.as_object(),
        "uptime_s": round(time.monotonic() - front.started_s, 3),
        "idle_unload_s": config.idle_unload_s or None,
        "structured_output": True,
        "limits": {
            "body_mib": config.max_body_mib,
            "queue_max": config.queue_max,
            "parallel": config.parallel,
            "n_ctx": front.context,
        },
        "auto_load": True,
    }


def state_name(front: Front) -> str:
    """One word for what the server does."""
    state = front.worker.state
    if state is not WorkerState.READY:
        return state.value
    phases = {request.phase for request in front.active}
    # A request that has just got its turn is on its way to the worker.
    fallback = Phase.READING.value if front.active.running() else "idle"
    return next((phase.value for phase in BUSY_PHASES if phase in phases), fallback)
