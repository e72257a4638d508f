"""What a request asks of its answer's form, as a constraint: names, values, refusals."""

import json
import threading

import pytest

from engine.core import deep_stack
from engine.text.events import ToolSpec
from engine.text.grammar import SchemaError, answer_grammar
from engine.text.output_rules import (
    ANY_TOOL,
    FREE_TEXT,
    CallMode,
    FormatKind,
    ResponseFormat,
    ToolChoice,
)
from engine.text.schema_parts import MAX_PATH, MAX_SCHEMA_DEPTH, closed, self_contained
from engine.worker.messages import Constraint, SamplingParams, Start, decode, encode

REQUIRED = ToolChoice(CallMode.REQUIRED)
NO_CALLS = ToolChoice(CallMode.NONE)
WEATHER = ToolSpec(
    "get_weather",
    {
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
            "days": {"type": "integer"},
        },
        "required": ["city"],
    },
)

# Every choice of one branch of each: 8 ** 8 combinations.
TOO_LARGE: dict[str, object] = {
    "type": "object",
    "allOf": [
        {"anyOf": [{"properties": {f"a{i}{j}": {"type": "integer"}}} for j in range(8)]}
        for i in range(8)
    ],
}


def json_schema(schema: dict[str, object], *, is_strict: bool = False) -> ResponseFormat:
    return ResponseFormat(FormatKind.JSON_SCHEMA, schema, is_strict)


def constraint_of(*tools: ToolSpec, choice: ToolChoice = ANY_TOOL) -> Constraint:
    made = answer_grammar(tools, choice, FREE_TEXT).constraint
    assert made is not None
    return made


def grammar_of(schema: dict[str, object], *, is_strict: bool = False) -> str:
    tool = ToolSpec("f", {"type": "object", "properties": {"p": schema}}, is_strict)
    return constraint_of(tool).tools[0].parameters[0].grammar


def test_a_request_without_tools_and_format_is_free():
    assert answer_grammar([], ANY_TOOL, FREE_TEXT).constraint is None


@pytest.mark.parametrize(
    ("choice", "calls", "names"),
    [
        (ANY_TOOL, "allowed", ["get_weather", "other"]),
        (REQUIRED, "required", ["get_weather", "other"]),
        (ToolChoice(CallMode.REQUIRED, frozenset({"other"})), "required", ["other"]),
        (ToolChoice(CallMode.AUTO, frozenset({"other"})), "allowed", ["other"]),
        (NO_CALLS, "banned", []),
    ],
)
def test_the_choice_says_which_tools_may_be_called(
    choice: ToolChoice, calls: str, names: list[str]
):
    made = constraint_of(WEATHER, ToolSpec("other", {}), choice=choice)
    assert made.calls == calls
    assert [tool.name for tool in made.tools] == names


def test_parameters_keep_their_order_and_whether_they_are_required():
    parameters = constraint_of(WEATHER).tools[0].parameters
    assert [(p.name, p.is_required) for p in parameters] == [
        ("city", True),
        ("unit", False),
        ("days", False),
    ]


def test_a_string_is_raw_text_and_has_no_grammar():
    assert grammar_of({"type": "string"}) == ""
    assert grammar_of({}) == ""
    assert grammar_of({"type": ["string", "null"]}) == ""
    assert grammar_of({"anyOf": [{"type": "string"}, {"type": "integer"}]}) == ""


def test_an_enum_is_its_texts_and_what_would_be_read_back_as_something_else_is_left_out():
    assert 'v0: "a"' in grammar_of({"enum": ["a", 'b"\n']})
    assert r'v1: "b\"\n"' in grammar_of({"enum": ["a", 'b"\n']})
    mixed = grammar_of({"enum": ["1", 1, None]})  # the text 1 is the number
    assert mixed.count("v0") == 2
    assert '"1"' in mixed
    assert '"null"' in mixed
    assert "v2" not in mixed


def test_a_nullable_enum_may_be_null():
    assert '"null"' in grammar_of({"enum": ["a", "b"], "nullable": True})
    either = grammar_of({"anyOf": [{"enum": ["a", "b"]}, {"type": "null"}]})
    assert '"a"' in either
    assert "%json" in either


def test_other_types_are_json_with_what_they_refer_to():
    tool = ToolSpec(
        "f",
        {
            "type": "object",
            "properties": {"p": {"type": "array", "items": {"$ref": "#/$defs/Item"}}},
            "$defs": {"Item": {"type": "integer"}, "Unused": {"type": "null"}},
        },
    )
    grammar = constraint_of(tool).tools[0].parameters[0].grammar
    assert "%json" in grammar
    assert '"integer"' in grammar
    assert "Unused" not in grammar
    assert '"null"' not in grammar


def test_a_name_that_no_tag_can_spell_is_left_out():
    tool = ToolSpec("f", {"properties": {"a>b": {}, "fine": {}, "": {}}})
    assert [p.name for p in constraint_of(tool).tools[0].parameters] == ["fine"]


def test_a_turn_of_required_calls_has_no_document():
    made = answer_grammar([WEATHER], REQUIRED, ResponseFormat(FormatKind.JSON_OBJECT)).constraint
    assert made is not None
    assert (made.calls, made.document) == ("required", "")


def test_tools_and_a_document_are_both_allowed():
    made = answer_grammar([WEATHER], ANY_TOOL, ResponseFormat(FormatKind.JSON_OBJECT)).constraint
    assert made is not None
    assert made.calls == "allowed"
    assert made.document


def test_a_document_without_tools_bans_calls():
    made = answer_grammar([], ANY_TOOL, ResponseFormat(FormatKind.JSON_OBJECT)).constraint
    assert made is not None
    assert made.calls == "banned"


# -- what cannot be enforced ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"$ref": "https://example.org/s.json"}, "only references within"),
        ({"properties": {"a": {"$ref": "other.json#/x"}}}, "only references within"),
        ({"$ref": "#/$defs/none"}, "names no schema"),
        ({"$dynamicRef": "#x"}, "$dynamicRef"),
        ({"$ref": "#"}, "refers to itself"),
        (
            {
                "items": {"$ref": "#/$defs/a"},
                "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}},
            },
            "refers to itself",
        ),
        ({"enum": ["\ud800"]}, "no Unicode"),
        ({"type": "object", "description": "x" * 300_000}, "256 KiB"),
        ({"type": "string", "pattern": "("}, "cannot be enforced"),
        (TOO_LARGE, "schema too large"),
        ({"items": 3}, "something else than an object"),
    ],
)
def test_a_document_that_cannot_be_enforced_is_refused_with_one_sentence(
    schema: dict[str, object], words: str
):
    with pytest.raises(SchemaError) as caught:
        answer_grammar([], ANY_TOOL, json_schema(schema))
    assert words in caught.value.message
    assert caught.value.message.startswith("The schema of the answer ")
    assert caught.value.message.endswith(".")
    assert (caught.value.code, caught.value.tool) == ("invalid_schema", None)


def test_keywords_that_cannot_be_enforced_are_named_and_refused_when_strict():
    schema = {"type": "array", "uniqueItems": True, "contains": {"type": "integer"}}
    assert answer_grammar([], ANY_TOOL, json_schema(schema)).ignored == ("contains", "uniqueItems")
    with pytest.raises(SchemaError, match="contains, uniqueItems"):
        answer_grammar([], ANY_TOOL, json_schema(schema, is_strict=True))


def test_keywords_behind_a_reference_in_a_circle_are_named_too():
    schema = {"type": "object", "properties": {"child": {"$ref": "#"}}, "not": {"type": "null"}}
    assert answer_grammar([], ANY_TOOL, json_schema(schema)).ignored == ("not",)


def test_a_strict_tool_that_cannot_be_enforced_is_refused_by_its_name():
    schema = {"properties": {"p": {"type": "integer", "not": {"const": 3}}}}
    with pytest.raises(SchemaError, match="not") as caught:
        answer_grammar([ToolSpec("f", schema, is_strict=True)], ANY_TOOL, FREE_TEXT)
    assert caught.value.tool == "f"


def test_a_lenient_tool_is_never_refused_for_what_stands_in_it():
    tool = ToolSpec(
        "f",
        {
            "properties": {
                "a": {"type": "array", "items": {"$ref": "https://example.org/x"}},
                "b": {"$ref": "#/$defs/none"},
                "c": {"type": "integer", "not": {"const": 3}},
                "d": TOO_LARGE,
            },
            "minProperties": 1,
        },
    )
    made = answer_grammar([tool], ANY_TOOL, FREE_TEXT)
    assert made.constraint is not None
    assert [p.name for p in made.constraint.tools[0].parameters] == ["a", "b", "c", "d"]
    assert {"$ref", "items", "not", "allOf", "minProperties"} <= set(made.ignored)
    assert '"array"' in made.constraint.tools[0].parameters[0].grammar


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "pattern": "^[a-z]+/[0-9]{2}$"},
        {"type": "string", "minLength": 2, "maxLength": 5},
        {"type": "string", "format": "date-time"},
    ],
)
def test_a_strict_string_has_its_limits_and_a_lenient_one_is_free(schema: dict[str, object]):
    assert "</parameter>" in grammar_of(schema, is_strict=True)
    assert grammar_of(schema) == ""


def test_a_strict_string_of_an_unknown_format_is_refused():
    with pytest.raises(SchemaError, match="format"):
        grammar_of({"type": "string", "format": "phone"}, is_strict=True)


# -- schemas made safe ---------------------------------------------------------------------------


def test_a_schema_in_circles_is_made_self_contained():
    root = {"$defs": {"T": {"properties": {"next": {"$ref": "#/$defs/T"}}}}, "$ref": "#/$defs/T"}
    assert self_contained(root, root) == {
        "$ref": "#/$defs/d0",
        "$defs": {"d0": {"properties": {"next": {"$ref": "#/$defs/d0"}}}},
    }


def test_what_is_no_schema_is_left_as_it_is():
    schema = {"const": {"$ref": "x", "$defs": 3}, "properties": {"$ref": {"type": "null"}}}
    assert self_contained(schema, schema) == schema


def test_schemas_that_are_too_deep_are_refused_before_they_are_compiled():
    deep: dict[str, object] = {"type": "integer"}
    for _ in range(MAX_SCHEMA_DEPTH + 1):
        deep = {"items": deep}
    with pytest.raises(SchemaError, match="levels deep"):
        self_contained(deep, deep)
    chain: dict[str, object] = {
        f"d{i}": {"items": {"$ref": f"#/$defs/d{i + 1}"}} for i in range(MAX_PATH)
    }
    chain[f"d{MAX_PATH}"] = {"type": "integer"}
    root = {"$ref": "#/$defs/d0", "$defs": chain}
    with pytest.raises(SchemaError, match="too many schemas"):
        self_contained(root, root)


@pytest.mark.parametrize("keyword", ["items", "anyOf", "allOf", "properties"])
def test_the_deepest_schema_that_is_taken_compiles(keyword: str):
    """Had the compiling thread the usual stack, the process would end here."""
    count = MAX_PATH // 2 - 10
    wrap = {
        "items": lambda target: {"type": "array", "items": target},
        "anyOf": lambda target: {"anyOf": [{"type": "integer"}, target]},
        "allOf": lambda target: {"allOf": [target]},
        "properties": lambda target: {"type": "object", "properties": {"x": target}},
    }[keyword]
    definitions = {f"d{i}": wrap({"$ref": f"#/$defs/d{i + 1}"}) for i in range(count)}
    definitions[f"d{count}"] = {"type": "integer"}
    schema = {"$ref": "#/$defs/d0", "$defs": definitions}
    made = answer_grammar([], ANY_TOOL, json_schema(schema))
    assert made.constraint is not None


def test_objects_take_only_the_keys_that_they_name_unless_schemas_are_combined():
    assert closed({"properties": {"a": {}}})["additionalProperties"] is False
    for said in ({"additionalProperties": True}, {"patternProperties": {}}, {"required": ["b"]}):
        schema: dict[str, object] = {"properties": {"a": {}}, **said}
        assert closed(schema) == schema
    combined: dict[str, object] = {"allOf": [{"properties": {"a": {}}}, {"properties": {"b": {}}}]}
    assert closed(combined) == combined


def test_a_constraint_survives_the_pipe():
    made = constraint_of(WEATHER, choice=REQUIRED)
    start = Start("a", (1,), 5, (2,), SamplingParams(), constraint=made)
    assert decode(encode(start)) == start
    assert json.loads(encode(start))["constraint"]["calls"] == "required"


def test_an_unknown_rule_for_calls_is_our_own_mistake():
    with pytest.raises(ValueError, match="perhaps"):
        Constraint("perhaps")


def test_a_call_in_a_deep_stack_gives_results_errors_and_time_outs():
    assert deep_stack.call(lambda: 3) == 3
    with pytest.raises(KeyError):
        deep_stack.call(lambda: {}["x"])
    gate = threading.Event()
    with pytest.raises(TimeoutError):
        deep_stack.call(gate.wait, timeout_s=0.01)
    gate.set()


def test_processor_time_is_no_time_that_others_have_the_processor():
    pause = threading.Event()
    assert not deep_stack.call(lambda: pause.wait(0.5), processor_s=0.1)  # longer, but it waits
    with pytest.raises(TimeoutError):
        deep_stack.call(lambda: pause.wait(60), timeout_s=0.2, processor_s=0.1)

    def compute() -> None:
        while not pause.is_set():
            pass

    try:
        with pytest.raises(TimeoutError):
            deep_stack.call(compute, processor_s=0.2)
    finally:
        pause.set()


def test_a_schema_that_takes_too_much_processor_time_is_refused(monkeypatch):
    monkeypatch.setattr("engine.text.value_grammar.COMPILE_PROCESSOR_S", 0.05)
    names = [f"a{i}" for i in range(7000)]  # a second
    form = json_schema({"type": "object", "properties": {n: {} for n in names}})
    with pytest.raises(SchemaError, match="too complicated to be enforced"):
        answer_grammar([], ANY_TOOL, form)
