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
from engine.text.output_rules import ANY_TOOL, ToolChoice

MAX_TOOLS = 512
TOOL_NAME = re.compile(r"[A-Za-z0-9_.:-]{1,128}")
FLAT_KEYS = ("name", "description", "parameters", "strict")


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
    parallel = body.boolean("parallel_tool_calls")
    wanted = _calls_wanted(body, frozenset(specs))
    return ToolUse(
        rendered=tuple(rendered),
        specs=tuple(specs.values()) if wanted else (),
        parallel=parallel is not False,
    )


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
    name = function.required_string("name")
    if not TOOL_NAME.fullmatch(name):
        raise invalid_value(
            function.at("name"), "must be 1 to 128 letters, digits or any of _ . : -"
        )
    function.string("description")
    function.boolean("strict")
    parameters = function.table("parameters")
    schema = parameters.data if parameters is not None else {"type": "object", "properties": {}}
    return {"type": "function", "function": dict(function.data)}, ToolSpec(name, schema)


def _calls_wanted(body: Fields, names: frozenset[str]) -> bool:
    """Whether the model may call tools; a choice that forces a call is not possible yet."""
    choice = body.get("tool_choice")
    if choice is None or choice == "auto":
        return bool(names)
    if choice == "none":
        return False
    if isinstance(choice, str):
        if choice not in ("required", "any"):
            raise invalid_value("tool_choice", "must be auto, none, required or a function")
        if not names:
            raise invalid_value("tool_choice", f"is {choice}, but no tools are declared")
        raise unsupported_value("tool_choice", f"can not be {choice} yet; use auto or none")
    if not isinstance(choice, dict):
        raise invalid_type("tool_choice", "a string or an object", choice)
    table = Fields(choice, "tool_choice")
    kind = table.string("type")
    if kind == "function":
        function = table if table.get("name") is not None else table.table("function")
        if function is None:
            raise missing("tool_choice.function")
        name = function.required_string("name")
        if name not in names:
            reason = f"is {shortened(name)}, which tools does not declare"
            raise invalid_value(function.at("name"), reason)
    elif kind != "allowed_tools":
        raise invalid_value("tool_choice.type", "must be function or allowed_tools")
    raise unsupported_value("tool_choice", "can not force a function yet; use auto or none")
