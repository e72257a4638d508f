"""The tools of a Responses request (spec/api.md sections 6 and 9.2).

The model knows functions only, so what the client declares is shown to it as functions:

    {"type": "function", "name": "now"}                     now
    {"type": "namespace", "name": "git", "tools": [...]}    git.log, git.show, ...
    {"type": "custom", "name": "apply_patch"}               apply_patch, with one string `input`

and what the model calls is given back in the client's terms (`find`). Tools that OpenAI hosts are
left out and named in the header `x-ignored-tools`: agents declare them whether they use them or not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from engine.server.errors import invalid_value, missing
from engine.server.fields import Fields, objects
from engine.server.responses_custom import PARAMETER
from engine.server.tool_fields import (
    FLAT_KEYS,
    MAX_TOOLS,
    TOOL_NAME,
    ToolUse,
    decode_twice,
    read_tool_choice,
    read_tool_name,
)
from engine.text.events import ToolSpec

JsonObject = dict[str, object]

# The type of a tool that we do not have; it goes into a header.
TYPE_NAME = re.compile(r"[A-Za-z0-9_.:-]{1,64}")


@dataclass(frozen=True, slots=True)
class DeclaredTool:
    """A tool as the client knows it.

    Attributes:
        name: without its namespace.
        namespace: None for a tool that stands alone.
        is_custom: called with free text, not with JSON arguments.
    """

    name: str
    namespace: str | None = None
    is_custom: bool = False

    @property
    def shown_name(self) -> str:
        """The name under which the model knows it."""
        return shown_name(self.namespace, self.name)


@dataclass(frozen=True, slots=True)
class ResponsesTools:
    """What a request declares.

    Attributes:
        use: for the prompt and the sampler.
        by_shown_name: the declared tools.
        echoed: the tools in effect, as the client wrote them.
    """

    use: ToolUse
    by_shown_name: Mapping[str, DeclaredTool]
    echoed: tuple[object, ...]

    def find(self, name: str) -> DeclaredTool:
        """The tool that the model called; the answer parser lets only declared ones through."""
        return self.by_shown_name.get(name) or DeclaredTool(name)


@dataclass(frozen=True, slots=True)
class _Entry:
    """One function for the model."""

    tool: DeclaredTool
    rendered: JsonObject
    spec: ToolSpec


def shown_name(namespace: str | None, name: str) -> str:
    """What the model calls a tool of a namespace."""
    return f"{namespace}.{name}" if namespace else name


def read_responses_tools(body: Fields) -> ResponsesTools:
    """The tools of a request, and which of them the model may or must call.

    Raises:
        ApiError: 400 with the path of what is wrong.
    """
    entries: dict[str, _Entry] = {}
    echoed: list[object] = []
    ignored: dict[str, None] = {}
    for table in objects(decode_twice(body, "tools"), "tools"):
        kind = table.string("type") or "function"
        if not _is_ours(kind):
            ignored[_hosted_name(table, kind)] = None
            continue
        echoed.append(table.data)
        for path, entry in _entries(table, kind, ignored):
            name = entry.tool.shown_name
            if name in entries:
                raise invalid_value(path, f"declares the name {name} a second time")
            entries[name] = entry
    if len(entries) > MAX_TOOLS:
        raise invalid_value("tools", f"may hold at most {MAX_TOOLS} tools")
    choice = read_tool_choice(_with_shown_choice(body), frozenset(entries))
    use = ToolUse(
        rendered=tuple(entry.rendered for entry in entries.values()),
        specs=tuple(entry.spec for name, entry in entries.items() if choice.allows(name)),
        parallel=body.boolean("parallel_tool_calls") is not False,
        choice=choice,
        ignored=tuple(ignored),
    )
    return ResponsesTools(use, {n: entry.tool for n, entry in entries.items()}, tuple(echoed))


def _is_ours(kind: str) -> bool:
    return kind in ("function", "custom", "namespace")


def _hosted_name(table: Fields, kind: str) -> str:
    if not TYPE_NAME.fullmatch(kind):
        raise invalid_value(table.at("type"), "is no type of tool")
    return kind


def _entries(table: Fields, kind: str, ignored: dict[str, None]) -> Iterator[tuple[str, _Entry]]:
    """The functions that one declaration stands for, each with its path."""
    if kind != "namespace":
        yield table.path, _read_entry(table, kind, None)
        return
    namespace = read_tool_name(table)
    about = table.string("description")
    inner = table.array("tools")
    if inner is None:
        raise missing(table.at("tools"))
    for tool in objects(inner, table.at("tools")):
        inner_kind = tool.string("type") or "function"
        if inner_kind in ("function", "custom"):
            yield tool.path, _read_entry(tool, inner_kind, namespace, about)
            about = None  # told once, with the first of them
        else:
            ignored[_hosted_name(tool, inner_kind)] = None


def _read_entry(
    table: Fields, kind: str, namespace: str | None, about: str | None = None
) -> _Entry:
    nested = table.table("function")  # as in chat completions
    table = table if nested is None else nested
    tool = DeclaredTool(read_tool_name(table), namespace, is_custom=kind == "custom")
    if not TOOL_NAME.fullmatch(tool.shown_name):
        raise invalid_value(table.at("name"), "and its namespace may have 127 letters together")
    table.string("description")
    is_strict = table.boolean("strict") is True
    function = {key: table.data[key] for key in FLAT_KEYS if key in table.data}
    if tool.is_custom:
        function = {"name": "", "description": table.data.get("description") or ""}
        function["parameters"] = _custom_parameters(table)
    function["name"] = tool.shown_name
    if about:
        own = str(function.get("description") or "")
        function["description"] = f"{own}\n\nAbout all tools named {namespace}.*: {about}".lstrip()
    schema = Fields(function, table.path).table("parameters")
    parameters = {"type": "object", "properties": {}} if schema is None else schema.data
    rendered: JsonObject = {"type": "function", "function": function}
    return _Entry(tool, rendered, ToolSpec(tool.shown_name, parameters, is_strict))


def _custom_parameters(table: Fields) -> JsonObject:
    """One string; a grammar is told to the model (inside free text nothing can be enforced)."""
    text: JsonObject = {"type": "string"}
    form = table.table("format")
    if form is not None:
        kind = form.choice("type", ("text", "grammar"))
        if kind == "grammar":
            syntax = form.required_string("syntax")
            definition = form.required_string("definition")
            text["description"] = f"Text of this grammar ({syntax}):\n{definition}"
    return {"type": "object", "properties": {PARAMETER: text}, "required": [PARAMETER]}


def _with_shown_choice(body: Fields) -> Fields:
    """The body with a `tool_choice` that speaks of functions under the names the model knows."""
    choice = body.get("tool_choice")
    if not isinstance(choice, dict):
        return body
    table = Fields(choice, "tool_choice")
    if table.get("type") != "allowed_tools":
        return Fields({**body.data, "tool_choice": _shown_choice(table)})
    if isinstance(choice.get("allowed_tools"), dict):
        return body
    entries = [
        _shown_choice(tool)
        for tool in objects(table.array("tools") or [], "tool_choice.tools")
        if _is_ours(tool.string("type") or "function")
    ]
    return Fields({**body.data, "tool_choice": {**choice, "tools": entries}})


def _shown_choice(table: Fields) -> JsonObject:
    name, namespace = table.string("name"), table.string("namespace")
    kind = table.required_string("type")
    if name is None or kind not in ("function", "custom"):
        if not _is_ours(kind) and kind != "allowed_tools":
            raise invalid_value(table.at("type"), "must be a tool that is declared")
        return dict(table.data)
    return {"type": "function", "name": shown_name(namespace, name)}
