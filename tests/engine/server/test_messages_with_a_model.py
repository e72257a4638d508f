"""`/v1/messages` the whole way with the bundled model: real logits, masks and cache, Anthropic's SDK."""

import json
import secrets

import anthropic
import jsonschema
import pytest

STORY = "Tell me a story about a cat."
TRIP = {
    "type": "object",
    "properties": {
        "city": {"enum": ["Paris", "Rome"]},
        "days": {"type": "integer", "minimum": 1},
        "stops": {"type": "array", "items": {"type": "boolean"}, "maxItems": 3},
    },
    "required": ["city", "days", "stops"],
    "additionalProperties": False,
}
WEATHER = {
    "name": "get_weather",
    "description": "Current weather",
    "input_schema": {
        "type": "object",
        "properties": {"unit": {"enum": ["c", "f"]}, "days": {"type": "integer"}},
        "required": ["unit", "days"],
    },
}
NOW = {"name": "now", "input_schema": {"type": "object", "properties": {}}}
LONG_SYSTEM = "You are a helpful agent. " * 60


@pytest.fixture(scope="module")
def server(start_server):
    return start_server(None, "--context", "4096", "--threads", "1", "--prompt-chunk", "64")


@pytest.fixture(scope="module")
def client(server):
    with anthropic.Anthropic(base_url=server.url, api_key="local", max_retries=0) as client:
        yield client


def ask(client, content=STORY, **fields):
    """A message; sampling values go round the SDK, which does not know them any more."""
    messages = fields.pop("messages", [{"role": "user", "content": content}])
    return client.messages.create(
        **{"model": "m", "max_tokens": 60, "messages": messages, **fields}
    )


@pytest.mark.parametrize(
    "fields",
    [{}, {"thinking": {"type": "enabled", "budget_tokens": 20}}],
    ids=["plain", "thinking"],
)
def test_streamed_and_whole_answers_are_equal(client, fields):
    whole = ask(client, extra_body={"temperature": 0}, **fields)
    messages = [{"role": "user", "content": STORY}]
    with client.messages.stream(
        model="m", max_tokens=60, messages=messages, extra_body={"temperature": 0}, **fields
    ) as stream:
        streamed = stream.get_final_message()
    assert [block.to_dict() for block in streamed.content] == [
        block.to_dict() for block in whole.content
    ]
    assert streamed.stop_reason == whole.stop_reason
    assert streamed.usage.output_tokens == whole.usage.output_tokens <= 60
    assert whole.content[0].type == ("thinking" if fields else "text")


def test_a_schema_holds(client):
    form = {"type": "json_schema", "schema": TRIP}
    for seed in range(5):
        message = ask(
            client,
            max_tokens=400,
            output_config={"format": form},
            extra_body={"seed": seed, "temperature": 1},
        )
        assert message.stop_reason == "end_turn"
        jsonschema.validate(json.loads(message.content[0].text), TRIP)


def test_a_schema_leaves_thinking_free(client):
    form = {"type": "json_schema", "schema": TRIP}
    message = ask(
        client,
        max_tokens=400,
        thinking={"type": "enabled", "budget_tokens": 16},
        output_config={"format": form},
    )
    jsonschema.validate(json.loads(message.content[-1].text), TRIP)


@pytest.mark.parametrize("choice", [{"type": "any"}, {"type": "tool", "name": "get_weather"}])
def test_a_forced_call_comes_once_and_fits_its_schema(client, choice):
    message = ask(
        client,
        max_tokens=400,
        extra_body={"temperature": 1},
        tools=[NOW, WEATHER],
        tool_choice={**choice, "disable_parallel_tool_use": True},
    )
    assert message.stop_reason == "tool_use"
    (call,) = (block for block in message.content if block.type == "tool_use")
    if choice["type"] == "tool":
        assert call.name == "get_weather"
    schema = WEATHER["input_schema"] if call.name == "get_weather" else {"maxProperties": 0}
    jsonschema.validate(call.input, schema)


def test_no_call_comes_when_none_is_wanted(client):
    message = ask(client, tools=[WEATHER], tool_choice={"type": "none"})
    assert {block.type for block in message.content} == {"text"}


def test_a_follow_up_turn_is_read_from_the_cache_and_counted(client):
    first = ask(client, system=LONG_SYSTEM)
    messages = [
        {"role": "user", "content": STORY},
        {"role": "assistant", "content": first.content},
        {"role": "user", "content": "And then?"},
    ]
    counted = client.messages.count_tokens(model="m", system=LONG_SYSTEM, messages=messages)
    usage = ask(client, system=LONG_SYSTEM, messages=messages).usage
    assert usage.input_tokens + usage.cache_read_input_tokens == counted.input_tokens
    before = first.usage.input_tokens + first.usage.cache_read_input_tokens
    assert usage.cache_read_input_tokens >= before - 64
    assert usage.input_tokens < 200


def test_a_billing_line_that_changes_keeps_the_cache(client):
    system = [{"type": "text", "text": "You are an agent. " * 60}]
    read = []
    for _ in range(3):
        line = f"x-anthropic-billing-header: cc_version=2.1; cch={secrets.token_hex(8)};"
        usage = ask(client, system=[{"type": "text", "text": line}, *system], max_tokens=2).usage
        read.append((usage.input_tokens, usage.cache_read_input_tokens))
    assert len({sum(pair) for pair in read}) == 1  # the same prompt
    assert read[1][1] > 0.5 * sum(read[1])
    assert read[2][1] > 0.5 * sum(read[2])
