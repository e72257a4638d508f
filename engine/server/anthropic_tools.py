"""Tools of `/v1/messages`: declarations and choice (spec/api.md sections 6 and 9.3).

Only tools that the client runs are declared to the model. Anthropic's own (`web_search_20250305` and
the like) have no schema that we know of; they are left out of the prompt and named in a header.
"""

from __future__ import annotations

from engine.server.errors import invalid_type, invalid_value, missing, shortened
from engine.server.fields import Fields, objects
from engine.server.tool_fields import MAX_TOOLS, ToolUse, decode_twice, read_tool_name
from engine.text.events import ToolSpec
from engine.text.output_rules import ANY_TOOL, CallMode, ToolChoice

CUSTOM = "custom"
MAX_HEADER_CHARS = 64


def read_tools(body: Fields) -> ToolUse:
    """What a request says about tools.

    Raises:
        ApiError: 400 with the path of what is wrong.
    """
    entries = decode_twice(body, "tools")
    if len(entries) > MAX_TOOLS:
        raise invalid_value("tools", f"may hold at most {MAX_TOOLS} tools")
    rendered: list[dict[str, object]] = []
    specs: dict[str, ToolSpec] = {}
    ignored: list[str] = []
    for entry in objects(entries, "tools"):
        kind = entry.string("type")
        if kind not in (None, CUSTOM):
            ignored.append(_header_word(kind))
            continue
        tool, spec = _read_tool(entry)
        if spec.name in specs:
            raise invalid_value(entry.path, f"declares the name {spec.name} a second time")
        rendered.append(tool)
        specs[spec.name] = spec
    choice, is_single = _read_choice(body, frozenset(specs))
    return ToolUse(
        rendered=tuple(rendered),
        specs=tuple(spec for spec in specs.values() if choice.allows(spec.name)),
        parallel=not is_single,
        choice=choice,
        ignored=tuple(dict.fromkeys(ignored)),
    )


def _read_tool(entry: Fields) -> tuple[dict[str, object], ToolSpec]:
    """The declaration in the form that the template renders, always in the same order of keys.

    Hints such as `cache_control` wander from tool to tool between requests: they stay out of the
    prompt.
    """
    name = read_tool_name(entry)
    schema = entry.table("input_schema")
    if schema is None:
        raise missing(entry.at("input_schema"))
    function: dict[str, object] = {"name": name}
    description = entry.string("description")
    if description is not None:
        function["description"] = description
    function["parameters"] = dict(schema.data)
    spec = ToolSpec(name, schema.data, is_strict=entry.boolean("strict") or False)
    return {"type": "function", "function": function}, spec


def _read_choice(body: Fields, names: frozenset[str]) -> tuple[ToolChoice, bool]:
    """The choice, and whether at most one call is wanted."""
    value = body.get("tool_choice")
    if value is None:
        return ANY_TOOL, False
    if not isinstance(value, dict):
        raise invalid_type("tool_choice", "an object with a type", value)
    table = Fields(value, "tool_choice")
    kind = table.required_string("type")
    is_single = table.boolean("disable_parallel_tool_use") or False
    match kind:
        case "auto":
            return ANY_TOOL, is_single
        case "none":
            return ToolChoice(CallMode.NONE), is_single
        case "any":
            if not names:
                raise invalid_value("tool_choice", "is any, but no tools are declared")
            return ToolChoice(CallMode.REQUIRED), is_single
        case "tool":
            name = table.required_string("name")
            if name not in names:
                reason = f"is {shortened(name)}, which tools does not declare"
                raise invalid_value(table.at("name"), reason)
            return ToolChoice(CallMode.REQUIRED, frozenset({name})), is_single
    raise invalid_value(table.at("type"), "must be auto, any, tool or none")


def _header_word(kind: str | None) -> str:
    """A client's word, fit for a header."""
    word = "".join(c for c in kind or "" if c.isascii() and (c.isalnum() or c in "_.:-"))
    return word[:MAX_HEADER_CHARS] or "unnamed"
