"""What a request forces on an answer, with the bundled model: calls of tools, forms of text.

The model is tiny and was not trained for these tools: what makes its answers right is that nothing
else can be sampled.
"""

import enum
import json

import jsonschema
import openai
import pydantic
import pytest

LAMP = {
    "type": "function",
    "function": {
        "name": "set_lamp",
        "description": "Switch a lamp",
        "parameters": {
            "type": "object",
            "properties": {
                "room": {"type": "string", "enum": ["kitchen", "hall"]},
                "level": {"type": "integer", "enum": [0, 50, 100]},
                "tags": {"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 2},
            },
            "required": ["room", "level"],
            "additionalProperties": False,
        },
        "strict": True,
    },
}
BELL = {"type": "function", "function": {"name": "ring"}}
ORDER = {
    "type": "object",
    "properties": {
        "kind": {"enum": ["tea", "cake"]},
        "counts": {"type": "array", "items": {"enum": [1, 2, 3]}, "minItems": 1, "maxItems": 3},
        "place": {
            "type": "object",
            "properties": {"table": {"enum": [7, 8]}, "inside": {"type": "boolean"}},
            "required": ["table", "inside"],
            "additionalProperties": False,
        },
    },
    "required": ["kind", "counts", "place"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def server(start_server):
    return start_server(None, "--context", "4096", "--threads", "1")


@pytest.fixture(scope="module")
def client(server):
    with server.openai(timeout=60) as client:
        yield client


def ask(client, content="Switch on the light in the kitchen.", **fields):
    messages = [{"role": "user", "content": content}]
    fields = {"max_tokens": 400, "reasoning_effort": "none", **fields}
    return client.chat.completions.create(model="m", messages=messages, **fields)


def calls_of(answer):
    assert answer.choices[0].finish_reason == "tool_calls"
    return answer.choices[0].message.tool_calls


def named(name):
    return {"type": "function", "function": {"name": name}}


# -- tools -------------------------------------------------------------------------------------


@pytest.mark.parametrize("effort", ["none", "low"])
def test_a_tool_that_is_forced_by_name_is_called_by_its_schema(client, effort):
    answer = ask(
        client,
        tools=[BELL, LAMP],
        tool_choice=named("set_lamp"),
        parallel_tool_calls=False,
        reasoning_effort=effort,
        extra_body={"reasoning_budget_tokens": 30},
    )
    (call,) = calls_of(answer)
    assert call.function.name == "set_lamp"
    jsonschema.validate(json.loads(call.function.arguments), LAMP["function"]["parameters"])


def test_required_gives_at_least_one_call_and_none_gives_no_call(client):
    for seed in range(2):
        answer = ask(client, tools=[LAMP, BELL], tool_choice="required", seed=seed)
        assert {call.function.name for call in calls_of(answer)} <= {"set_lamp", "ring"}
        silent = ask(client, tools=[LAMP, BELL], tool_choice="none", seed=seed)
        assert silent.choices[0].message.tool_calls is None
        assert "<tool_call>" not in silent.choices[0].message.content


def test_the_prompt_is_the_same_whatever_the_tool_choice(client):
    counts = {
        ask(client, tools=[LAMP], tool_choice=choice).usage.prompt_tokens
        for choice in ("auto", "none", "required", named("set_lamp"))
    }
    assert len(counts) == 1


def test_of_allowed_tools_no_other_is_called(client):
    choice = {
        "type": "allowed_tools",
        "allowed_tools": {"mode": "required", "tools": [named("ring")]},
    }
    answer = ask(client, tools=[LAMP, BELL], tool_choice=choice, parallel_tool_calls=False)
    (call,) = calls_of(answer)
    assert (call.function.name, call.function.arguments) == ("ring", "{}")


def test_an_undeclared_name_is_refused(client):
    with pytest.raises(openai.BadRequestError) as caught:
        ask(client, tools=[LAMP], tool_choice=named("other"))
    assert caught.value.param == "tool_choice.function.name"


def test_a_forced_call_streams_its_name_once_and_arguments_that_parse(client):
    with client.chat.completions.stream(
        model="m",
        messages=[{"role": "user", "content": "Light!"}],
        tools=[LAMP],
        tool_choice=named("set_lamp"),
        parallel_tool_calls=False,
        max_tokens=300,
        reasoning_effort="none",
    ) as stream:
        deltas = [
            call
            for event in stream
            if event.type == "chunk"
            for choice in event.chunk.choices
            for call in choice.delta.tool_calls or ()
        ]
        final = stream.get_final_completion()
    assert [call.function.name for call in deltas if call.function.name] == ["set_lamp"]
    assert len([call.id for call in deltas if call.id]) == 1
    arguments = final.choices[0].message.tool_calls[0].function.arguments
    jsonschema.validate(json.loads(arguments), LAMP["function"]["parameters"])


def test_a_strict_schema_that_cannot_be_enforced_is_refused_by_name(client):
    tool = {
        "type": "function",
        "function": {
            "name": "odd",
            "strict": True,
            "parameters": {
                "type": "object",
                "properties": {"x": {"type": "array", "uniqueItems": True}},
            },
        },
    }
    with pytest.raises(openai.BadRequestError) as caught:
        ask(client, tools=[tool])
    assert caught.value.code == "invalid_schema"
    assert "odd" in caught.value.message


# -- forms of text -----------------------------------------------------------------------------


def schema_format(schema, **more):
    return {"type": "json_schema", "json_schema": {"name": "order", "schema": schema, **more}}


@pytest.mark.parametrize("num_seeds", [2, pytest.param(20, marks=pytest.mark.slow)])
def test_a_strict_schema_holds_every_time_at_temperature_1(client, num_seeds):
    wanted = schema_format(ORDER, strict=True)
    for seed in range(num_seeds):
        answer = ask(client, "An order!", response_format=wanted, seed=seed, temperature=1)
        assert answer.choices[0].finish_reason == "stop"
        jsonschema.validate(json.loads(answer.choices[0].message.content), ORDER)


def test_a_json_object_is_one_or_is_cut_by_the_cap(client):
    for seed in range(2):
        answer = ask(client, response_format={"type": "json_object"}, seed=seed)
        choice = answer.choices[0]
        if choice.finish_reason == "stop":
            assert isinstance(json.loads(choice.message.content), dict)
        else:
            assert choice.finish_reason == "length"
            assert choice.message.content.startswith("{")


def test_thinking_is_free_and_the_content_after_it_is_valid(client):
    answer = ask(
        client,
        response_format=schema_format(ORDER),
        reasoning_effort="high",
        max_tokens=800,
        extra_body={"reasoning_budget_tokens": 30},
    )
    message = answer.choices[0].message
    assert message.reasoning_content
    jsonschema.validate(json.loads(message.content), ORDER)


def test_streamed_and_whole_documents_are_equal(client):
    options = {"response_format": schema_format(ORDER), "seed": 3}
    whole = ask(client, **options).choices[0].message.content
    chunks = list(ask(client, stream=True, **options))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == whole


class Drink(enum.StrEnum):
    TEA = "tea"
    MILK = "milk"


class Breakfast(pydantic.BaseModel):
    drink: Drink
    warm: bool


def test_the_sdk_parses_into_a_model_whole_and_streamed(client):
    fields = {
        "model": "m",
        "messages": [{"role": "user", "content": "Breakfast!"}],
        "response_format": Breakfast,
        "reasoning_effort": "none",
        "max_tokens": 300,
    }
    parsed = client.chat.completions.parse(**fields).choices[0].message.parsed
    assert isinstance(parsed, Breakfast)
    with client.chat.completions.stream(**fields) as stream:
        for _ in stream:
            pass
        assert isinstance(stream.get_final_completion().choices[0].message.parsed, Breakfast)


def test_a_remote_reference_is_refused(client):
    with pytest.raises(openai.BadRequestError) as caught:
        ask(client, response_format=schema_format({"$ref": "https://example.com/schema.json"}))
    assert caught.value.code == "invalid_schema"
    assert caught.value.param == "response_format.json_schema.schema"


def test_a_keyword_that_is_not_enforced_is_said_in_a_header_or_refused_when_strict(server):
    schema = {"type": "array", "items": {"enum": [1, 2]}, "uniqueItems": True, "maxItems": 2}
    body = {
        "messages": [{"role": "user", "content": "Two numbers."}],
        "reasoning_effort": "none",
        "max_tokens": 100,
    }
    lenient = server.http.post(
        "/v1/chat/completions", json={**body, "response_format": schema_format(schema)}
    )
    assert lenient.status_code == 200
    assert lenient.headers["x-schema-ignored"] == "uniqueItems"
    strict = server.http.post(
        "/v1/chat/completions",
        json={**body, "response_format": schema_format(schema, strict=True)},
    )
    assert strict.json()["error"]["code"] == "invalid_schema"
    assert "uniqueItems" in strict.json()["error"]["message"]


def test_tools_beside_a_schema_give_calls_or_one_document(client):
    for seed in range(2):
        answer = ask(
            client, tools=[BELL], response_format=schema_format(ORDER), seed=seed, max_tokens=300
        )
        message = answer.choices[0].message
        if message.tool_calls:
            assert not message.content
        else:
            jsonschema.validate(json.loads(message.content), ORDER)
