"""The outermost layer of every request: id, path, security, common headers, the last error net.

Plain ASGI, because it must act before routing, see streams, and never buffer them.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterable

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from engine.server.answers import json_response
from engine.server.bodies import ClientGone
from engine.server.control import REQUESTS_PREFIX, SHUTDOWN_PATH
from engine.server.errors import ApiError, internal_error, not_found
from engine.server.front import Front, new_id
from engine.server.security import Access, RequestHeaders, Rule

logger = logging.getLogger(__name__)
request_log = logging.getLogger("engine.server.requests")

HEADER_BLOCK_BYTES = 32 * 1024
OPEN_PATHS = frozenset({"/", "/health", "/v1/health"})
CONTROL_PATHS = frozenset({SHUTDOWN_PATH, "/load", "/unload", "/v1/load", "/v1/unload"})
ANTHROPIC_PATH = "/v1/messages"
# What a client asks for whose base address lacks the /v1: by far the commonest slip.
WITHOUT_PREFIX = frozenset({"/chat/completions", "/completions", "/responses", "/messages"})
DOUBLED_PREFIX = re.compile(r"^(/v1)+(?=/v1(/|$))")

PREFLIGHT_METHODS = "GET, HEAD, POST, DELETE, OPTIONS"
PREFLIGHT_HEADERS = ("authorization", "content-type", "x-api-key")
PREFLIGHT_MAX_AGE_S = 600
HEADER_NAME = re.compile(r"[a-z0-9-]{1,64}")


class Gateway:
    """Wraps the routes."""

    def __init__(self, routes: ASGIApp, front: Front) -> None:
        self._routes = routes
        self._front = front

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        scope["path"] = normal_path(scope["path"])
        scope["app"] = self  # with this key Starlette's router raises its 404 and 405
        request_id = new_id("req_")
        scope["state"]["request_id"] = request_id
        sender = _Sender(send, {"x-request-id": request_id, "x-content-type-options": "nosniff"})
        if is_anthropic(scope["path"]):
            sender.add({"request-id": request_id})
        try:
            await self._handle(scope, receive, sender)
        except ClientGone:
            logger.debug("%s: the client closed the connection, or stopped reading", request_id)
            scope["state"]["abort"]()
            await asyncio.sleep(0)  # uvicorn learns of it, and does not miss the rest
        except ApiError as error:
            await self._answer(error, scope, receive, sender)
        except HTTPException as error:
            await self._answer(_routing_error(error, scope["path"]), scope, receive, sender)
        except Exception:
            logger.exception("%s failed", request_id)
            await self._answer(internal_error(), scope, receive, sender)

    async def _handle(self, scope: Scope, receive: Receive, sender: _Sender) -> None:
        security = self._front.security
        access = access_of(scope["path"])
        _check_size(scope)
        _check_framing(scope)
        headers = read_headers(scope["headers"])
        security.check_source(headers, access)
        sender.add(security.cors_headers(headers, access))
        if scope["method"] == "OPTIONS":  # browsers send no key with it
            await _preflight(scope, sender.extra)(scope, receive, sender)
            return
        security.check_key(headers, access)
        await self._routes(scope, receive, sender)

    async def _answer(
        self, error: ApiError, scope: Scope, receive: Receive, sender: _Sender
    ) -> None:
        """The error as JSON, unless an answer is under way: then uvicorn closes the connection."""
        request_id = scope["state"]["request_id"]
        self._front.metrics.note_error(error.code)
        if error.status < 500:  # what failed later has its line from `generation`
            request_log.info("%s refused: %d %s", request_id, error.status, error.code)
        if not sender.has_started:
            of_anthropic = is_anthropic(scope["path"])
            body = error.anthropic_body(request_id) if of_anthropic else error.openai_body()
            response = json_response(body, error.status, error.headers)
            await response(scope, receive, sender)


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


def _routing_error(error: HTTPException, path: str) -> ApiError:
    """What the router itself answers: 404 and 405."""
    if error.status_code != 405:
        if path in WITHOUT_PREFIX:
            return not_found(
                f"There is nothing at {path}: it is at /v1{path}. Put /v1 at the end of the client's "
                "base address."
            )
        return not_found()
    allow = (error.headers or {}).get("Allow", "")
    message = f"This address does not take that method; it takes {allow}."
    return ApiError(405, "method_not_allowed", message, headers={"allow": allow})


def normal_path(path: str) -> str:
    """One trailing slash, a doubled leading slash-less `/v1/v1`: what base URLs end up as."""
    path = DOUBLED_PREFIX.sub("", path)
    return path[:-1] if len(path) > 1 and path.endswith("/") else path


def is_anthropic(path: str) -> bool:
    """Whether a path is one of Anthropic's protocol."""
    return path == ANTHROPIC_PATH or path.startswith(ANTHROPIC_PATH + "/")


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


def _check_size(scope: Scope) -> None:
    # h11's own limit holds only for headers that arrive in several reads.
    size = len(scope["raw_path"]) + len(scope["query_string"])
    if size + sum(len(name) + len(value) for name, value in scope["headers"]) > HEADER_BLOCK_BYTES:
        raise ApiError(400, "invalid_value", "The request's headers are larger than 32 KiB.")


def _check_framing(scope: Scope) -> None:
    # A proxy in front may go by the one and h11 goes by the other; then a request could hide in a body.
    names = {name for name, _ in scope["headers"]}
    if b"content-length" in names and b"transfer-encoding" in names:
        raise ApiError(
            400,
            "invalid_value",
            "The request has both Content-Length and Transfer-Encoding; it may have only one.",
            headers={"connection": "close"},
        )


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
