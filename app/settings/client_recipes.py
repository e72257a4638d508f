"""Settings of other programs, ready to be copied, with the real address, key and context.

Pure texts in the forms of docs/clients.md; nothing here is translated, since files are read by programs.
"""

from __future__ import annotations

import enum
import json
from dataclasses import dataclass

PLACEHOLDER = "YOUR-KEY"
NO_KEY = "local"
_MOST_OUTPUT = 8192
_OUTPUT_SHARE = 4


class Client(enum.StrEnum):
    """Programs that there is a recipe for."""

    CLAUDE_CODE = "Claude Code"
    CODEX = "Codex"
    OPENCODE = "OpenCode"
    OPEN_WEBUI = "Open WebUI"
    PYTHON_OPENAI = "Python: openai"
    PYTHON_ANTHROPIC = "Python: anthropic"
    CURL = "curl"


@dataclass(frozen=True, slots=True)
class Engine:
    """What the recipes are filled with.

    Attributes:
        base_url: such as `http://127.0.0.1:8080`, without `/v1`.
        model: name under which the model is served.
        context: tokens that prompt and answer may have together.
        key: what is written for the key: the key itself, `YOUR-KEY`, or `local` when none is needed.
    """

    base_url: str
    model: str
    context: int
    key: str


@dataclass(frozen=True, slots=True)
class Piece:
    """One text to copy.

    Attributes:
        where: the file it goes into, or the program it is typed into; empty when it is plain.
        text: what is copied.
    """

    where: str
    text: str


def recipe(client: Client, engine: Engine, *, is_windows: bool) -> list[Piece]:
    """The texts for one program."""
    makers = {
        Client.CLAUDE_CODE: lambda: _claude_code(engine, is_windows=is_windows),
        Client.CODEX: lambda: _codex(engine, is_windows=is_windows),
        Client.OPENCODE: lambda: _opencode(engine),
        Client.OPEN_WEBUI: lambda: _open_webui(engine),
        Client.PYTHON_OPENAI: lambda: _python_openai(engine),
        Client.PYTHON_ANTHROPIC: lambda: _python_anthropic(engine),
        Client.CURL: lambda: _curl(engine, is_windows=is_windows),
    }
    return makers[client]()


def _claude_code(engine: Engine, *, is_windows: bool) -> list[Piece]:
    names = {
        "ANTHROPIC_BASE_URL": engine.base_url,
        "ANTHROPIC_AUTH_TOKEN": engine.key,
        "ANTHROPIC_MODEL": engine.model,
        "ANTHROPIC_DEFAULT_OPUS_MODEL": engine.model,
        "ANTHROPIC_DEFAULT_SONNET_MODEL": engine.model,
        "ANTHROPIC_DEFAULT_HAIKU_MODEL": engine.model,
        "CLAUDE_CODE_MAX_CONTEXT_TOKENS": str(engine.context),
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }
    kinds = ("png", "jpg", "jpeg", "gif", "webp", "pdf")
    denied = ["WebSearch", *(f"Read(**/*.{kind})" for kind in kinds)]
    settings = _json({"env": names, "permissions": {"deny": denied}})
    if is_windows:
        shell = "\n".join(f'$env:{name} = "{value}"' for name, value in names.items())
        return [Piece("~/.claude/settings.json", settings), Piece("PowerShell", shell)]
    lines = [f"export {name}={value}" for name, value in names.items()]
    shell = "\n".join([*lines, "unset ANTHROPIC_API_KEY"])
    return [Piece("~/.claude/settings.json", settings), Piece("Shell", shell)]


def _codex(engine: Engine, *, is_windows: bool) -> list[Piece]:
    catalog = "C:/Users/YOU/.codex/stratum.json" if is_windows else "/home/YOU/.codex/stratum.json"
    needs_key = engine.key != NO_KEY
    config = f"""\
model = "{engine.model}"
model_provider = "stratum"
model_catalog_json = "{catalog}"   # the file below; a full path
show_raw_agent_reasoning = true

[model_providers.stratum]
name = "Stratum"
base_url = "{engine.base_url}/v1"
wire_api = "responses"
stream_idle_timeout_ms = 600000
{"" if needs_key else "# "}env_key = "STRATUM_API_KEY"{"" if needs_key else "   # only when the server has a key"}

[features]
view_image = false
"""
    levels = {
        "none": "Answers at once",
        "low": "Thinks briefly",
        "medium": "Thinks",
        "high": "Thinks thoroughly",
    }
    model = {
        "slug": engine.model,
        "display_name": "Stratum",
        "description": "Runs on this computer.",
        "base_instructions": "You are a coding agent. Work on the task with your tools until it is done, "
        "then say briefly what you did.",
        "context_window": engine.context,
        "default_reasoning_level": "high",
        "supported_reasoning_levels": [
            {"effort": level, "description": words} for level, words in levels.items()
        ],
        "shell_type": "unified_exec",
        "apply_patch_tool_type": "freeform",
        "input_modalities": ["text"],
        "truncation_policy": {"mode": "tokens", "limit": 10000},
        "supports_parallel_tool_calls": True,
        "supports_reasoning_summaries": False,
        "support_verbosity": False,
        "supported_in_api": True,
        "visibility": "list",
        "priority": 1,
        "experimental_supported_tools": [],
    }
    pieces = [
        Piece("~/.codex/config.toml", config),
        Piece("~/.codex/stratum.json", _json({"models": [model]})),
    ]
    if needs_key:
        name = "STRATUM_API_KEY"
        line = f'$env:{name} = "{engine.key}"' if is_windows else f"export {name}={engine.key}"
        pieces.append(Piece("PowerShell" if is_windows else "Shell", line))
    return pieces


def _opencode(engine: Engine) -> list[Piece]:
    model = {
        "name": "Stratum",
        "reasoning": True,
        "tool_call": True,
        "limit": {"context": engine.context, "output": output_limit(engine.context)},
        "options": {"reasoningEffort": "medium"},
    }
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "Stratum",
        "options": {"baseURL": f"{engine.base_url}/v1", "apiKey": engine.key},
        "models": {engine.model: model},
    }
    config = {
        "$schema": "https://opencode.ai/config.json",
        "model": f"stratum/{engine.model}",
        "provider": {"stratum": provider},
    }
    return [Piece("~/.config/opencode/opencode.json", _json(config))]


def _open_webui(engine: Engine) -> list[Piece]:
    return [Piece("URL", f"{engine.base_url}/v1"), Piece("API key", engine.key)]


def _python_openai(engine: Engine) -> list[Piece]:
    text = f"""\
from openai import OpenAI

client = OpenAI(base_url="{engine.base_url}/v1", api_key="{engine.key}")
answer = client.chat.completions.create(
    model="{engine.model}", messages=[{{"role": "user", "content": "Hello"}}]
)
print(answer.choices[0].message.content)
"""
    return [Piece("pip install openai", text)]


def _python_anthropic(engine: Engine) -> list[Piece]:
    text = f"""\
from anthropic import Anthropic

client = Anthropic(base_url="{engine.base_url}", api_key="{engine.key}")
answer = client.messages.create(
    model="{engine.model}", max_tokens=1024, messages=[{{"role": "user", "content": "Hello"}}]
)
print(answer.content[0].text)
"""
    return [Piece("pip install anthropic", text)]


def _curl(engine: Engine, *, is_windows: bool) -> list[Piece]:
    body = json.dumps({"messages": [{"role": "user", "content": "Hello"}]})
    quoted = '"' + body.replace('"', '\\"') + '"' if is_windows else f"'{body}'"
    key = f' -H "Authorization: Bearer {engine.key}"' if engine.key != NO_KEY else ""
    curl = "curl.exe" if is_windows else "curl"
    text = f'{curl} {engine.base_url}/v1/chat/completions -H "Content-Type: application/json"{key} -d {quoted}'
    return [Piece("Shell" if not is_windows else "cmd", text)]


def output_limit(context: int) -> int:
    """How much a program should ask for at most: a quarter of the context, within reason."""
    return min(_MOST_OUTPUT, max(256, context // _OUTPUT_SHARE))


def _json(content: object) -> str:
    return json.dumps(content, ensure_ascii=False, indent=2) + "\n"
