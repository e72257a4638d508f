"""The Responses API with the bundled model: answers held to their form, warm conversations."""

import json
from typing import Annotated, Literal

import openai
import pydantic
import pytest

WEATHER = {
    "type": "function",
    "name": "get_weather",
    "description": "Current weather of a city",
    "strict": False,
    "parameters": {
        "type": "object",
        "properties": {
            # Nothing without an end: the tiny model would write a string or a number for ever.
            "city": {"type": "string", "enum": ["Paris", "Rome"]},
            "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
            "days": {"type": "integer", "enum": [1, 7]},
        },
        "required": ["city", "unit"],
    },
}
NOTE = {"type": "custom", "name": "note", "description": "Writes a note."}
GIT = {
    "type": "namespace",
    "name": "git",
    "description": "A repository.",
    "tools": [
        {
            "type": "function",
            "name": "log",
            "parameters": {
                "type": "object",
                "properties": {"count": {"type": "integer", "enum": [1, 10]}},
                "required": ["count"],
            },
        }
    ],
}
TOOLS = [WEATHER, NOTE, GIT]
QUESTION = "What is the weather in Paris?"


@pytest.fixture(scope="module")
def server(start_server):
    return start_server(None, "--context", "4096", "--threads", "1")


@pytest.fixture(scope="module")
def client(server):
    with server.openai(timeout=120) as client:
        yield client


def ask(client, content=QUESTION, **fields):
    options = {"max_output_tokens": 300, "reasoning": {"effort": "none"}, "seed": 3, **fields}
    seed = options.pop("seed")
    return client.responses.create(model="m", input=content, extra_body={"seed": seed}, **options)


def calls(answer):
    return [item for item in answer.output if item.type.endswith("_call")]


def check_weather(call):
    arguments = json.loads(call.arguments)
    assert {"city", "unit"} <= arguments.keys() <= {"city", "unit", "days"}
    assert arguments["unit"] in ("celsius", "fahrenheit")
    assert arguments["city"] in ("Paris", "Rome")
    assert arguments.get("days", 1) in (1, 7)


def test_a_function_that_is_chosen_by_name_is_called_by_its_schema(client):
    chosen = {"type": "function", "name": "get_weather"}
    answer = ask(client, tools=TOOLS, tool_choice=chosen, parallel_tool_calls=False)
    (call,) = calls(answer)
    assert call.name == "get_weather"
    check_weather(call)
    assert answer.status == "completed"


def test_a_namespaced_function_can_be_chosen_too(client):
    chosen = {"type": "function", "name": "log", "namespace": "git"}
    answer = ask(client, tools=TOOLS, tool_choice=chosen, parallel_tool_calls=False)
    (call,) = calls(answer)
    assert (call.namespace, call.name) == ("git", "log")
    assert isinstance(json.loads(call.arguments)["count"], int)


def test_a_call_that_is_required_is_made_and_none_is_made_when_forbidden(client):
    assert calls(ask(client, tools=[WEATHER], tool_choice="required"))
    assert not calls(ask(client, tools=[WEATHER], tool_choice="none", max_output_tokens=60))


def test_only_allowed_tools_are_called(client):
    chosen = [{"type": "function", "name": "get_weather"}]
    allowed = {"type": "allowed_tools", "mode": "required", "tools": chosen}
    answer = ask(client, tools=TOOLS, tool_choice=allowed)
    assert {call.name for call in calls(answer)} == {"get_weather"}


class Person(pydantic.BaseModel):
    name: Literal["Ada", "Grace"]
    alive: bool
    skills: Annotated[list[Literal["maths", "music"]], pydantic.Field(max_length=2)]


def test_an_answer_keeps_to_a_schema_at_temperature_one(client):
    for seed in range(5):
        answer = client.responses.parse(
            model="m",
            input="Who is Ada?",
            text_format=Person,
            temperature=1,
            reasoning={"effort": "none"},
            extra_body={"seed": seed},
        )
        assert answer.status == "completed"
        assert isinstance(answer.output_parsed, Person)


def test_an_answer_can_be_any_json_object(client):
    form = {"format": {"type": "json_object"}}
    answer = ask(client, "An object.", text=form, max_output_tokens=120, temperature=1)
    assert answer.output_text.lstrip().startswith("{")
    if answer.status == "completed":
        assert isinstance(json.loads(answer.output_text), dict)


def test_thinking_is_free_before_an_answer_that_keeps_to_a_schema(client):
    schema = {
        "type": "object",
        "properties": {"ok": {"type": "boolean"}},
        "required": ["ok"],
        "additionalProperties": False,
    }
    form = {"format": {"type": "json_schema", "name": "n", "schema": schema, "strict": True}}
    answer = client.responses.create(
        model="m",
        input="Is it fine?",
        text=form,
        reasoning={"effort": "high"},
        extra_body={"reasoning_budget_tokens": 24},
    )
    assert answer.output[0].type == "reasoning"
    assert isinstance(json.loads(answer.output_text)["ok"], bool)


def test_a_schema_that_points_elsewhere_is_refused(client):
    schema = {"$ref": "https://example.com/schema.json"}
    form = {"format": {"type": "json_schema", "name": "n", "schema": schema}}
    with pytest.raises(openai.BadRequestError) as caught:
        ask(client, text=form)
    assert (caught.value.code, caught.value.param) == ("invalid_schema", "text.format.schema")


@pytest.mark.parametrize("form", ["content", "encrypted_content"])
def test_a_second_turn_computes_only_what_is_new(client, form):
    options = {
        "include": ["reasoning.encrypted_content"],
        "reasoning": {"effort": "high"},
        "instructions": f"Tell it by {form}.",
        "max_output_tokens": 400,
    }
    first = ask(client, "Tell me about cats.", **options, temperature=0.7)
    assert first.status == "completed"
    turn = [item.to_dict() for item in first.output]
    for item in turn:
        if item["type"] == "reasoning" and form == "encrypted_content":
            item.pop("content")
    history = [{"role": "user", "content": "Tell me about cats."}, *turn]
    second = ask(client, [*history, {"role": "user", "content": "And dogs?"}], **options)
    known = first.usage.input_tokens + first.usage.output_tokens
    assert second.usage.input_tokens_details.cached_tokens >= known - 1
