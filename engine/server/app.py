"""The ASGI application: FastAPI with the routes of all protocols, inside the gateway."""

from __future__ import annotations

from fastapi import FastAPI
from starlette.routing import BaseRoute
from starlette.types import ASGIApp

from engine.server.chat_completions import chat_routes
from engine.server.completions import completions_routes
from engine.server.control import control_routes
from engine.server.front import Front
from engine.server.gateway import Gateway
from engine.server.health import health_routes
from engine.server.loading import loading_routes
from engine.server.mcp.routes import mcp_routes
from engine.server.messages_api import messages_routes
from engine.server.metrics_routes import metrics_routes
from engine.server.models import models_routes
from engine.server.page_routes import page_routes
from engine.server.props import props_routes
from engine.server.responses import responses_routes
from engine.server.status import status_routes
from engine.server.tokenize import tokenize_routes
from engine.server.upstream.configured import replaced_routes


class Application(FastAPI):
    """FastAPI without its pages and without its error layers.

    Those would answer errors in FastAPI's own shape; here the gateway answers every one of them in
    the protocol's.
    """

    def __init__(self, routes: list[BaseRoute]) -> None:
        super().__init__(
            routes=routes, docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False
        )

    def build_middleware_stack(self) -> ASGIApp:
        """The router alone: what it raises reaches the gateway."""
        return self.router


def make_app(front: Front) -> ASGIApp:
    """The application of a server process."""
    chat = chat_routes(front)
    routes: list[BaseRoute] = [
        *replaced_routes(front, chat[0]),
        *chat,
        *completions_routes(front),
        *messages_routes(front),
        *responses_routes(front),
        *models_routes(front),
        *health_routes(front),
        *status_routes(front),
        *metrics_routes(front),
        *props_routes(front),
        *tokenize_routes(front),
        *loading_routes(front),
        *control_routes(front),
        *mcp_routes(front),
        *page_routes(),
    ]
    return Gateway(Application(routes), front)
