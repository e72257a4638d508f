"""Typing of parameter values by schema: rules T12 to T14 of the tool format."""

from __future__ import annotations

import json
import time

import pytest

from engine.text.events import ToolSpec
from engine.text.schema_kinds import (
    ALL_KINDS,
    JsonKind,
    allowed_kinds,
    declared_parameters,
    required_parameters,
)
from engine.text.values import argument_json, surely_string
from tests.engine.text.parser_corpus import CHUNKINGS, call, parse

ROOT = {
    "$defs": {
        "Path": {"type": "string"},
        "Count": {"type": "integer"},
        "Tree": {"anyOf": [{"type": "object"}, {"$ref": "#/$defs/Tree"}]},
        "Loop": {"$ref": "#/$defs/Loop2"},
        "Loop2": {"$ref": "#/$defs/Loop"},
        "a/b~c d": {"type": "null"},
        "List": [{"type": "boolean"}],
    }
}
INTEGER, NUMBER, BOOLEAN = {"type": "integer"}, {"type": "number"}, {"type": "boolean"}
STRING, NULL, OBJECT, ARRAY = (
    {"type": "string"},
    {"type": "null"},
    {"type": "object"},
    {"type": "array"},
)


def kinds(schema: object) -> set[str]:
    return {kind.value for kind in allowed_kinds(schema, ROOT)}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (STRING, "string"),
        (INTEGER, "integer"),
        (NUMBER, "integer number"),
        ({"type": ["string", "null"]}, "string null"),
        ({"enum": ["a", "b"]}, "string"),
        ({"enum": [1, "a", None]}, "integer string null"),
        ({"type": "string", "enum": ["a", None]}, "string"),
        ({"const": 2.0}, "integer number"),
        ({"const": True}, "boolean"),
        ({"anyOf": [STRING, NULL]}, "string null"),
        ({"oneOf": [ARRAY, OBJECT]}, "array object"),
        ({"allOf": [{"type": ["string", "integer"]}, {"type": ["integer", "null"]}]}, "integer"),
        ({"allOf": [NUMBER, INTEGER]}, "integer"),
        ({"$ref": "#/$defs/Path"}, "string"),
        ({"$ref": "#/$defs/Count", "description": "n"}, "integer"),
        ({"anyOf": [{"$ref": "#/$defs/Path"}, {"$ref": "#/$defs/Count"}]}, "string integer"),
        ({"$ref": "#/$defs/Tree"}, "object"),
        ({"$ref": "#/$defs/a~1b~0c%20d"}, "null"),
        ({"$ref": "#/$defs/List/0"}, "boolean"),
        ({"type": "string", "nullable": True}, "string null"),
        ({"properties": {}}, "object"),
        ({"items": {}}, "array"),
    ],
)
def test_a_schema_tells_the_allowed_types(schema: object, expected: str) -> None:
    assert kinds(schema) == set(expected.split())


@pytest.mark.parametrize(
    "schema",
    [
        {}, True, False, None, 5, "string", [], {"type": "text"}, {"type": [1, {}]}, {"enum": []},
        {"anyOf": []}, {"anyOf": 3}, {"allOf": [STRING, INTEGER]}, {"$ref": "#/$defs/Loop"},
        {"$ref": "#/nowhere"}, {"$ref": "http://x/y"}, {"$ref": 7}, {"$ref": "#/$defs/List/9"},
        {"$ref": "#/$defs/List/-1"}, {"$ref": "#/$defs/List/²"}, {"description": "anything"},
    ],
)  # fmt: skip
def test_a_schema_that_says_nothing_usable_allows_every_type(schema: object) -> None:
    assert allowed_kinds(schema, ROOT) == ALL_KINDS


def test_hostile_schemas_cost_little() -> None:
    doubling: dict[str, object] = {"$defs": {}}
    definitions = {f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(100)}
    doubling["$defs"] = definitions
    deep: dict[str, object] = {"type": "string"}
    for _ in range(5000):
        deep = {"allOf": [deep]}
    looping = {"$ref": "#", "allOf": [{"$ref": "#"}] * 3000, "properties": {"x": {"$ref": "#"}}}
    started = time.process_time()
    assert allowed_kinds({"$ref": "#/$defs/d0"}, doubling) == ALL_KINDS
    assert allowed_kinds(deep, deep) == ALL_KINDS
    allowed_kinds({"anyOf": [{"anyOf": [STRING] * 10_000}] * 10_000}, {})
    for root in (doubling, deep, looping):
        declared_parameters(root)
        required_parameters(root)
    assert time.process_time() - started < 60  # without limits it would have no end


def test_parameters_are_found_through_references_and_combinations() -> None:
    root = {
        "$ref": "#/$defs/Base",
        "properties": {"a": STRING, "x": INTEGER},
        "required": ["a", 3],
        "allOf": [{"properties": {"b": NUMBER, "x": STRING}, "required": ["b"]}],
        "anyOf": [{"properties": {"c": NULL}, "required": ["c"]}],
        "$defs": {"Base": {"properties": {"d": ARRAY}, "required": ["d"]}},
    }
    assert declared_parameters(root).keys() == {"a", "b", "c", "d", "x"}
    assert declared_parameters(root)["x"] == INTEGER
    assert required_parameters(root) == {"a", "b", "d"}
    assert declared_parameters({"properties": ["a"], "required": "abc"}) == {}
    assert required_parameters({"required": "abc"}) == frozenset()


@pytest.mark.parametrize(
    ("schema", "text", "expected"),
    [
        (STRING, "007", '"007"'),
        (STRING, "true", '"true"'),
        (STRING, '"x"', r'"\"x\""'),
        ({"enum": ["1", "2"]}, "1", '"1"'),
        (INTEGER, "5", "5"),
        (INTEGER, " 5\n", "5"),
        (INTEGER, "3.0", "3"),
        (INTEGER, "3.5", "3.5"),
        (INTEGER, "007", '"007"'),
        (INTEGER, "five", '"five"'),
        (INTEGER, "", '""'),
        (INTEGER, "True", '"True"'),
        (INTEGER, "9" * 5000, f'"{"9" * 5000}"'),
        (NUMBER, "3", "3"),
        (NUMBER, "3.0", "3.0"),
        (NUMBER, "-1e3", "-1000.0"),
        (NUMBER, "NaN", '"NaN"'),
        (NUMBER, "-Infinity", '"-Infinity"'),
        (NUMBER, "1e999", '"1e999"'),
        (BOOLEAN, "true", "true"),
        (BOOLEAN, "False", "false"),
        (BOOLEAN, "None", '"None"'),
        (BOOLEAN, "yes", '"yes"'),
        (NULL, "None", "null"),
        (NULL, "null", "null"),
        (OBJECT, '{"a": [1, 2]}', '{"a":[1,2]}'),
        (OBJECT, "{'a': 1}", "\"{'a': 1}\""),
        (OBJECT, '{"a":1', r'"{\"a\":1"'),
        (OBJECT, '{"é": "\\ud83d\\ude00"}', '{"é":"😀"}'),
        (OBJECT, '{"a": "\\ud83d"}', r'{"a":"\ud83d"}'),
        (OBJECT, '{"a": NaN}', r'"{\"a\": NaN}"'),
        (ARRAY, "[]", "[]"),
        (ARRAY, "[" * 100_000, json.dumps("[" * 100_000)),
        (ARRAY, "[" * 100_000 + "]" * 100_000, json.dumps("[" * 100_000 + "]" * 100_000)),
        ({"type": ["string", "null"]}, "null", "null"),
        ({"type": ["string", "null"]}, "None", '"None"'),
        ({"type": ["string", "null"]}, "nullable", '"nullable"'),
        ({"anyOf": [STRING, INTEGER]}, "5", "5"),
        ({"anyOf": [STRING, INTEGER]}, "5.0", '"5.0"'),
        ({"anyOf": [STRING, INTEGER]}, "05", '"05"'),
        ({"anyOf": [STRING, INTEGER]}, "true", '"true"'),
        ({"anyOf": [STRING, NUMBER]}, "5", "5"),
        ({"anyOf": [STRING, OBJECT]}, '{"a": 1}', '{"a":1}'),
        ({"anyOf": [STRING, OBJECT]}, "[1]", '"[1]"'),
        ({"anyOf": [STRING, OBJECT]}, '"x"', r'"\"x\""'),
        ({"anyOf": [STRING, BOOLEAN]}, "true", "true"),
        ({"enum": ["auto", 1]}, "1", "1"),
        ({"$ref": "#/$defs/Count"}, "12", "12"),
        ({}, "5", "5"),
        ({}, "five", '"five"'),
    ],
)  # fmt: skip
def test_a_value_is_typed_by_its_schema(schema: object, text: str, expected: str) -> None:
    assert argument_json(text, allowed_kinds(schema, ROOT)) == expected
    if len(text) > 6000:
        return  # the parser adds nothing to these
    tools = (ToolSpec("f", {**ROOT, "properties": {"a": schema}}),)
    for chunking in CHUNKINGS:
        got = parse(call("f", ("a", text)), chunking=chunking, tools=tools)
        assert got.calls == [("f", f'{{"a":{expected}}}')]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a": 1}', '{"a":1}'),
        (" [1, 2]", "[1,2]"),
        ("[1, 2", '"[1, 2"'),
        ("5", '"5"'),
        ("true", '"true"'),
        ("null", '"null"'),
        ('"x"', r'"\"x\""'),
        ("", '""'),
    ],
)
def test_an_undeclared_value_is_decoded_only_as_object_or_array(text: str, expected: str) -> None:
    assert argument_json(text, None) == expected
    for chunking in CHUNKINGS:
        got = parse(call("get_time", ("a", text)), chunking=chunking)
        assert got.calls == [("get_time", f'{{"a":{expected}}}')]


NULLABLE = frozenset({JsonKind.STRING, JsonKind.NULL})
MIXED = frozenset({JsonKind.STRING, JsonKind.NUMBER, JsonKind.BOOLEAN})


@pytest.mark.parametrize(
    ("head", "allowed", "expected"),
    [
        ("", NULLABLE, False),
        ("  \n", NULLABLE, False),
        ("nu", NULLABLE, False),
        ("null \n", NULLABLE, False),
        ("null x", NULLABLE, True),
        ("name", NULLABLE, True),
        ("{", NULLABLE, True),
        ("-1.5e", MIXED, False),
        ("tru", MIXED, False),
        ("truth", MIXED, True),
        ("1 apple", MIXED, True),
        ("x", frozenset({JsonKind.OBJECT}), False),
        (" {", None, False),
        ("5", None, True),
    ],
)
def test_a_string_is_known_as_soon_as_nothing_else_fits(
    head: str, allowed: frozenset[JsonKind] | None, expected: bool
) -> None:
    assert surely_string(head, allowed) is expected
