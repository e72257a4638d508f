"""The outermost layer of every request: id, path, security, common headers, the last error net.

Plain ASGI, because it must act before routing, see streams, and never buffer them.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from engine.server.answers import json_response
from engine.server.bodies import ClientGone
from engine.server.chat_completions import internal_error
from engine.server.control import REQUESTS_PREFIX, SHUTDOWN_PATH
from engine.server.errors import ApiError
from engine.server.front import Front, new_id
from engine.server.security import Access, RequestHeaders, Rule

logger = logging.getLogger(__name__)

HEADER_BLOCK_BYTES = 32 * 1024
OPEN_PATHS = frozenset({"/", "/health", "/v1/health"})
CONTROL_PATHS = frozenset({SHUTDOWN_PATH, "/load", "/unload", "/v1/load", "/v1/unload"})
DOUBLED_PREFIX = re.compile(r"^(/v1)+(?=/v1(/|$))")

PREFLIGHT_METHODS = "GET, HEAD, POST, DELETE, OPTIONS"
PREFLIGHT_HEADERS = ("authorization", "content-type", "x-api-key")
PREFLIGHT_MAX_AGE_S = 600
HEADER_NAME = re.compile(r"[a-z0-9-]{1,64}")


class Gateway:
    """Wraps the routes."""

    def __init__(self, app: ASGIApp, front: Front) -> None:
        self._app = app
        self._front = front

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request; anything but HTTP goes straight through."""
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1000})
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path = normal_path(scope["path"])
        scope["path"] = path
        scope["raw_path"] = path.encode("utf-8", "replace")
        request_id = new_id("req_")
        scope.setdefault("state", {})["request_id"] = request_id
        access = access_of(path)
        headers = read_headers(scope["headers"])
        common = {"x-request-id": request_id, "x-content-type-options": "nosniff"}
        sender = _Sender(send, common)
        try:
            _check_size(scope["headers"])
            is_preflight = scope["method"] == "OPTIONS"
            if is_preflight:
                access = Access(needs_key=False, rule=access.rule)  # browsers send none
            self._front.security.check(headers, access)
            sender.add(self._front.security.cors_headers(headers, access))
            if is_preflight:
                await _preflight(scope, sender.extra)(scope, receive, sender)
            else:
                await self._app(scope, receive, sender)
        except ApiError as error:
            if error.status == 401:  # a refused host or origin gets no CORS headers
                sender.add(self._front.security.cors_headers(headers, access))
            await error_response(error)(scope, receive, sender)
        except ClientGone:
            logger.debug("%s: the client closed the connection", request_id)
        except Exception:
            logger.exception("%s failed", request_id)
            if not sender.has_started:
                await error_response(internal_error())(scope, receive, sender)


class _Sender:
    """Adds the common headers to whatever is answered."""

    def __init__(self, send: Send, headers: dict[str, str]) -> None:
        self._send = send
        self.extra = dict(headers)
        self.has_started = False

    def add(self, headers: dict[str, str]) -> None:
        self.extra.update(headers)

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.has_started = True
            mine = [(key.encode(), value.encode("latin-1")) for key, value in self.extra.items()]
            message = {**message, "headers": [*message.get("headers", []), *mine]}
        await self._send(message)


def error_response(error: ApiError) -> Response:
    """An error in the OpenAI shape; the Anthropic routes will choose theirs by path."""
    return json_response(error.openai_body(), error.status, error.headers)


def normal_path(path: str) -> str:
    """One trailing slash, a doubled leading slash-less `/v1/v1`: what base URLs end up as."""
    path = DOUBLED_PREFIX.sub("", path)
    return path[:-1] if len(path) > 1 and path.endswith("/") else path


def access_of(path: str) -> Access:
    """What a path asks of its caller; unknown paths are protected like known ones."""
    if path in OPEN_PATHS:
        return Access(needs_key=False)
    if path in CONTROL_PATHS or path.startswith(REQUESTS_PREFIX):
        return Access(rule=Rule.CONTROL)
    return Access()


def read_headers(raw: Iterable[tuple[bytes, bytes]]) -> RequestHeaders:
    """The headers that security looks at."""
    values: dict[str, list[str]] = {}
    for name, value in raw:
        values.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))

    def only(name: str) -> str | None:
        """The header's value; one that is sent twice is joined, and so matches nothing."""
        return ", ".join(values[name]) if name in values else None

    return RequestHeaders(
        hosts=tuple(values.get("host", ())),
        origin=only("origin"),
        authorization=only("authorization"),
        x_api_key=only("x-api-key"),
        sec_fetch_site=only("sec-fetch-site"),
    )


def _check_size(raw: Iterable[tuple[bytes, bytes]]) -> None:
    # h11's own limit holds only for headers that arrive in several reads.
    if sum(len(name) + len(value) for name, value in raw) > HEADER_BLOCK_BYTES:
        raise ApiError(400, "invalid_value", "The request's headers are larger than 32 KiB.")


def _preflight(scope: Scope, headers: dict[str, str]) -> Response:
    """204; with the CORS answer only when the origin was opened."""
    if "access-control-allow-origin" not in headers:
        return Response(status_code=204)
    request = Request(scope)
    asked = request.headers.get("access-control-request-headers", "").lower().split(",")
    names = dict.fromkeys((*PREFLIGHT_HEADERS, *(name for part in asked if (name := part.strip()))))
    allowed = {
        "access-control-allow-methods": PREFLIGHT_METHODS,
        "access-control-allow-headers": ", ".join(n for n in names if HEADER_NAME.fullmatch(n)),
        "access-control-max-age": str(PREFLIGHT_MAX_AGE_S),
    }
    if request.headers.get("access-control-request-private-network") == "true":
        allowed["access-control-allow-private-network"] = "true"
    return Response(status_code=204, headers=allowed)
