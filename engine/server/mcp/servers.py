"""All configured MCP servers of a server process.

    servers = McpServers.from_config(config)
    servers.start()                              # in the background, when the port is open
    chosen = await servers.ready(("files",))     # at a request; () = all
    await servers.close()

One that is broken loses only its own tools: it is named with its reason at `GET /mcp`, and tried again
at the next request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace

from engine.core.config import RunConfig
from engine.core.config_mcp import McpSettings
from engine.server.errors import invalid_value, shortened
from engine.server.front import Front
from engine.server.generation import Generation
from engine.server.generation_request import GenerationRequest
from engine.server.mcp.connection import McpConnection, McpState, quiet_library_logs
from engine.server.mcp.consent import Consents
from engine.server.mcp.rounds import ToolRounds
from engine.server.mcp.tool_table import McpTool, tool_table, with_tools
from engine.server.prepared import Prepared, prepare

# How long a request waits for servers that start. `npx` may download for a minute; the answer then
# begins without that server's tools, and says so.
WAIT_S = 5.0

JsonObject = dict[str, object]


class McpServers:
    """The connections, in the config's order."""

    def __init__(self, connections: tuple[McpConnection, ...], settings: McpSettings) -> None:
        self.settings = settings
        self.consents = Consents()
        self._connections = connections

    @classmethod
    def from_config(cls, config: RunConfig) -> McpServers:
        """The servers of a run config; nothing is started yet."""
        quiet_library_logs()
        connections = (
            McpConnection(name, entry, config.mcp) for name, entry in config.mcp_servers.items()
        )
        return cls(tuple(connections), config.mcp)

    def start(self) -> None:
        """Start all of them in the background."""
        for connection in self._connections:
            connection.start()

    async def close(self) -> None:
        """End all of them."""
        await asyncio.gather(*(connection.close() for connection in self._connections))

    async def ready(self, names: tuple[str, ...]) -> tuple[McpConnection, ...]:
        """The named servers (all, if none is named), after giving them time to start.

        Servers that took too long before are started again, but not waited for.

        Raises:
            ApiError: 400 for a name that is not configured.
        """
        known = {connection.name for connection in self._connections}
        for index, name in enumerate(names):
            if name not in known:
                reason = f"is {shortened(name)}, and no MCP server of this name is configured"
                raise invalid_value(f"stratum_mcp[{index}]", reason)
        chosen = tuple(
            connection
            for connection in self._connections
            if (not names or connection.name in names) and connection.state is not McpState.DISABLED
        )
        await asyncio.gather(
            *(connection.settle(0 if connection.is_slow else WAIT_S) for connection in chosen)
        )
        return chosen

    async def admit(
        self, front: Front, request_id: str, wanted: GenerationRequest, *, can_ask: bool
    ) -> tuple[Generation, Prepared]:
        """A generation that may use the tools that the request asks for.

        Raises:
            ApiError: 400, 404, 429, 503.
        """
        chosen = await self.ready(wanted.mcp_servers or ())
        own = wanted.conversation.tools.rendered
        taken = {name for tool in own if (name := _declared_name(tool))}
        table = tool_table(chosen, taken)
        request, prepared = await asyncio.to_thread(_prepare, front, wanted, table)
        generation = ToolRounds(
            front,
            request_id,
            prepared.plan,
            request,
            chosen=chosen,
            table=table,
            servers=self,
            can_ask=can_ask,
        )
        return generation, prepared

    def needs_consent(self, entry: McpTool) -> bool:
        """Whether a call must be asked about now."""
        tool = entry.tool.name
        return entry.needs_consent and not self.consents.is_allowed(entry.connection.name, tool)

    def describe(self) -> list[JsonObject]:
        """What `GET /mcp` says: never commands, variables or headers."""
        return [_describe(connection) for connection in self._connections]


def _prepare(
    front: Front, wanted: GenerationRequest, table: dict[str, McpTool]
) -> tuple[GenerationRequest, Prepared]:
    """The request with the tools, and what comes of it."""
    conversation = wanted.conversation
    tools = with_tools(conversation.tools, table)
    request = replace(wanted, conversation=replace(conversation, tools=tools))
    return request, prepare(front, request)


def _describe(connection: McpConnection) -> JsonObject:
    tools = tool_table((connection,), frozenset()).values()
    return {
        "name": connection.name,
        "transport": connection.transport,
        "status": connection.state.value,
        "error": connection.error,
        "tools": [
            {
                "name": entry.name,
                "description": entry.tool.description,
                "read_only": _is_read_only(entry),
                "needs_consent": entry.needs_consent,
            }
            for entry in tools
        ],
    }


def _declared_name(tool: Mapping[str, object]) -> str | None:
    function = tool.get("function")
    name = function.get("name") if isinstance(function, Mapping) else None
    return name if isinstance(name, str) else None


def _is_read_only(entry: McpTool) -> bool:
    annotations = entry.tool.annotations
    return annotations is not None and annotations.read_only_hint is True
