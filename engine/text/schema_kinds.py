"""Which JSON types a tool's schema allows for a parameter, and which parameters it declares.

Schemas come from clients and may be hostile: references in circles, branches without end. Every
walk has a budget of nodes and depth; what is beyond it counts as "any type". Only local references
(`#/...`) are followed. Nothing is validated here: this serves the typing of values (T12).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import TypeGuard
from urllib.parse import unquote

MAX_NODES = 2000  # schema nodes visited for one question; real tools stay below 100
MAX_DEPTH = 40  # below the interpreter's recursion limit with room for the caller


class JsonKind(Enum):
    """A JSON type. `number` in a schema is both INTEGER and NUMBER."""

    STRING = "string"
    INTEGER = "integer"
    NUMBER = "number"
    BOOLEAN = "boolean"
    NULL = "null"
    OBJECT = "object"
    ARRAY = "array"


Kinds = frozenset[JsonKind]

ALL_KINDS: Kinds = frozenset(JsonKind)
ONLY_STRING: Kinds = frozenset({JsonKind.STRING})

_BY_TYPE: dict[str, Kinds] = {kind.value: frozenset({kind}) for kind in JsonKind}
_BY_TYPE["number"] = frozenset({JsonKind.INTEGER, JsonKind.NUMBER})


def allowed_kinds(schema: object, root: object) -> Kinds:
    """The JSON types that `schema` allows; all of them when it says nothing usable.

    Args:
        schema: the parameter's schema, part of `root`.
        root: the tool's whole schema, which local references start from.
    """
    kinds = _KindWalk(root).kinds(schema, 0, frozenset())
    return kinds or ALL_KINDS


def kind_of(value: object) -> JsonKind:
    """The JSON type of a decoded JSON value; a whole float is a NUMBER."""
    if value is None:
        return JsonKind.NULL
    if isinstance(value, bool):
        return JsonKind.BOOLEAN
    if isinstance(value, int):
        return JsonKind.INTEGER
    if isinstance(value, float):
        return JsonKind.NUMBER
    if isinstance(value, str):
        return JsonKind.STRING
    return JsonKind.OBJECT if isinstance(value, Mapping) else JsonKind.ARRAY


def declared_parameters(root: object) -> dict[str, object]:
    """Every parameter that the tool's schema names, with its schema; the first mention counts."""
    found: dict[str, object] = {}
    for node in _object_nodes(root, ("allOf", "anyOf", "oneOf")):
        properties = node.get("properties")
        if isinstance(properties, Mapping):
            for name, schema in properties.items():
                if isinstance(name, str):
                    found.setdefault(name, schema)
    return found


def required_parameters(root: object) -> frozenset[str]:
    """The parameters that every valid call of the tool has."""
    names: set[str] = set()
    for node in _object_nodes(root, ("allOf",)):
        required = node.get("required")
        if _is_list(required):
            names.update(name for name in required if isinstance(name, str))
    return frozenset(names)


def resolve_pointer(root: object, pointer: str) -> object | None:
    """What a local reference such as `#/$defs/Path` names, or None when it names nothing."""
    if not pointer.startswith("#"):
        return None
    node = root
    for part in unquote(pointer[1:]).split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(node, Mapping):
            node = node.get(key)
        elif _is_list(node) and key.isascii() and key.isdigit() and len(key) < 7:
            node = node[int(key)] if int(key) < len(node) else None
        else:
            return None
    return node


def _is_list(value: object) -> TypeGuard[Sequence[object]]:
    return isinstance(value, list | tuple)


def _object_nodes(root: object, combiners: tuple[str, ...]) -> Iterator[Mapping[str, object]]:
    """The schema nodes that together describe the arguments object, the root first."""
    stack: list[object] = [root]
    followed: set[str] = set()
    for _ in range(MAX_NODES):
        if not stack:
            return
        node = stack.pop()
        if not isinstance(node, Mapping):
            continue
        yield node
        for key in reversed(combiners):
            branches = node.get(key)
            if _is_list(branches):
                stack.extend(reversed(branches[:MAX_NODES]))
        reference = node.get("$ref")
        if isinstance(reference, str) and reference not in followed:
            followed.add(reference)
            stack.append(resolve_pointer(root, reference))


class _KindWalk:
    """One question about one schema, with the budget that is left for it."""

    def __init__(self, root: object) -> None:
        self._root = root
        self._nodes_left = MAX_NODES

    def kinds(self, schema: object, depth: int, following: frozenset[str]) -> Kinds | None:
        """Allowed types; None when a reference in a circle says nothing of its own."""
        if schema is False:
            return frozenset()
        self._nodes_left -= 1
        if not isinstance(schema, Mapping) or self._nodes_left < 0 or depth > MAX_DEPTH:
            return ALL_KINDS
        reference = schema.get("$ref")
        if isinstance(reference, str) and reference in following:
            return None
        limits = [*_stated(schema), *self._combined(schema, depth, following)]
        if isinstance(reference, str):
            target = resolve_pointer(self._root, reference)
            limits.append(self.kinds(target, depth + 1, following | {reference}))
        known = [limit for limit in limits if limit is not None]
        if not known:
            return None if limits else _implied(schema)
        result = known[0].intersection(*known[1:])
        return result | {JsonKind.NULL} if schema.get("nullable") is True else result

    def _combined(
        self, schema: Mapping[str, object], depth: int, following: frozenset[str]
    ) -> Iterator[Kinds | None]:
        for key in ("anyOf", "oneOf"):
            branches = schema.get(key)
            if _is_list(branches):
                union: Kinds = frozenset()
                for branch in branches:
                    union |= self.kinds(branch, depth + 1, following) or frozenset()
                    if self._nodes_left < 0:
                        break
                yield union or None
        branches = schema.get("allOf")
        if _is_list(branches):
            for branch in branches[:MAX_NODES]:
                yield self.kinds(branch, depth + 1, following)


def _stated(schema: Mapping[str, object]) -> Iterator[Kinds]:
    """The types that the node itself states, keyword by keyword."""
    stated = schema.get("type")
    names = list(stated) if _is_list(stated) else [stated]
    kinds: Kinds = frozenset().union(
        *(_BY_TYPE.get(name, frozenset()) for name in names if isinstance(name, str))
    )
    if kinds:
        yield kinds
    values = schema.get("enum")
    if _is_list(values) and values:
        yield frozenset().union(*(_kinds_of_constant(value) for value in values))
    if "const" in schema:
        yield _kinds_of_constant(schema["const"])


def _kinds_of_constant(value: object) -> Kinds:
    if isinstance(value, float) and value.is_integer():
        return _BY_TYPE["number"]
    return frozenset({kind_of(value)})


def _implied(schema: Mapping[str, object]) -> Kinds:
    """The type meant by a node that only describes members or items."""
    if "properties" in schema or "additionalProperties" in schema:
        return _BY_TYPE["object"]
    return _BY_TYPE["array"] if "items" in schema else ALL_KINDS
