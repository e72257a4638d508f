"""The ASGI application: routes of all protocols inside the gateway.

FastAPI does the routing; its own validation, error bodies and documentation pages are not used, so
that every answer has the protocol's shape.
"""

from __future__ import annotations

from fastapi import FastAPI, Request
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp

from engine.server.chat_completions import chat_router
from engine.server.control import control_router
from engine.server.errors import ApiError, not_found
from engine.server.front import Front
from engine.server.gateway import Gateway, error_response
from engine.server.health import health_router
from engine.server.models import models_router
from engine.server.status import status_router


def make_app(front: Front) -> ASGIApp:
    """The application of a server process."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False)
    app.add_exception_handler(ApiError, _api_error)
    app.add_exception_handler(HTTPException, _http_exception)
    for router in (
        chat_router(front),
        models_router(front),
        health_router(front),
        status_router(front),
        control_router(front),
    ):
        app.include_router(router)
    return Gateway(app, front)


async def _api_error(_request: Request, error: Exception) -> Response:
    if not isinstance(error, ApiError):
        raise error
    return error_response(error)


async def _http_exception(_request: Request, error: Exception) -> Response:
    """What the router itself answers: 404 and 405."""
    if not isinstance(error, HTTPException):
        raise error
    if error.status_code == 405:
        allow = (error.headers or {}).get("Allow", "")
        message = f"This address does not take that method; it takes {allow}."
        return error_response(
            ApiError(405, "method_not_allowed", message, headers={"allow": allow})
        )
    return error_response(not_found())
