"""The tools of MCP servers as a request's model sees them: `server__tool`.

    table = tool_table(connections, taken={"get_weather"})
    table.rendered, table.specs         # for the request's `ToolUse`
    table.tools["files__read_file"]     # whom to ask

The request's own tools win a clash of names. Tools keep their server's order: they stand at the
prompt's start, and the cache of earlier turns depends on every byte.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from mcp_types import Tool

from engine.server.mcp.connection import McpConnection
from engine.server.tool_fields import MAX_TOOLS, ToolUse
from engine.text.events import ToolSpec
from engine.text.grammar import SchemaError, answer_grammar
from engine.text.output_rules import ANY_TOOL, FREE_TEXT, CallMode

logger = logging.getLogger(__name__)

SEPARATOR = "__"
MAX_NAME_CHARS = 128
NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_.:-]")


@dataclass(frozen=True, slots=True)
class McpTool:
    """One tool of one server.

    Attributes:
        name: as the model sees it.
        needs_consent: a person must allow each call.
    """

    name: str
    connection: McpConnection
    tool: Tool
    needs_consent: bool


def tool_table(connections: Iterable[McpConnection], taken: AbstractSet[str]) -> dict[str, McpTool]:
    """The tools of connected servers by the names under which the model calls them.

    Args:
        connections: those that are not ready have no tools.
        taken: names of the request's own tools.
    """
    table: dict[str, McpTool] = {}
    for connection in connections:
        for tool in connection.tools:
            name = f"{plain_name(connection.name)}{SEPARATOR}{plain_name(tool.name)}"
            name = name[:MAX_NAME_CHARS]
            if name in taken or name in table or len(taken) + len(table) >= MAX_TOOLS:
                continue
            table[name] = McpTool(name, connection, tool, _needs_consent(connection, tool))
    return table


def plain_name(name: str) -> str:
    """The name with only the characters that tool names may have."""
    return NOT_IN_NAMES.sub("_", name) or "_"


def with_tools(own: ToolUse, table: dict[str, McpTool]) -> ToolUse:
    """A request's tools and those of the table after them.

    A choice of the request (no calls, or only certain tools) holds for these too: they are declared,
    and cannot be called. Takes milliseconds for a schema that was not seen before.
    """
    if not table:
        return own
    rendered = tuple(_declaration(entry) for entry in table.values())
    callable_names = [
        name for name in table if own.choice.mode is not CallMode.NONE and own.choice.allows(name)
    ]
    specs = tuple(_spec(table[name]) for name in callable_names)
    return replace(own, rendered=(*own.rendered, *rendered), specs=(*own.specs, *specs))


def _declaration(entry: McpTool) -> dict[str, object]:
    function: dict[str, object] = {"name": entry.name}
    if entry.tool.description:
        function["description"] = entry.tool.description
    function["parameters"] = entry.tool.input_schema
    return {"type": "function", "function": function}


def _spec(entry: McpTool) -> ToolSpec:
    """The tool with its schema, or with any object if that cannot be made a grammar of.

    The request did not write the schema, and one tool's must not cost it the others.
    """
    spec = ToolSpec(entry.name, entry.tool.input_schema)
    try:
        answer_grammar((spec,), ANY_TOOL, FREE_TEXT)
    except SchemaError as error:
        logger.debug("the schema of the tool %s is not enforced: %s", entry.name, error.message)
        return ToolSpec(entry.name, {"type": "object"})
    return spec


def _needs_consent(connection: McpConnection, tool: Tool) -> bool:
    """Whether a call is asked about: not for tools that only read, and those that are allowed."""
    allowed = connection.config.always_allow
    if "*" in allowed or tool.name in allowed:
        return False
    return tool.annotations is None or tool.annotations.read_only_hint is not True
