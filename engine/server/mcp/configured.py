"""The MCP servers of a run config, or None without loading anything when there are none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.core.config import RunConfig

if TYPE_CHECKING:
    from engine.server.mcp.servers import McpServers


def open_mcp(config: RunConfig) -> McpServers | None:
    """The configured servers, not started yet."""
    if not config.mcp_servers:
        return None
    from engine.server.mcp.servers import McpServers  # noqa: PLC0415 - takes a second to import

    return McpServers.from_config(config)
