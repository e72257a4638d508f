"""Tools that a request declares, and which of them it lets the model use (spec/api.md section 6).

Entries are kept as the client wrote them, in its order: they stand at the start of the prompt, and
the cache of earlier turns depends on every byte (spec/tools_format.md, T9).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from engine.core.strict_json import BadJsonError, parse_json
from engine.server.errors import (
    ApiError,
    invalid_type,
    invalid_value,
    missing,
    shortened,
    unsupported_parameter,
    unsupported_value,
)
from engine.server.fields import Fields, objects
from engine.text.events import ToolSpec
from engine.text.output_rules import ANY_TOOL, CallMode, ToolChoice

MAX_TOOLS = 512
TOOL_NAME = re.compile(r"[A-Za-z0-9_.:-]{1,128}")
FLAT_KEYS = ("name", "description", "parameters", "strict")
CALL_MODES = {
    "auto": CallMode.AUTO,
    "none": CallMode.NONE,
    "required": CallMode.REQUIRED,
    "any": CallMode.REQUIRED,
}


@dataclass(frozen=True, slots=True)
class ToolUse:
    """What a request says about tools.

    Attributes:
        rendered: the declarations for the chat template, in the nested OpenAI form.
        specs: names and schemas of the tools that may be called, for the answer parser.
        parallel: whether one answer may hold several calls.
        choice: which of the declared tools may or must be called.
        ignored: tools that the server does not have, left out of the prompt; named in a header.
    """

    rendered: tuple[dict[str, object], ...] = ()
    specs: tuple[ToolSpec, ...] = ()
    parallel: bool = True
    choice: ToolChoice = ANY_TOOL
    ignored: tuple[str, ...] = ()


def read_tools(body: Fields) -> ToolUse:
    """The tools of an OpenAI chat request.

    Raises:
        ApiError: 400 with the path of what is wrong.
    """
    for old in ("functions", "function_call"):
        if body.get(old) is not None:
            raise unsupported_parameter(old, "use tools and tool_choice")
    entries = decode_twice(body, "tools")
    if len(entries) > MAX_TOOLS:
        raise invalid_value("tools", f"may hold at most {MAX_TOOLS} tools")
    rendered: list[dict[str, object]] = []
    specs: dict[str, ToolSpec] = {}
    for entry in objects(entries, "tools"):
        tool, spec = _read_tool(entry)
        if spec.name in specs:
            raise invalid_value(entry.path, f"declares the name {spec.name} a second time")
        rendered.append(tool)
        specs[spec.name] = spec
    choice = read_tool_choice(body, frozenset(specs))
    return ToolUse(
        rendered=tuple(rendered),
        specs=tuple(spec for spec in specs.values() if choice.allows(spec.name)),
        parallel=body.boolean("parallel_tool_calls") is not False,
        choice=choice,
    )


def read_tool_choice(body: Fields, names: frozenset[str]) -> ToolChoice:
    """OpenAI's `tool_choice`, in the form of chat completions or that of responses.

    Args:
        body: of the request.
        names: the tools that are declared.

    Raises:
        ApiError: 400: it is none of the known forms, or names what is not declared.
    """
    value = body.get("tool_choice")
    path = body.at("tool_choice")
    if value is None:
        return ANY_TOOL
    if isinstance(value, str):
        return ToolChoice(_read_mode(value, path, names))
    if not isinstance(value, dict):
        raise invalid_type(path, "a string or an object", value)
    table = Fields(value, path)
    kind = table.required_string("type")
    if kind == "function":
        return ToolChoice(CallMode.REQUIRED, frozenset({_chosen_name(table, names)}))
    if kind != "allowed_tools":
        raise invalid_value(table.at("type"), "must be function or allowed_tools")
    table = table.table("allowed_tools") or table
    mode = _read_mode(table.string("mode") or "auto", table.at("mode"), names)
    entries = table.array("tools")
    if not entries:
        raise missing(table.at("tools"))
    allowed = frozenset(_chosen_name(entry, names) for entry in objects(entries, table.at("tools")))
    return ToolChoice(mode, allowed)


def _read_mode(word: str, path: str, names: frozenset[str]) -> CallMode:
    mode = CALL_MODES.get(word)
    if mode is None:
        raise invalid_value(path, "must be auto, none, required or a function")
    if mode is CallMode.REQUIRED and not names:
        raise invalid_value(path, f"is {word}, but no tools are declared")
    return mode


def _chosen_name(table: Fields, names: frozenset[str]) -> str:
    function = table if table.get("name") is not None else table.table("function")
    if function is None:
        raise missing(table.at("function"))
    name = function.required_string("name")
    if name not in names:
        reason = f"is {shortened(name)}, which tools does not declare"
        raise invalid_value(function.at("name"), reason)
    return name


def read_tool_name(table: Fields) -> str:
    """The name under which a tool is declared."""
    name = table.required_string("name")
    if not TOOL_NAME.fullmatch(name):
        raise invalid_value(table.at("name"), "must be 1 to 128 letters, digits or any of _ . : -")
    return name


def decode_twice(body: Fields, key: str) -> list[object]:
    """An array that some proxies send as a JSON string; empty when absent."""
    value = body.get(key)
    if isinstance(value, str):
        try:
            value = parse_json(value)
        except BadJsonError as error:
            reason = f"{key} must be an array; as a string it is not valid JSON: {error}."
            raise ApiError(400, "invalid_type", reason, param=key) from error
    if value is None:
        return []
    if not isinstance(value, list):
        raise invalid_type(key, "an array", value)
    return value


def _read_tool(entry: Fields) -> tuple[dict[str, object], ToolSpec]:
    kind = entry.string("type")
    if kind not in (None, "function"):
        raise unsupported_value(entry.at("type"), "must be function")
    function = entry.table("function")
    if function is None:
        if entry.get("name") is None:
            raise missing(entry.at("function"))
        function = Fields({key: entry.data[key] for key in FLAT_KEYS if key in entry.data})
        function.path = entry.path
    name = read_tool_name(function)
    function.string("description")
    is_strict = function.boolean("strict") is True
    parameters = function.table("parameters")
    schema = parameters.data if parameters is not None else {"type": "object", "properties": {}}
    tool: dict[str, object] = {"type": "function", "function": dict(function.data)}
    return tool, ToolSpec(name, schema, is_strict)
