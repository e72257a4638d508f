"""The ASGI application: the routes of all protocols inside the gateway."""

from __future__ import annotations

from starlette.routing import Router
from starlette.types import ASGIApp

from engine.server.chat_completions import chat_routes
from engine.server.control import control_routes
from engine.server.front import Front
from engine.server.gateway import Gateway
from engine.server.health import health_routes
from engine.server.models import models_routes
from engine.server.status import status_routes


def make_app(front: Front) -> ASGIApp:
    """The application of a server process."""
    routes = [
        *chat_routes(front),
        *models_routes(front),
        *health_routes(front),
        *status_routes(front),
        *control_routes(front),
    ]
    return Gateway(Router(routes, redirect_slashes=False), front)
