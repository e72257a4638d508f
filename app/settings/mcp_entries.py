"""MCP servers as text: what a person pastes or edits, and what the list shows of them.

read_pasted('{"mcpServers": {"files": {"command": "npx", "args": [...]}}}')   # {"files": {...}}
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import ValidationError

from engine.core.config_mcp import WRAPPER_KEY, McpServerConfig
from engine.core.errors import InputError
from engine.core.strict_json import BadJsonError, parse_json

JsonObject = dict[str, object]

_ENTRY_KEYS = frozenset({"command", "url"})
_NAMELESS = "server"


class BadPasteError(InputError):
    """A text that holds no MCP servers."""

    code = "bad_paste"


@dataclass(frozen=True, slots=True)
class ServerState:
    """What the engine says of a server.

    Attributes:
        status: `starting`, `ready`, `failed`, `idle`, `disabled`.
        error: its reason in a sentence; empty when there is none.
        tools: names of its tools.
    """

    status: str
    error: str = ""
    tools: tuple[str, ...] = ()


def read_pasted(text: str) -> dict[str, JsonObject]:
    """The servers in a text: a whole file, the table of them, or one entry alone.

    Raises:
        BadPasteError: there are none, or one of them is none.
    """
    try:
        content = parse_json(text.strip())
    except BadJsonError as error:
        raise BadPasteError(f"This is no JSON ({error}).") from error
    if isinstance(content, dict) and isinstance(content.get(WRAPPER_KEY), dict):
        content = content[WRAPPER_KEY]
    elif isinstance(content, dict) and isinstance(content.get("mcp_servers"), dict):
        content = content["mcp_servers"]
    if (
        isinstance(content, dict)
        and _ENTRY_KEYS & content.keys()
        and not any(isinstance(content.get(key), dict) for key in _ENTRY_KEYS)
    ):
        content = {_name_of(content): content}
    if not isinstance(content, dict) or not content:
        raise BadPasteError("There is no MCP server in this text.")
    found: dict[str, JsonObject] = {}
    for name, entry in content.items():
        if not isinstance(entry, dict) or not (_ENTRY_KEYS & entry.keys()):
            raise BadPasteError(f"The entry {name} has neither a command nor an url.")
        check_entry(entry)
        found[str(name)] = dict(entry)
    return found


def check_entry(entry: Mapping[str, object]) -> McpServerConfig:
    """One entry as the engine would read it.

    Raises:
        BadPasteError: it cannot.
    """
    try:
        return McpServerConfig.model_validate_json(json.dumps(dict(entry)), strict=True)
    except ValidationError as error:
        where = ".".join(str(part) for part in error.errors()[0]["loc"])
        raise BadPasteError(f"The key {where} has a value that cannot be used.") from error


def entry_text(entry: Mapping[str, object]) -> str:
    """An entry as text for the person to edit."""
    return json.dumps(dict(entry), ensure_ascii=False, indent=2)


def summary(entry: Mapping[str, object]) -> str:
    """What is started or asked, without arguments, variables and headers: they hold secrets."""
    url = entry.get("url")
    if isinstance(url, str) and url:
        return url.split("?", 1)[0].split("@")[-1]
    return str(entry.get("command", ""))


def states_of(answer: Mapping[str, object]) -> dict[str, ServerState]:
    """What `GET /mcp` says, by name."""
    entries = answer.get("servers")
    found: dict[str, ServerState] = {}
    for entry in entries if isinstance(entries, list) else ():
        if not isinstance(entry, dict):
            continue
        tools = entry.get("tools")
        names = (
            tuple(str(tool.get("name", "")) for tool in tools if isinstance(tool, dict))
            if isinstance(tools, list)
            else ()
        )
        found[str(entry.get("name", ""))] = ServerState(
            str(entry.get("status", "")), str(entry.get("error") or ""), names
        )
    return found


def _name_of(entry: Mapping[str, object]) -> str:
    command = entry.get("command")
    words = str(command).replace("\\", "/").rsplit("/", 1)[-1] if command else _NAMELESS
    return words.partition(".")[0] or _NAMELESS
