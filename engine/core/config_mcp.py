"""Settings of MCP servers: `mcp_servers`, in the shape that Claude Desktop's file has, and `mcp`.

    {"files": {"command": "npx", "args": ["-y", "some-server", "/data"], "env": {"TOKEN": "..."}},
     "notes": {"url": "https://notes.example/mcp", "headers": {"Authorization": "Bearer ..."}}}

Only shapes and types are checked here. An entry that cannot work (no command, an unknown transport)
must not stop the start: it is the server's own state, said at `GET /mcp`.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

MCP_SERVERS = "mcp_servers"
# Key under which programs keep the entries in a file of theirs; a pasted one is understood.
WRAPPER_KEY = "mcpServers"


class McpServerConfig(BaseModel):
    """One MCP server: a program to start (stdio), or an address (Streamable HTTP)."""

    model_config = ConfigDict(extra="allow", frozen=True)

    command: str | None = Field(default=None, description="Program to start.")
    args: tuple[str, ...] = Field(default=(), description="Its arguments.")
    env: dict[str, str] = Field(
        default_factory=dict, description="Environment variables added to the usual few."
    )
    cwd: str | None = Field(default=None, description="Folder to start it in.")
    url: str | None = Field(default=None, description="Address of a Streamable HTTP server.")
    headers: dict[str, str] = Field(
        default_factory=dict, description="Headers sent with every request to `url`."
    )
    type: str | None = Field(
        default=None, description="`stdio` or `http`; follows from the other keys."
    )
    disabled: bool = Field(default=False, description="Keep the entry without using it.")
    always_allow: tuple[str, ...] = Field(
        default=(), description="Tools that run without asking; `*` for all of the server."
    )


class McpSettings(BaseModel):
    """Limits of tool use."""

    model_config = ConfigDict(extra="allow", frozen=True, allow_inf_nan=False)

    max_rounds: Annotated[int, Field(ge=1, le=64)] = Field(
        default=8, description="Times that one answer may stop to call tools."
    )
    timeout_s: Annotated[float, Field(gt=0, le=3600)] = Field(
        default=60.0, description="Longest run of one tool."
    )
    max_result_chars: Annotated[int, Field(ge=100, le=1_000_000)] = Field(
        default=20_000, description="Length at which a result is cut; the model is told."
    )
    consent_timeout_s: Annotated[float, Field(gt=0, le=3600)] = Field(
        default=300.0, description="How long a question waits for its answer; then it is no."
    )
    start_timeout_s: Annotated[float, Field(gt=0, le=600)] = Field(
        default=60.0, description="How long a server may take to start."
    )


def unwrap_servers(value: object) -> object:
    """The entries of a whole pasted `{"mcpServers": {...}}` file; anything else as it is."""
    if isinstance(value, dict) and set(value) == {WRAPPER_KEY}:
        return value[WRAPPER_KEY]
    return value
