"""Routes that change what runs: cancelling a request, ending the server (spec/api.md 1 and 8).

No page of another origin may use them (security.py, `Rule.CONTROL`).
"""

from __future__ import annotations

import ipaddress

from fastapi import APIRouter, Request
from starlette.responses import Response

from engine.server.answers import json_response
from engine.server.bodies import read_object
from engine.server.errors import ApiError
from engine.server.fields import Fields
from engine.server.front import Front

SHUTDOWN_PATH = "/shutdown"
REQUESTS_PREFIX = "/v1/requests/"


def control_router(front: Front) -> APIRouter:
    """The routes."""
    router = APIRouter()

    @router.post(REQUESTS_PREFIX + "{request_id}/cancel", response_model=None)
    async def cancel(request_id: str) -> Response:
        front.active.find(request_id).cancel()
        return json_response({"id": request_id, "status": "cancelled"})

    @router.post(SHUTDOWN_PATH, response_model=None)
    async def shutdown(request: Request) -> Response:
        if not _is_loopback_peer(request):
            raise ApiError(
                403, "origin_not_allowed", "Only this machine itself may stop the server."
            )
        body: dict[str, object] = {}
        if request.headers.get("content-length", "0") != "0":
            body = await read_object(request, front.config.max_body_mib)
        front.stop_is_forced = Fields(body).boolean("force") is True
        front.is_stopping = True
        front.stop_requested.set()
        return json_response({"status": "stopping"})

    return router


def _is_loopback_peer(request: Request) -> bool:
    if request.client is None:
        return False
    try:
        return ipaddress.ip_address(request.client.host).is_loopback
    except ValueError:
        return False
