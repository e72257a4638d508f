"""The declared tools as the parser asks about them: is this a name, may it become one, what types.

Tools are looked up by name while the name is still arriving, so the table answers "may this become
a declared name" in O(log n) instead of comparing with each of up to 512 tools per character.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence

from engine.text.events import ToolSpec
from engine.text.schema_kinds import (
    Kinds,
    allowed_kinds,
    declared_parameters,
    kind_of,
    required_parameters,
)

NAMESPACE = "functions."  # the one prefix that is stripped from a tool's name (M22)


class NameSet:
    """A set of names that also answers prefix questions."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = frozenset(names)
        self._sorted = sorted(self._names)

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def __len__(self) -> int:
        return len(self._sorted)

    def may_start(self, head: str) -> bool:
        """True when some name starts with `head`."""
        idx = bisect_left(self._sorted, head)
        return idx < len(self._sorted) and self._sorted[idx].startswith(head)


class ToolShape:
    """One tool: its parameters, which are required, and the types that each may have.

    Attributes:
        name: the declared name.
        parameters: the declared parameter names.
        required: the parameters without which a call is not complete.
    """

    def __init__(self, spec: ToolSpec) -> None:
        self.name = spec.name
        self._root = spec.parameters
        self._schemas = declared_parameters(spec.parameters)
        self._kinds: dict[str, Kinds] = {}
        self.parameters = NameSet(self._schemas)
        self.required = required_parameters(spec.parameters)

    def kinds(self, parameter: str) -> Kinds | None:
        """The types that the schema allows for a parameter; None when it is not declared."""
        if parameter not in self._schemas:
            return None
        kinds = self._kinds.get(parameter)
        if kinds is None:
            kinds = allowed_kinds(self._schemas[parameter], self._root)
            self._kinds[parameter] = kinds
        return kinds

    def may_take(self, arguments: Mapping[str, object]) -> bool:
        """Whether nothing that is required lacks, and each value is of a type and a choice allowed.

        Not a validation: what a schema says beyond that is not looked at.
        """
        if not self.required <= arguments.keys():
            return False
        return all(self._may_be(name, value) for name, value in arguments.items())

    def _may_be(self, parameter: str, value: object) -> bool:
        kinds, schema = self.kinds(parameter), self._schemas.get(parameter)
        if kinds is None:
            return True
        choices = schema.get("enum") if isinstance(schema, Mapping) else None
        is_choice = not isinstance(choices, list) or value in choices
        return kind_of(value) in kinds and is_choice


class ToolTable:
    """All declared tools; names are matched exactly, after one leading `functions.` (M22)."""

    def __init__(self, tools: Sequence[ToolSpec]) -> None:
        self._specs = {spec.name: spec for spec in reversed(tools)}
        self._names = NameSet(self._specs)
        self._shapes: dict[str, ToolShape] = {}

    def __bool__(self) -> bool:
        return bool(self._specs)

    def lookup(self, written: str) -> ToolShape | None:
        """The tool that the model's spelling names, or None when it names none."""
        name = written if written in self._names else written.removeprefix(NAMESPACE)
        if name not in self._names:
            return None
        shape = self._shapes.get(name)
        if shape is None:
            shape = ToolShape(self._specs[name])
            self._shapes[name] = shape
        return shape

    def may_become_name(self, head: str) -> bool:
        """True when `head` may still grow into the spelling of a declared tool."""
        if self._names.may_start(head) or NAMESPACE.startswith(head):
            return True
        return head.startswith(NAMESPACE) and self._names.may_start(head.removeprefix(NAMESPACE))
