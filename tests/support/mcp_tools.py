"""A small MCP server made with the `mcp` package, for the tests: over stdio, or over HTTP.

python mcp_tools.py                     # stdio
python mcp_tools.py http 8123           # Streamable HTTP at /mcp
"""

import os
import sys
import time
from pathlib import Path

import anyio
from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations

READ_ONLY = ToolAnnotations(read_only_hint=True)


def make_server(name="support", marks=None):
    """The server; `marks` is a folder in which tools leave files that tell what happened."""
    server = MCPServer(name, log_level="CRITICAL")
    folder = Path(marks) if marks else None

    def mark(what):
        if folder is not None:
            (folder / what).write_text(str(time.time()), encoding="utf-8")

    @server.tool(annotations=READ_ONLY)
    def add(a: int, b: int) -> str:
        """Add two numbers."""
        return f"SUMIS{a + b}"

    @server.tool()
    def write(text: str) -> str:
        """Write a text."""
        mark("written")
        return f"WROTE{len(text)}"

    @server.tool(annotations=READ_ONLY)
    async def slow(seconds: float) -> str:
        """Take a while."""
        mark("slow-began")
        try:
            await anyio.sleep(seconds)
        except BaseException:
            mark("slow-cancelled")
            raise
        return "SLOWDONE"

    @server.tool(annotations=READ_ONLY)
    def huge(length: int) -> str:
        """Return a long text."""
        return "HUGE" + "x" * (length - 4)

    @server.tool(annotations=READ_ONLY)
    def fail() -> str:
        """Fail."""
        raise ToolError("it fell over")

    @server.tool(annotations=READ_ONLY)
    def environment(name: str) -> str:
        """Whether a variable is set."""
        return f"LENGTH{len(os.environ.get(name, ''))}"

    @server.tool(annotations=READ_ONLY)
    def crash() -> str:
        """End the server."""
        os._exit(3)

    return server


if __name__ == "__main__":
    support = make_server(marks=os.environ.get("MARKS"))
    if sys.argv[1:2] == ["http"]:
        support.run("streamable-http", host="127.0.0.1", port=int(sys.argv[2]))
    else:
        sys.stderr.write(f"mcp_tools starts, and its key is {os.environ.get('TOOL_KEY')}\n")
        support.run()
