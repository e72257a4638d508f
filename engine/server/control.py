"""Routes that change what runs: cancelling a request, ending the server (spec/api.md 1 and 8).

No page of another origin may use them (security.py, `Rule.CONTROL`).
"""

from __future__ import annotations

import ipaddress

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from engine.server.answers import json_response
from engine.server.bodies import parse_object, read_body
from engine.server.errors import ApiError
from engine.server.fields import Fields
from engine.server.front import Front

SHUTDOWN_PATH = "/shutdown"
REQUESTS_PREFIX = "/v1/requests/"


def control_routes(front: Front) -> list[Route]:
    """The routes."""

    async def cancel(request: Request) -> Response:
        request_id = request.path_params["request_id"]
        front.active.find(request_id).cancel()
        return json_response({"id": request_id, "status": "cancelled"})

    async def stop_thinking(request: Request) -> Response:
        request_id = request.path_params["request_id"]
        front.active.find(request_id).stop_thinking()
        return json_response({"id": request_id, "status": "answering"})

    async def shutdown(request: Request) -> Response:
        if not _is_loopback_peer(request):
            raise ApiError(
                403, "origin_not_allowed", "Only this machine itself may stop the server."
            )
        raw = await read_body(request, front.config.max_body_mib)
        body = parse_object(raw) if raw else {}
        front.stop_is_forced = Fields(body).boolean("force") is True
        front.is_stopping = True
        front.stop_requested.set()
        return json_response({"status": "stopping"})

    return [
        Route(REQUESTS_PREFIX + "{request_id}/cancel", cancel, methods=["POST"]),
        Route(REQUESTS_PREFIX + "{request_id}/stop_thinking", stop_thinking, methods=["POST"]),
        Route(SHUTDOWN_PATH, shutdown, methods=["POST"]),
    ]


def _is_loopback_peer(request: Request) -> bool:
    if request.client is None:
        return False
    try:
        return ipaddress.ip_address(request.client.host).is_loopback
    except ValueError:
        return False
