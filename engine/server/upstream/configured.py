"""The upstream of a run config; without one, nothing of this package is loaded."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from starlette.routing import Route

from engine.core.config import RunConfig
from engine.server.front import Front
from engine.server.model_side import ModelSide

if TYPE_CHECKING:
    from engine.server.upstream.client import Upstream

# The upstream has a scheduler of its own; this only bounds what one front holds open.
UPSTREAM_PARALLEL = 256
DEFAULT_NAME = "upstream"


def open_upstream(config: RunConfig) -> Upstream | None:
    """The configured upstream; nothing has been asked of it yet.

    Raises:
        ConfigError: its address is none.
    """
    if config.upstream is None:
        return None
    from engine.server.upstream.client import Upstream  # noqa: PLC0415 - loads an HTTP client

    return Upstream.from_config(config)


def replaced_routes(front: Front, chat: Route) -> list[Route]:
    """The routes that stand before the usual ones when there is an upstream."""
    if front.upstream is None:
        return []
    from engine.server.upstream.routes import upstream_routes  # noqa: PLC0415 - as above

    return upstream_routes(front, front.upstream, chat)


def upstream_model_side(config: RunConfig) -> ModelSide:
    """What the front knows of a model that another server has: next to nothing."""
    name = config.model_id or DEFAULT_NAME
    return ModelSide(
        name=name,
        aliases=tuple(alias for alias in config.aliases if alias != name),
        file_name="",
        created=int(time.time()),
        chat_format=None,
        context=config.context or 0,
        trained_context=0,
    )
