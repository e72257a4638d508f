"""`"stratum_mcp"` in a chat request: who may say it, and the generation that follows.

Only callers that are no web page, and our own page: a tool can read files and run programs, and the
rules for pages that may generate text are not strict enough for that. Does not import the `mcp`
package, which takes a second: a server without MCP servers never loads it.
"""

from __future__ import annotations

import asyncio

from starlette.requests import Request

from engine.server.errors import ApiError, invalid_value, shortened, unsupported_value
from engine.server.front import Front
from engine.server.generation import Generation
from engine.server.generation_request import GenerationRequest
from engine.server.prepared import Prepared, admit, prepare
from engine.server.security import DEFAULT_PORTS, parse_origin


async def admit_with_tools(
    front: Front, request: Request, wanted: GenerationRequest, *, can_ask: bool
) -> tuple[Generation, Prepared]:
    """Prepare and admit a request that asks for the tools of MCP servers.

    Args:
        front: the server.
        request: its headers say who asks.
        wanted: with `mcp_servers`.
        can_ask: the answer is streamed, so a person can see questions.

    Raises:
        ApiError: 403 for web pages, 400 for an unknown server or several choices, 429, 503.
    """
    check_caller(request)
    if wanted.choices > 1:
        raise unsupported_value("n", "must be 1 together with stratum_mcp")
    request_id = request.scope["state"]["request_id"]
    if front.mcp is not None:
        return await front.mcp.admit(front, request_id, wanted, can_ask=can_ask)
    if wanted.mcp_servers:
        reason = f"is {shortened(wanted.mcp_servers[0])}, and no MCP servers are configured"
        raise invalid_value("stratum_mcp[0]", reason)
    prepared = await asyncio.to_thread(prepare, front, wanted)
    return admit(front, request_id, "chat", prepared), prepared


def check_caller(request: Request) -> None:
    """Refuse web pages other than our own.

    Raises:
        ApiError: 403.
    """
    text = request.headers.get("origin")
    if text is None:
        return
    origin = parse_origin(text)
    if origin is not None and origin.scheme in DEFAULT_PORTS:
        host = request.headers.get("host", "").strip()
        if origin == parse_origin(f"{origin.scheme}://{host}"):
            return
    raise ApiError(
        403,
        "origin_not_allowed",
        "Web pages of this origin may not use the server's MCP tools (stratum_mcp).",
        param="stratum_mcp",
    )
