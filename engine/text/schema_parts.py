"""A client's JSON schema made self-contained and safe to compile, and what stands in it.

Schemas come from clients and may be hostile. Only local references are followed; every walk has a
budget. The compiler of schemas is recursive, over nesting and references alike, and would take the
whole process with it: so no path may be longer than `MAX_PATH`, for which `deep_stack` has room.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping

from engine.core.errors import EngineError
from engine.text.schema_kinds import resolve_pointer

MAX_SCHEMA_BYTES = 256 * 1024
MAX_SCHEMA_NODES = 20_000
MAX_SCHEMA_DEPTH = 64  # nesting
# Nesting of the schema and of all that it refers to, which bounds every path through it. llguidance
# 1.9.1 ends the process between 100 and 200 levels per MiB of stack; measured 2026-11-30.
MAX_PATH = 2000

_ONE = ("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames")
_ONE_MORE = ("unevaluatedItems", "unevaluatedProperties", "additionalItems", "contentSchema")
_SINGLE = frozenset((*_ONE, *_ONE_MORE))  # keywords whose value is a schema
_LISTS = frozenset({"anyOf", "oneOf", "allOf", "prefixItems", "items"})  # ... a list of schemas
_NAMED = frozenset({"properties", "patternProperties", "dependentSchemas"})  # ... schemas by name
_DEFINITIONS = frozenset({"$defs", "definitions"})
_IDENTITIES = frozenset({"$id", "id", "$schema", "$anchor", "$comment"})
_COMBINED = frozenset({"allOf", "if", "dependentSchemas"})
_ALTERNATIVE = frozenset({"anyOf", "oneOf", "$ref"})
_ABOUT_KEYS = frozenset(
    ("additionalProperties", "patternProperties", "unevaluatedProperties", "propertyNames")
) | {"minProperties"}
_DYNAMIC = ("$dynamicRef", "$recursiveRef")

Schema = Mapping[str, object]


class SchemaError(EngineError):
    """A schema that cannot be enforced; the sentence starts with what it says about the schema.

    Attributes:
        tool: whose parameters it describes; None = the answer's format.
    """

    code = "invalid_schema"

    def __init__(self, message: str, tool: str | None = None) -> None:
        super().__init__(message)
        self.tool = tool


def self_contained(schema: object, root: object) -> dict[str, object]:
    """The schema with what it refers to in its own `$defs`, and nothing else of the root.

    >>> self_contained({"$ref": "#/x"}, {"x": {"type": "null"}})
    {'$ref': '#/$defs/d0', '$defs': {'d0': {'type': 'null'}}}

    Args:
        schema: a part of the root, or the root.
        root: what local references start from.

    Raises:
        SchemaError: a reference leaves the schema or names nothing, or the schema is too deep or
            too large.
    """
    return _Copy(root).all(schema)


def closed(schema: dict[str, object]) -> dict[str, object]:
    """The schema whose objects have the keys that it names, unless it says more about others.

    What this allows is valid under the schema as well, and a model that must end an object cannot
    go on for ever with keys of its own. Left alone where schemas are combined: there each part sees
    the keys of the others.
    """
    nodes = list(_nodes(schema))
    if any(_COMBINED & node.keys() for node in nodes):
        return schema
    if any("properties" in node and _ALTERNATIVE & node.keys() for node in nodes):
        return schema
    return _closed(schema)


def _closed(node: dict[str, object]) -> dict[str, object]:
    copied = _with_children(
        node, lambda child: _closed(child) if isinstance(child, dict) else child
    )
    names, required = node.get("properties"), node.get("required", [])
    if not isinstance(names, Mapping) or not names or _ABOUT_KEYS & node.keys():
        return copied
    if isinstance(required, list) and all(name in names for name in required):
        copied["additionalProperties"] = False
    return copied


def keywords(schema: object) -> Iterator[tuple[str, object]]:
    """Every keyword of every schema within `schema`, with its value; references are not followed."""
    for node in _nodes(schema):
        yield from node.items()


def _nodes(schema: object) -> Iterator[Schema]:
    """Every schema within this one, and itself."""
    stack: list[object] = [schema]
    while stack:
        node = stack.pop()
        if isinstance(node, Mapping):
            yield node
            stack.extend(_children(node))


def schema_text(schema: object) -> str:
    """The schema as JSON.

    Raises:
        SchemaError: it has more than 256 KiB.
    """
    text = json.dumps(schema, ensure_ascii=False, separators=(",", ":"))
    if len(text.encode("utf-8", errors="replace")) > MAX_SCHEMA_BYTES:
        raise SchemaError(f"has more than {MAX_SCHEMA_BYTES // 1024} KiB")
    return text


def _children(node: Schema) -> Iterator[object]:
    """The schemas directly below this one."""
    for key, value in node.items():
        if key in _NAMED | _DEFINITIONS and isinstance(value, Mapping):
            yield from value.values()
        elif key in _LISTS and isinstance(value, list | tuple):
            yield from value
        elif key in _SINGLE:
            yield value


def _with_children(node: Schema, change: Callable[[object], object]) -> dict[str, object]:
    """A copy with other schemas directly below it."""
    copied = dict(node)
    for key, value in node.items():
        if key in _NAMED | _DEFINITIONS and isinstance(value, Mapping):
            copied[key] = {name: change(child) for name, child in value.items()}
        elif key in _LISTS and isinstance(value, list | tuple):
            copied[key] = [change(child) for child in value]
        elif key in _SINGLE:
            copied[key] = change(value)
    return copied


class _Copy:
    """One self-contained copy under way."""

    def __init__(self, root: object) -> None:
        self._root = root
        self._names: dict[str, str] = {}  # of references, in `$defs` of the copy
        self._nodes_left = MAX_SCHEMA_NODES
        self._deepest = 0  # of the definition that is copied now
        self._path = 0

    def all(self, schema: object) -> dict[str, object]:
        copied = self._definition(schema)
        if not isinstance(copied, dict):
            no: dict[str, object] = {"not": {}}
            copied = {} if copied is True else no
        definitions: dict[str, object] = {}
        while len(definitions) < len(self._names):
            reference, name = list(self._names.items())[len(definitions)]
            target = resolve_pointer(self._root, reference)
            if not isinstance(target, Mapping | bool):
                raise SchemaError(f"refers to {reference[:80]!r}, which names no schema in it")
            definitions[name] = self._definition(target)
        if definitions:
            self._check_circles(definitions)
            copied["$defs"] = definitions
        return copied

    def _definition(self, schema: object) -> object:
        self._deepest = 0
        copied = self._node(schema, 0)
        self._path += self._deepest + 1
        if self._path > MAX_PATH:
            raise SchemaError("refers to too many schemas within it")
        return copied

    def _check_circles(self, definitions: Schema) -> None:
        """Refuse references that lead back to themselves by references alone."""
        for first in definitions:
            name, seen = first, {first}
            while isinstance(node := definitions[name], Mapping) and "$ref" in node:
                name = str(node["$ref"]).rpartition("/")[2]
                if name in seen:
                    raise SchemaError("refers to itself without saying anything")
                seen.add(name)

    def _node(self, node: object, depth: int) -> object:
        self._nodes_left -= 1
        self._deepest = max(self._deepest, depth)
        if self._nodes_left < 0:
            raise SchemaError(f"has more than {MAX_SCHEMA_NODES} parts")
        if depth > MAX_SCHEMA_DEPTH:
            raise SchemaError(f"is nested more than {MAX_SCHEMA_DEPTH} levels deep")
        if isinstance(node, bool):
            return node
        if not isinstance(node, Mapping):
            raise SchemaError("has something else than an object or a truth value for a schema")
        for key in _DYNAMIC:
            if key in node:
                raise SchemaError(f"uses {key}, which is not supported; use $ref")
        kept = {k: v for k, v in node.items() if k not in _DEFINITIONS | _IDENTITIES}
        copied = _with_children(kept, lambda child: self._node(child, depth + 1))
        if "$ref" in node:
            copied["$ref"] = self._reference(node["$ref"])
        return copied

    def _reference(self, reference: object) -> str:
        if not isinstance(reference, str):
            raise SchemaError("has a $ref that is not text")
        if not reference.startswith("#"):
            raise SchemaError(
                f"refers to {reference[:80]!r}; only references within the schema (#/...) are followed"
            )
        name = self._names.setdefault(reference, f"d{len(self._names)}")
        return f"#/$defs/{name}"
