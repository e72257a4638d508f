"""The rest of an Anthropic body: tools, thinking, formats and limits, without a server."""

import pytest

from engine.core.config import AnthropicThinking, Effort, RunConfig
from engine.server.anthropic_request import read_conversation, read_messages_request
from engine.server.errors import ApiError
from engine.server.fields import Fields
from engine.text.output_rules import CallMode, FormatKind

HELLO = [{"role": "user", "content": "hello"}]
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = {"name": "get_weather", "description": "Weather", "input_schema": SCHEMA}
NOW = {"name": "now", "input_schema": {"type": "object"}}


def read(config=None, **fields):
    body = {"messages": HELLO, "max_tokens": 100, **fields}
    return read_messages_request(body, config or RunConfig(), 1000).generation


def refused(**fields):
    with pytest.raises(ApiError) as caught:
        read(**fields)
    assert caught.value.status == 400
    return caught.value


# -- limits and hints --------------------------------------------------------------------------


@pytest.mark.parametrize("max_tokens", [None, 0, -1, True, "5", 1.5])
def test_max_tokens_is_required_and_at_least_one(max_tokens):
    assert refused(max_tokens=max_tokens).param == "max_tokens"


def test_max_tokens_is_the_cap():
    assert read(max_tokens=7).cap == 7


def test_hints_and_unknown_fields_are_ignored():
    hints = {
        "metadata": {"user_id": "u"},
        "service_tier": "auto",
        "cache_control": {"type": "ephemeral"},
        "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
        "betas": ["a"],
        "container": "c",
        "speed": "fast",
        "mcp_servers": [],
        "never_heard_of": 1,
    }
    seed = {"seed": 1}
    assert read(**hints, **seed) == read(**seed)


def test_mcp_servers_are_refused():
    assert refused(mcp_servers=[{"type": "url", "url": "http://x", "name": "x"}]).param == (
        "mcp_servers"
    )


@pytest.mark.parametrize("kind", ["create", "continue"])
def test_threads_are_refused_with_the_code_that_the_sdk_knows(kind):
    error = refused(thread={"type": kind, "previous_message_id": "msg_1"})
    assert error.param == "thread"
    details = error.anthropic_body()["error"]["details"]
    assert details == {"error_code": "thread_unsupported_request"}
    assert read(thread=None).cap == 100


def test_an_endless_model_name_is_refused():
    assert refused(model="m" * 513).param == "model"
    assert read(model="").model is None


def test_sampling_and_stops_are_read():
    request = read(temperature=0.5, top_p=0.9, top_k=5, stop_sequences=["END", ""])
    assert (request.sampling.temperature, request.sampling.top_k) == (0.5, 5)
    assert request.stops == ("END",)
    assert request.sampling.top_logprobs == -1


def test_a_trailing_assistant_message_is_continued_without_thinking():
    messages = [*HELLO, {"role": "assistant", "content": "It is"}]
    conversation = read(messages=messages, thinking={"type": "adaptive"}).conversation
    assert conversation.continues
    assert conversation.effort is Effort.NONE


def test_a_trailing_call_is_not_continued():
    call = {"type": "tool_use", "id": "t", "name": "now", "input": {}}
    messages = [*HELLO, {"role": "assistant", "content": [call]}]
    assert not read(messages=messages).conversation.continues


# -- thinking ----------------------------------------------------------------------------------

ENABLED = {"type": "enabled", "budget_tokens": 1024}


@pytest.mark.parametrize(
    ("fields", "effort", "budget"),
    [
        ({}, Effort.NONE, None),
        ({"thinking": None, "output_config": {}}, Effort.NONE, None),
        ({"thinking": {"type": "disabled"}}, Effort.NONE, None),
        ({"thinking": ENABLED}, Effort.LOW, 1024),
        ({"thinking": {**ENABLED, "budget_tokens": 2048}}, Effort.MEDIUM, 2048),
        ({"thinking": {**ENABLED, "budget_tokens": 8192}}, Effort.HIGH, 8192),
        ({"thinking": ENABLED, "output_config": {"effort": "max"}}, Effort.HIGH, 1024),
        ({"thinking": {"type": "adaptive"}}, Effort.HIGH, None),
        ({"thinking": {"type": "adaptive", "display": "omitted"}}, Effort.HIGH, None),
        ({"thinking": {"type": "between_tools"}}, Effort.HIGH, None),
        (
            {"thinking": {"type": "adaptive"}, "output_config": {"effort": "low"}},
            Effort.LOW,
            None,
        ),
        ({"output_config": {"effort": "medium"}}, Effort.MEDIUM, None),
        ({"output_config": {"effort": "xhigh"}}, Effort.HIGH, None),
        (
            {"thinking": {"type": "disabled"}, "output_config": {"effort": "max"}},
            Effort.NONE,
            None,
        ),
        ({"thinking": ENABLED, "output_config": {"effort": "none"}}, Effort.NONE, None),
    ],
)
def test_the_level_follows_thinking_and_effort(fields, effort, budget):
    request = read(**fields)
    assert request.conversation.effort is effort
    assert request.budget == budget


def test_a_config_makes_requests_think_that_say_nothing():
    config = RunConfig(
        anthropic_thinking=AnthropicThinking.ALWAYS, default_reasoning_effort=Effort.MEDIUM
    )
    assert read(config).conversation.effort is Effort.MEDIUM
    assert read(config, thinking={"type": "disabled"}).conversation.effort is Effort.NONE


def test_the_smallest_budget_counts():
    config = RunConfig(reasoning_budget_tokens=500)
    assert read(config, thinking=ENABLED).budget == 500
    assert read(config, thinking=ENABLED, reasoning_budget_tokens=99).budget == 99
    assert read(thinking=ENABLED, max_tokens=10).budget == 1024  # above the cap: accepted


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"thinking": "high"}, "thinking"),
        ({"thinking": {}}, "thinking.type"),
        ({"thinking": {"type": "deep"}}, "thinking.type"),
        ({"thinking": {"type": "enabled"}}, "thinking.budget_tokens"),
        ({"thinking": {**ENABLED, "budget_tokens": 0}}, "thinking.budget_tokens"),
        ({"output_config": {"effort": "extreme"}}, "output_config.effort"),
        ({"output_config": {"effort": 3}}, "output_config.effort"),
        ({"output_config": []}, "output_config"),
    ],
)
def test_a_malformed_thinking_is_refused(fields, path):
    assert refused(**fields).param == path


# -- formats -----------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["output_config", "output_format"])
def test_a_schema_makes_a_format(place):
    form = {"type": "json_schema", "schema": SCHEMA}
    fields = {"output_config": {"format": form}} if place == "output_config" else {place: form}
    wanted = read(**fields).response_format
    assert wanted.kind is FormatKind.JSON_SCHEMA
    assert wanted.schema == SCHEMA
    assert wanted.path.startswith(place)


@pytest.mark.parametrize(
    ("form", "path"),
    [
        ({"type": "json_object"}, "type"),
        ({}, "type"),
        ({"type": "json_schema"}, "schema"),
        ({"type": "json_schema", "schema": "x"}, "schema"),
    ],
)
def test_a_malformed_format_is_refused(form, path):
    assert refused(output_config={"format": form}).param == f"output_config.format.{path}"


# -- tools -------------------------------------------------------------------------------------


def tools_of(**fields):
    return read(**fields).conversation.tools


def test_tools_are_rendered_with_their_schema_and_without_hints():
    hinted = {**WEATHER, "type": "custom", "cache_control": {"type": "ephemeral"}, "strict": True}
    tools = tools_of(tools=[hinted, NOW])
    assert tools.rendered == (
        {
            "type": "function",
            "function": {
                "name": "get_weather",
                "description": "Weather",
                "parameters": SCHEMA,
            },
        },
        {"type": "function", "function": {"name": "now", "parameters": {"type": "object"}}},
    )
    assert [(spec.name, spec.is_strict) for spec in tools.specs] == [
        ("get_weather", True),
        ("now", False),
    ]


def test_tools_of_the_service_are_left_out_and_named():
    served = [
        {"type": "web_search_20250305", "name": "web_search"},
        {"type": "bash_20250124", "name": "bash"},
        {"type": "bash_20250124", "name": "bash"},
        {"type": "evil\r\nx: y", "name": "evil"},
    ]
    tools = tools_of(tools=[*served, NOW])
    assert [spec.name for spec in tools.specs] == ["now"]
    assert tools.ignored == ("web_search_20250305", "bash_20250124", "evilx:y")


@pytest.mark.parametrize(
    ("choice", "mode", "names"),
    [
        (None, CallMode.AUTO, ["get_weather", "now"]),
        ({"type": "auto"}, CallMode.AUTO, ["get_weather", "now"]),
        ({"type": "any"}, CallMode.REQUIRED, ["get_weather", "now"]),
        ({"type": "tool", "name": "now"}, CallMode.REQUIRED, ["now"]),
        ({"type": "none"}, CallMode.NONE, []),
    ],
)
def test_the_choice_says_which_tools_may_be_called(choice, mode, names):
    tools = tools_of(tools=[WEATHER, NOW], tool_choice=choice)
    assert tools.choice.mode is mode
    assert [spec.name for spec in tools.specs] == names
    assert len(tools.rendered) == 2  # whatever the choice: the cache depends on them
    assert tools.parallel


def test_parallel_calls_can_be_switched_off():
    choice = {"type": "any", "disable_parallel_tool_use": True}
    assert not tools_of(tools=[NOW], tool_choice=choice).parallel


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"tools": {}}, "tools"),
        ({"tools": "[{"}, "tools"),
        ({"tools": ["x"]}, "tools[0]"),
        ({"tools": [{"type": 5}]}, "tools[0].type"),
        ({"tools": [{"input_schema": {}}]}, "tools[0].name"),
        ({"tools": [{**NOW, "name": "a b"}]}, "tools[0].name"),
        ({"tools": [{"name": "now"}]}, "tools[0].input_schema"),
        ({"tools": [{**NOW, "input_schema": []}]}, "tools[0].input_schema"),
        ({"tools": [{**NOW, "description": 5}]}, "tools[0].description"),
        ({"tools": [{**NOW, "strict": "yes"}]}, "tools[0].strict"),
        ({"tools": [NOW, NOW]}, "tools[1]"),
        ({"tools": [NOW] * 513}, "tools"),
        ({"tools": [NOW], "tool_choice": "auto"}, "tool_choice"),
        ({"tools": [NOW], "tool_choice": {}}, "tool_choice.type"),
        ({"tools": [NOW], "tool_choice": {"type": "required"}}, "tool_choice.type"),
        ({"tools": [NOW], "tool_choice": {"type": "tool"}}, "tool_choice.name"),
        ({"tools": [NOW], "tool_choice": {"type": "tool", "name": "x"}}, "tool_choice.name"),
        ({"tool_choice": {"type": "any"}}, "tool_choice"),
        (
            {
                "tools": [NOW],
                "tool_choice": {"type": "auto", "disable_parallel_tool_use": 1},
            },
            "tool_choice.disable_parallel_tool_use",
        ),
        ({"stream": "yes"}, "stream"),
        ({"model": 5}, "model"),
        ({"stop_sequences": 5}, "stop_sequences"),
        ({"stop_sequences": ["x"] * 17}, "stop_sequences"),
        ({"temperature": 3}, "temperature"),
        ({"messages": None}, "messages"),
        ({"messages": []}, "messages"),
        ({"messages": 5}, "messages"),
    ],
)
def test_a_malformed_field_is_refused_by_its_path(fields, path):
    error = refused(**fields)
    assert error.param == path
    assert path in error.message


def test_the_part_that_is_counted_needs_no_max_tokens():
    conversation, _ = read_conversation(Fields({"messages": HELLO}), RunConfig())
    assert conversation == read().conversation
