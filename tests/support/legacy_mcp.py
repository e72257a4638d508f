"""An MCP server of the older protocol, by hand: a handshake, no `server/discover`, and bad manners.

It prints a line that is no message, has a tool whose schema cannot be followed, and gets a new tool
when `grow` is called, which it announces.
"""

import json
import sys

REMOTE = {"type": "object", "properties": {"x": {"$ref": "https://schemas.example/x.json"}}}
READ_ONLY = {"readOnlyHint": True}


def tool(name, schema):
    return {"name": name, "inputSchema": schema, "annotations": READ_ONLY}


def send(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def main():
    tools = [tool("remote", REMOTE), tool("grow", {"type": "object"})]
    sys.stdout.write("Welcome to this server!\n")
    for line in sys.stdin:
        message = json.loads(line)
        method, number = message.get("method"), message.get("id")
        if number is None:
            continue
        if method == "initialize":
            result = {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {"listChanged": True}},
                "serverInfo": {"name": "legacy", "version": "1"},
            }
        elif method == "tools/list":
            result = {"tools": tools}
        elif method == "tools/call":
            if message["params"]["name"] == "grow" and len(tools) == 2:
                tools.append(tool("grown", {"type": "object"}))
                send({"method": "notifications/tools/list_changed"})
            result = {"content": [{"type": "text", "text": "LEGACYDONE"}]}
        else:
            send({"id": number, "error": {"code": -32601, "message": "Method not found"}})
            continue
        send({"id": number, "result": result})


main()
