r"""Grammars of values: a parameter of a call, or a whole answer that is JSON.

A parameter's value is raw text where its schema allows any string, and then needs no grammar: only
its end is looked for. Otherwise it is JSON, or one of a few texts (an enum), and a grammar describes
it up to the closing tag and the newline behind that. Grammars are texts in llguidance's Lark dialect;
each is compiled once here to see whether it can be.

    enum ["red", "blue"]     start: (v0 | v1) "\n</parameter>\n"      v0: "red"      v1: "blue"
    integer                  start: (v0) "\n</parameter>\n"           v0: %json {"type": "integer"}
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from llguidance import LLMatcher

from engine.core import deep_stack
from engine.text.raw_strings import STRING_LIMITS, NotEnforceableError, raw_string_terminal
from engine.text.schema_kinds import (
    ONLY_STRING,
    JsonKind,
    Kinds,
    allowed_kinds,
    declared_parameters,
    required_parameters,
    resolve_pointer,
)
from engine.text.schema_parts import SchemaError, closed, keywords, self_contained
from engine.text.values import argument_json
from engine.worker.messages import ParameterRule

VALUE_END = "\n</parameter>\n"
DOCUMENT_START = "start: %json "  # of a document's grammar; its schema follows
COMPILE_PROCESSOR_S = 5.0
COMPILE_TIMEOUT_S = 60.0  # on a machine that is busy with something else
MAX_BRANCHES = 64
MAX_REFERENCES = 16
_REMEMBERED = 1024  # schemas of tools: an agent sends the same ones with each request

# Between the tokens of a JSON text: one newline with an indent, or a run of blanks. Models that may
# write any white space go on with it for ever.
MAX_BLANKS = 20
WHITE_SPACE = rf"\n[ ]{{0,{MAX_BLANKS}}}|[ ]{{1,{MAX_BLANKS}}}"
_OPTIONS = {"whitespace_flexible": True, "whitespace_pattern": WHITE_SPACE}

_RULES_OF_OBJECTS = frozenset(
    (
        *("anyOf", "oneOf", "not", "if", "then", "else", "dependentRequired", "dependentSchemas"),
        *("dependencies", "minProperties", "maxProperties", "propertyNames"),
    )
)
_LISTED_KEYS = re.compile(r"^Unimplemented keys: (\[.*?\])(?: \(\d+ times\))?$")
# What warnings that list no keywords are about.
_WARNINGS = (
    ("oneOf", ("oneOf",)),
    ("min/maxProperties", ("minProperties", "maxProperties")),
    ("format", ("format",)),
)


@dataclass(frozen=True, slots=True)
class ParameterRules:
    """The parameters of a tool, and the keywords of its schema that are not enforced."""

    parameters: tuple[ParameterRule, ...]
    ignored: frozenset[str]


@dataclass(frozen=True, slots=True)
class ValueGrammar:
    """A grammar (empty: raw text) and the keywords that it does not enforce."""

    grammar: str
    ignored: frozenset[str] = frozenset()


@functools.lru_cache(maxsize=64)
def document_grammar(text: str, *, is_strict: bool) -> ValueGrammar:
    """The grammar of one JSON value of the schema that `text` spells.

    Raises:
        SchemaError: it cannot be enforced.
    """
    schema = json.loads(text)
    return _json_grammar(self_contained(schema, schema), is_strict=is_strict)


@functools.lru_cache(maxsize=_REMEMBERED)
def parameter_rules(text: str, *, is_strict: bool) -> ParameterRules:
    """The rules of a tool's parameters, whose schema `text` spells, in the order of its properties.

    Raises:
        SchemaError: a strict schema cannot be enforced.
    """
    root = json.loads(text)
    required = required_parameters(root)
    ignored = set(_RULES_OF_OBJECTS & root.keys())
    if ignored and is_strict:
        raise SchemaError(f"uses {min(ignored)}, which cannot be enforced on parameters")
    rules: list[ParameterRule] = []
    for name, schema in declared_parameters(root).items():
        if not name or any(char in name for char in "<>\r\n"):
            continue  # `<parameter=NAME>` cannot spell it
        made = _Parameter(schema, root, is_strict=is_strict).grammar()
        ignored |= made.ignored
        rules.append(ParameterRule(name, name in required, made.grammar))
    return ParameterRules(tuple(rules), frozenset(ignored))


class _Parameter:
    """One parameter's schema on its way to a grammar."""

    def __init__(self, schema: object, root: object, *, is_strict: bool) -> None:
        self._schema = schema
        self._root = root
        self._is_strict = is_strict
        self._kinds = allowed_kinds(schema, root)
        self._ignored: set[str] = set()

    def grammar(self) -> ValueGrammar:
        """The grammar of the value and its end.

        Raises:
            SchemaError: the schema is strict and cannot be enforced.
        """
        try:
            return self._grammar(self._schema)
        except SchemaError:
            if self._is_strict:
                raise
        # The client did not ask for more than calls that can be read.
        found = frozenset(key for key, _ in keywords(self._schema)) - {"type"}
        if JsonKind.STRING in self._kinds:
            return ValueGrammar("", found)
        types: dict[str, object] = {"type": sorted(kind.value for kind in self._kinds)}
        return ValueGrammar(_compiled(_framed([_json_rule(types)]), is_strict=False)[0], found)

    def _grammar(self, schema: object) -> ValueGrammar:
        rules = list(self._alternatives(schema, 0))
        if "" in rules:
            return ValueGrammar("", frozenset(self._ignored))
        if not rules:
            raise SchemaError("allows no value that a call could spell")
        grammar, ignored = _compiled(_framed(rules), is_strict=self._is_strict)
        return ValueGrammar(grammar, ignored | self._ignored)

    def _alternatives(self, schema: object, depth: int) -> Iterator[str]:
        """Bodies of rules, one of which the value follows; an empty one is any text."""
        node = self._resolved(schema)
        constants = _constants(node)
        branches = node.get("anyOf", node.get("oneOf"))
        is_union = isinstance(branches, list) and 0 < len(branches) <= MAX_BRANCHES
        if constants is not None:
            yield from self._literals(constants)
        elif JsonKind.STRING not in (kinds := allowed_kinds(node, self._root)):
            yield _json_rule(self_contained(node, self._root))
        elif is_union and depth < MAX_REFERENCES and isinstance(branches, list):
            for branch in branches:
                yield from self._alternatives(branch, depth + 1)
        else:
            yield self._raw(node, kinds)

    def _raw(self, node: Mapping[str, object], kinds: Kinds) -> str:
        limits = STRING_LIMITS & node.keys()
        if limits and self._is_strict and kinds == ONLY_STRING:
            try:
                return raw_string_terminal(node)
            except NotEnforceableError as error:
                raise SchemaError(f"has a {error} of a form that cannot be enforced") from error
        if self._is_strict and "not" in node:
            raise SchemaError("uses not, which cannot be enforced")
        self._ignored |= limits
        return ""

    def _literals(self, constants: list[object]) -> Iterator[str]:
        for value in constants:
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            # What would be read back as something else is no way to write this value.
            is_read_back = argument_json(text, self._kinds) == argument_json(
                json.dumps(value, ensure_ascii=False), frozenset(JsonKind) - {JsonKind.STRING}
            )
            if is_read_back and "</parameter>" not in text:
                yield json.dumps(text, ensure_ascii=False)

    def _resolved(self, schema: object) -> Mapping[str, object]:
        """The schema behind references that stand alone."""
        for _ in range(MAX_REFERENCES):
            if not isinstance(schema, Mapping):
                return {}
            reference = schema.get("$ref")
            if not isinstance(reference, str) or schema.keys() - {"$ref", "description", "title"}:
                return schema
            schema = resolve_pointer(self._root, reference)
        raise SchemaError("refers to itself without saying anything")


def _constants(node: Mapping[str, object]) -> list[object] | None:
    """The values of a schema that lists them."""
    if "const" in node:
        return [node["const"]]
    values = node.get("enum")
    if not isinstance(values, list) or not values:
        return None
    return [*values, None] if node.get("nullable") is True and None not in values else values


def _json_rule(schema: dict[str, object]) -> str:
    return "%json " + _schema_text(schema)


def _schema_text(schema: dict[str, object]) -> str:
    options = {**_OPTIONS, "lenient": True}
    return json.dumps({**closed(schema), "x-guidance": options}, ensure_ascii=False)


def _framed(rules: list[str]) -> str:
    names = [f"v{i}" for i in range(len(rules))]
    lines = [f"start: ({' | '.join(names)}) {json.dumps(VALUE_END)}"]
    for name, body in zip(names, rules, strict=True):
        is_terminal = body.startswith(("/", "~"))
        lines += (
            [f"{name}: {name.upper()}", f"{name.upper()}: {body}"]
            if is_terminal
            else [f"{name}: {body}"]
        )
    return "\n".join(lines)


def _json_grammar(schema: dict[str, object], *, is_strict: bool) -> ValueGrammar:
    grammar, ignored = _compiled(DOCUMENT_START + _schema_text(schema), is_strict=is_strict)
    return ValueGrammar(grammar, ignored)


def _compiled(grammar: str, *, is_strict: bool) -> tuple[str, frozenset[str]]:
    """The grammar, known to compile, and the keywords that it passes over.

    Raises:
        SchemaError: it does not compile, or passes over one although it is strict.
    """
    try:
        is_error, messages = deep_stack.call(
            lambda: LLMatcher.validate_grammar_with_warnings(grammar),
            timeout_s=COMPILE_TIMEOUT_S,
            processor_s=COMPILE_PROCESSOR_S,
        )
    except TimeoutError as error:
        raise SchemaError("is too complicated to be enforced") from error
    if is_error:
        if "not JSON serializable" in messages[0]:
            raise SchemaError("has text that is no Unicode (half of a surrogate pair)")
        reason = (messages[0].splitlines() or [""])[0]
        raise SchemaError(f"cannot be enforced ({reason[:200]})")
    ignored = frozenset(name for message in messages for name in _named(message))
    if ignored and is_strict:
        raise SchemaError(f"uses {', '.join(sorted(ignored))}, which cannot be enforced")
    return grammar, ignored


def _named(warning: str) -> tuple[str, ...]:
    """The keywords that a warning is about."""
    listed = _LISTED_KEYS.match(warning)
    if listed is not None:
        return tuple(str(name) for name in json.loads(listed[1]))
    for part, names in _WARNINGS:
        if part in warning:
            return names
    return ()
