"""`GET /health`: open to everybody on this machine, so it tells nothing else."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from engine.server.answers import json_response
from engine.server.errors import ApiError
from engine.server.front import Front
from engine.worker.messages import Progress
from engine.worker.supervisor import WorkerState


def health_routes(front: Front) -> list[Route]:
    """The routes."""

    async def health(_request: Request) -> Response:
        match front.worker.state:
            case WorkerState.LOADING:
                progress = loaded_share(front.worker.progress)
                return json_response({"status": "loading", "progress": progress}, 503)
            case WorkerState.FAILED if not _is_waiting_for_room(front):
                message = "The model could not be loaded; see GET /status."
                raise ApiError(503, "load_failed", message)
            case state:
                return json_response({"status": "ok", "loaded": state is WorkerState.READY})

    return [Route("/health", health), Route("/v1/health", health)]


def _is_waiting_for_room(front: Front) -> bool:
    """Whether the next request may well load: others only use the graphics card for now."""
    failure = front.worker.failure
    return failure is not None and failure.code == "insufficient_vram"


def loaded_share(progress: Progress | None) -> float:
    """How much of the model is loaded, 0 to 1."""
    if progress is None or progress.total_bytes <= 0:
        return 0.0
    return round(min(progress.done_bytes / progress.total_bytes, 1.0), 4)
