"""`GET /mcp`, and the answer to a tool's question (spec/api.md sections 1 and 9.5)."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from engine.server.answers import json_response
from engine.server.bodies import parse_object, read_body
from engine.server.errors import missing, not_found
from engine.server.fields import Fields
from engine.server.front import Front

# Kept here and not taken from control.py, which may come to import this package.
REQUESTS_PREFIX = "/v1/requests/"


def mcp_routes(front: Front) -> list[Route]:
    """The routes."""

    async def describe(_request: Request) -> Response:
        servers = front.mcp.describe() if front.mcp is not None else []
        return json_response({"servers": servers})

    async def consent(request: Request) -> Response:
        body = Fields(parse_object(await read_body(request, front.config.max_body_mib)))
        call_id = body.required_string("id")
        allow = body.boolean("allow")
        if allow is None:
            raise missing("allow")
        request_id = request.path_params["request_id"]
        front.active.find(request_id)  # 404 for an unknown request
        if front.mcp is None:
            raise not_found("This request asks no question.")
        always = body.boolean("always") is True
        front.mcp.consents.answer(request_id, call_id, allow=allow, always=always)
        return json_response({"id": call_id, "allow": allow, "always": always})

    return [
        Route("/mcp", describe),
        Route(REQUESTS_PREFIX + "{request_id}/mcp_consent", consent, methods=["POST"]),
    ]
