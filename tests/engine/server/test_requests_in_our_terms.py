"""From a chat body to sampling values, levels and room in the context, without a server."""

import pytest

from engine.core.config import Effort, RunConfig, SamplingDefaults
from engine.server.chat_request import read_chat_request
from engine.server.context import output_room
from engine.server.errors import ApiError
from engine.server.fields import Fields
from engine.server.levels import chat_effort
from engine.server.sampling_fields import NOT_THINKING, THINKING, read_sampling
from engine.text.output_rules import FREE_TEXT, CallMode, FormatKind

HELLO = [{"role": "user", "content": "hello"}]


def read(config=None, **fields):
    return read_chat_request({"messages": HELLO, **fields}, config or RunConfig(), 1000).generation


def test_published_values_differ_between_thinking_and_not():
    thinking = read().sampling
    assert (thinking.temperature, thinking.top_p, thinking.top_k) == (1.0, 0.95, 20)
    assert thinking.presence_penalty == 0
    plain = read(reasoning_effort="none").sampling
    assert (plain.temperature, plain.top_p, plain.presence_penalty) == (0.7, 0.8, 1.5)


def test_the_request_wins_over_the_config_which_wins_over_published_values():
    config = RunConfig(sampling=SamplingDefaults(temperature=0.5, top_k=7))
    assert read(config).sampling.temperature == 0.5
    assert read(config).sampling.top_k == 7
    assert read(config, temperature=0, top_k=0).sampling.temperature == 0
    assert read(config, temperature=0, top_k=0).sampling.top_k == 0
    assert read(config).sampling.top_p == THINKING.top_p


def test_aliases_whole_floats_and_large_values():
    sampling = read(repeat_penalty=1.5, repeat_last_n=-1, top_k=1e9, seed=3.0).sampling
    assert sampling.repetition_penalty == 1.5
    assert sampling.penalty_last_n == -1
    assert sampling.top_k == 1000  # the vocabulary's size
    assert sampling.seed == 3


def test_a_seed_is_drawn_when_none_or_a_negative_one_is_given():
    seeds = {read(seed=seed).sampling.seed for seed in (None, -1, -5)}
    assert len(seeds) == 3
    assert all(0 <= seed < 2**53 for seed in seeds)


def test_logit_bias_is_read_as_pairs():
    assert read(logit_bias={"5": -100, "999": 1}).sampling.logit_bias == ((5, -100.0), (999, 1.0))
    with pytest.raises(ApiError) as caught:
        read(logit_bias={str(token_id): 1 for token_id in range(1025)})
    assert caught.value.param == "logit_bias"


def test_sampling_without_a_body_is_the_published_one():
    sampling = read_sampling(Fields({}), Effort.NONE, SamplingDefaults(), 1000)
    assert sampling.temperature == NOT_THINKING.temperature
    assert sampling.top_logprobs == -1


@pytest.mark.parametrize(
    ("body", "effort"),
    [
        ({}, Effort.MEDIUM),
        ({"reasoning_effort": "minimal"}, Effort.LOW),
        ({"reasoning_effort": "MAX"}, Effort.HIGH),
        ({"reasoning_effort": False}, Effort.NONE),
        ({"reasoningEffort": "low"}, Effort.LOW),
        ({"reasoning": {"effort": "high"}}, Effort.HIGH),
        ({"reasoning": {"effort": None}, "reasoning_effort": None}, Effort.MEDIUM),
        ({"reasoning_effort": "low", "reasoning": {"effort": "high"}}, Effort.LOW),
        ({"reasoning_effort": "low", "reasoning": {"effort": "off"}}, Effort.NONE),
        ({"enable_thinking": False, "reasoning_effort": "high"}, Effort.NONE),
        ({"enable_thinking": True}, Effort.MEDIUM),
        ({"chat_template_kwargs": {"reasoning_effort": "xhigh"}}, Effort.HIGH),
        ({"chat_template_kwargs": None}, Effort.MEDIUM),
    ],
)
def test_levels(body, effort):
    assert chat_effort(Fields(body), Effort.MEDIUM) is effort


@pytest.mark.parametrize(
    ("configured", "asked", "budget"),
    [(None, None, None), (100, None, 100), (100, 5, 5), (5, 100, 5), (0, 7, 7), (7, 0, 7)],
)
def test_the_smallest_thinking_budget_applies(configured, asked, budget):
    config = RunConfig(reasoning_budget_tokens=configured)
    assert read(config, reasoning_budget_tokens=asked).budget == budget


def test_a_trailing_assistant_message_is_continued_without_thinking():
    messages = [*HELLO, {"role": "assistant", "content": "Well"}]
    request = read(messages=messages, reasoning_effort="high")
    assert request.conversation.continues
    assert request.conversation.effort is Effort.NONE


def test_tools_keep_their_keys_and_order_and_the_flat_form_is_nested():
    tools = [
        {"function": {"parameters": {"z": 1, "a": 2}, "name": "b"}, "type": "function"},
        {"type": "function", "name": "a", "description": "A"},
    ]
    use = read(tools=tools).conversation.tools
    assert list(use.rendered[0]["function"]) == ["parameters", "name"]
    assert list(use.rendered[0]["function"]["parameters"]) == ["z", "a"]
    assert use.rendered[1] == {"type": "function", "function": {"name": "a", "description": "A"}}
    assert [spec.name for spec in use.specs] == ["b", "a"]
    hidden = read(tools=tools, tool_choice="none").conversation.tools
    assert hidden.rendered == use.rendered  # the prompt's start, and its cache, stay as they are
    assert hidden.specs == ()


@pytest.mark.parametrize(
    ("choice", "mode", "callable_names"),
    [
        (None, CallMode.AUTO, ["a", "b"]),
        ("auto", CallMode.AUTO, ["a", "b"]),
        ("none", CallMode.NONE, []),
        ("required", CallMode.REQUIRED, ["a", "b"]),
        ("any", CallMode.REQUIRED, ["a", "b"]),
        ({"type": "function", "function": {"name": "b"}}, CallMode.REQUIRED, ["b"]),
        ({"type": "function", "name": "b"}, CallMode.REQUIRED, ["b"]),
        (
            {
                "type": "allowed_tools",
                "allowed_tools": {
                    "mode": "required",
                    "tools": [{"type": "function", "function": {"name": "a"}}],
                },
            },
            CallMode.REQUIRED,
            ["a"],
        ),
        (
            {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "a"}]},
            CallMode.AUTO,
            ["a"],
        ),
    ],
)
def test_a_tool_choice_says_what_may_be_called_and_leaves_the_prompt_alone(
    choice, mode, callable_names
):
    tools = [{"type": "function", "function": {"name": name}} for name in "ab"]
    use = read(tools=tools, tool_choice=choice).conversation.tools
    assert use.choice.mode is mode
    assert [spec.name for spec in use.specs] == callable_names
    assert len(use.rendered) == 2


def test_strict_tools_and_formats_are_kept_apart_from_others():
    schema = {"type": "object", "properties": {"x": {"type": "integer"}}}
    tools = [
        {"type": "function", "function": {"name": "a", "strict": True, "parameters": schema}},
        {"type": "function", "function": {"name": "b", "parameters": schema}},
    ]
    wanted = {"type": "json_schema", "json_schema": {"name": "n", "schema": schema, "strict": True}}
    request = read(tools=tools, response_format=wanted)
    assert [spec.is_strict for spec in request.conversation.tools.specs] == [True, False]
    assert request.response_format.kind is FormatKind.JSON_SCHEMA
    assert request.response_format.schema == schema
    assert request.response_format.is_strict
    assert read(response_format={"type": "text"}).response_format == FREE_TEXT
    plain = read(response_format={"type": "json_object"}).response_format
    assert plain.kind is FormatKind.JSON_OBJECT


def test_an_object_with_a_schema_is_held_to_it():
    schema = {"type": "object", "properties": {"x": {"type": "integer"}}}
    form = read(response_format={"type": "json_object", "schema": schema}).response_format
    assert (form.kind, form.schema) == (FormatKind.JSON_SCHEMA, schema)
    assert form.path == "response_format.schema"


def test_a_form_without_its_schema_is_named():
    for form, path in (
        ({"type": "json_schema"}, "response_format.json_schema"),
        (
            {"type": "json_schema", "json_schema": {"name": "n"}},
            "response_format.json_schema.schema",
        ),
    ):
        with pytest.raises(ApiError) as caught:
            read(response_format=form)
        assert caught.value.param == path


@pytest.mark.parametrize(
    ("num_prompt", "cap", "fit", "expected"),
    [
        (10, None, True, (90, None)),
        (10, 90, True, (90, None)),
        (99, None, True, (1, None)),
        (10, 5, False, (5, None)),
    ],
)
def test_room_for_an_answer(num_prompt, cap, fit, expected):
    room = output_room(num_prompt, cap, 100, fit=fit)
    assert (room.max_tokens, room.header) == expected


def test_a_cap_is_lowered_only_when_enough_room_is_left():
    room = output_room(744, 32000, 1000, fit=True)
    assert (room.max_tokens, room.header) == (256, "requested=32000; used=256")
    for num_prompt, fit in ((745, True), (700, False)):
        with pytest.raises(ApiError) as caught:
            output_room(num_prompt, 32000, 1000, fit=fit)
        assert caught.value.code == "context_length_exceeded"
        assert caught.value.extra["max_tokens"] == 32000


def test_a_prompt_that_fills_the_context_is_refused():
    for num_prompt in (100, 101, 5000):
        with pytest.raises(ApiError) as caught:
            output_room(num_prompt, None, 100, fit=True)
        assert caught.value.extra == {"n_prompt_tokens": num_prompt, "n_ctx": 100}
