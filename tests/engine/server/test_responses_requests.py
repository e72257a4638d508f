"""From a Responses body to our terms, without a server: items, tools, settings, refusals."""

import base64

import pytest

from engine.core.config import Effort, RunConfig
from engine.server.errors import ApiError
from engine.server.responses_request import read_responses_request
from engine.server.responses_sealed import seal, unseal
from engine.text.output_rules import CallMode, FormatKind

USER = {"role": "user", "content": "hello"}
CALL = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}
RESULT = {"type": "function_call_output", "call_id": "c1", "output": "fine"}
FUNCTION = {"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}}
NAMESPACE = {
    "type": "namespace",
    "name": "git",
    "description": "Works on a repository.",
    "tools": [
        {"type": "function", "name": "log", "description": "Shows commits.", "strict": True},
        {"type": "custom", "name": "apply"},
        {"type": "computer_use"},
    ],
}
GRAMMAR = {"type": "grammar", "syntax": "lark", "definition": "start: /.+/"}
PATCH = {"type": "custom", "name": "patch", "description": "Edits.", "format": GRAMMAR}


def read(config=None, **fields):
    return read_responses_request({"input": "hi", **fields}, config or RunConfig(), 1000)


def messages(*items, **fields):
    return list(read(input=list(items), **fields).generation.conversation.messages)


def refusal(**fields):
    with pytest.raises(ApiError) as caught:
        read(**fields)
    assert caught.value.status == 400
    assert caught.value.message.endswith(".")
    return caught.value


# -- input -------------------------------------------------------------------------------------


def test_a_string_is_a_message_of_the_user_below_the_instructions():
    chat = read(input="hi", instructions="Be brief.").generation.conversation.messages
    assert list(chat) == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "hi"},
    ]


@pytest.mark.parametrize("nothing", ["", []])
def test_an_input_without_anything_is_an_empty_message_of_the_user(nothing):
    chat = read(
        input=nothing, instructions="Be brief.", max_output_tokens=1
    ).generation.conversation
    assert list(chat.messages) == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": ""},
    ]


def test_leading_system_messages_join_the_instructions_and_later_ones_keep_their_place():
    chat = messages(
        {"type": "message", "role": "developer", "content": "One."},
        {"role": "system", "content": [{"type": "input_text", "text": "Two."}]},
        USER,
        {"role": "developer", "content": "Late."},
        instructions="Zero.",
    )
    assert chat == [
        {"role": "system", "content": "Zero.\n\nOne.\n\nTwo."},
        {"role": "user", "content": "hello"},
        {"role": "system", "content": "Late."},
    ]


def test_the_items_of_an_assistants_turn_become_one_message():
    text = {"type": "output_text", "text": "Let me look.", "annotations": [], "logprobs": []}
    second = {**CALL, "call_id": "c2", "namespace": "git", "arguments": None}
    chat = messages(
        USER,
        {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "Hm."}]},
        {"type": "message", "role": "assistant", "id": "msg_1", "content": [text]},
        CALL,
        second,
        {**RESULT, "call_id": "c2"},
        {**RESULT, "output": [{"type": "input_text", "text": "a"}, {"type": "text", "text": "b"}]},
    )
    assert chat[1:] == [
        {
            "role": "assistant",
            "content": "Let me look.",
            "reasoning_content": "Hm.",
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}},
                {"id": "c2", "type": "function", "function": {"name": "git.f", "arguments": ""}},
            ],
        },
        {"role": "tool", "content": "fine", "tool_call_id": "c2"},
        {"role": "tool", "content": "ab", "tool_call_id": "c1"},
    ]


def test_thinking_after_an_answer_and_a_second_answer_begin_turns_of_their_own():
    thought = {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "Hm."}]}
    answer = {"role": "assistant", "content": "A."}
    chat = messages(USER, thought, answer, answer, thought)
    assert chat[1:] == [
        {"role": "assistant", "content": "A.", "reasoning_content": "Hm."},
        {"role": "assistant", "content": "A."},
        {"role": "assistant", "content": "", "reasoning_content": "Hm."},
    ]


def test_text_that_followed_a_call_in_the_answer_stays_in_its_turn():
    chat = messages(USER, CALL, {"role": "assistant", "content": "Wait."}, RESULT)
    assert chat[1]["content"] == "Wait."
    assert len(chat[1]["tool_calls"]) == 1
    assert chat[2]["role"] == "tool"


def test_a_custom_call_is_a_call_with_one_text():
    call = {"type": "custom_tool_call", "call_id": "c", "name": "patch", "input": 'a "b"\n'}
    result = {"type": "custom_tool_call_output", "call_id": "c", "output": "done"}
    chat = messages(USER, call, result)
    assert chat[1]["tool_calls"][0]["function"] == {
        "name": "patch",
        "arguments": {"input": 'a "b"\n'},
    }
    assert chat[2] == {"role": "tool", "content": "done", "tool_call_id": "c"}


@pytest.mark.parametrize(
    ("item", "thinking"),
    [
        ({"content": [{"type": "reasoning_text", "text": "open"}]}, "open"),
        ({"encrypted_content": seal("sealed 😀")}, "sealed 😀"),
        (
            {
                "content": [{"type": "reasoning_text", "text": "open"}],
                "encrypted_content": seal("sealed"),
            },
            "open",
        ),
        ({"summary": [{"type": "summary_text", "text": "short"}]}, "short"),
        ({"content": [], "summary": [], "encrypted_content": "gAAAAABforeign"}, None),
        ({"summary": []}, None),
    ],
)
def test_thinking_comes_from_the_content_else_the_sealed_string_else_the_summary(item, thinking):
    chat = messages(USER, {"type": "reasoning", **item}, {"role": "assistant", "content": "A."})
    assert chat[1].get("reasoning_content") == thinking


def test_a_sealed_text_comes_back_and_a_damaged_one_does_not():
    for text in ("", "plain", "ünïcödé 😀\n\0", "x" * 100_000):
        assert unseal(seal(text)) == text
    sealed = seal("some thinking")
    assert unseal(sealed[:-3] + "!!!") is None
    assert unseal(sealed + "é") is None
    broken = base64.urlsafe_b64encode(b"\xff\xfe").decode()
    assert unseal(sealed.partition(".")[0] + "." + broken) is None
    assert unseal("another server's") is None


@pytest.mark.parametrize(
    ("value", "param"),
    [
        (None, "input"),
        (5, "input"),
        ({"role": "user"}, "input"),
        (["hello"], "input[0]"),
        ([{}], "input[0].type"),
        ([{"type": 7}], "input[0].type"),
        ([{"type": "walk"}], "input[0].type"),
        ([{"type": "item_reference", "id": "msg_1"}], "input[0].type"),
        ([USER, {"type": "compaction", "encrypted_content": "x"}], "input[1].type"),
        ([{"type": "message", "content": "x"}], "input[0].role"),
        ([{"role": "tool", "content": "x"}], "input[0].role"),
        ([{"role": "user", "content": 3}], "input[0].content"),
        ([{"role": "user", "content": [4]}], "input[0].content[0]"),
        ([{"role": "user", "content": [{"text": "x"}]}], "input[0].content[0].type"),
        ([{"role": "user", "content": [{"type": "input_text"}]}], "input[0].content[0].text"),
        ([{"role": "user", "content": [{"type": "input_file"}]}], "input[0].content[0].type"),
        ([{"role": "user", "content": [{"type": "no"}]}], "input[0].content[0].type"),
        ([{"role": "assistant", "content": [{"type": "refusal"}]}], "input[0].content[0].refusal"),
        ([{"type": "reasoning", "content": "x"}], "input[0].content"),
        ([{"type": "reasoning", "content": [{"type": "x"}]}], "input[0].content[0].type"),
        ([{"type": "reasoning", "content": [{"type": "text"}]}], "input[0].content[0].text"),
        ([{"type": "reasoning", "summary": [1]}], "input[0].summary[0]"),
        ([{"type": "reasoning", "encrypted_content": 1}], "input[0].encrypted_content"),
        ([{"type": "function_call", "name": "f"}], "input[0].call_id"),
        ([{"type": "function_call", "call_id": "c"}], "input[0].name"),
        ([{**CALL, "arguments": [1]}], "input[0].arguments"),
        ([{**CALL, "namespace": 1}], "input[0].namespace"),
        ([{"type": "custom_tool_call", "name": "f", "call_id": "c"}], "input[0].input"),
        ([{"type": "custom_tool_call", "input": "f", "call_id": "c"}], "input[0].name"),
        ([RESULT], "input[0].call_id"),
        ([CALL, {"type": "function_call_output", "call_id": "c1"}], "input[1].output"),
        ([CALL, {"type": "function_call_output", "output": "x"}], "input[1].call_id"),
        ([CALL, {**RESULT, "output": {"a": 1}}], "input[1].output"),
        ([CALL, {**RESULT, "output": [{"type": "x"}]}], "input[1].output[0].type"),
        ([{"type": "custom_tool_call_output", "call_id": "z", "output": ""}], "input[0].call_id"),
    ],
)
def test_each_malformed_item_is_named_by_its_path(value, param):
    assert refusal(input=value).param == param


@pytest.mark.parametrize("kind", ["message", "function_call_output"])
def test_an_image_is_refused_until_there_is_an_encoder(kind):
    parts = [{"type": "input_text", "text": "see"}, {"type": "input_image", "image_url": "x"}]
    if kind == "message":
        error = refusal(input=[{"role": "user", "content": parts}])
        assert error.param == "input[0].content[1]"
    else:
        error = refusal(input=[USER, CALL, {**RESULT, "output": parts}])
        assert error.param == "input[2].output[1]"
    assert error.code == "image_unsupported"


# -- tools -------------------------------------------------------------------------------------


def test_functions_namespaces_and_custom_tools_are_shown_as_functions():
    asked = read(tools=[FUNCTION, NAMESPACE, PATCH, {"type": "web_search"}, {"type": "mcp"}])
    use = asked.generation.conversation.tools
    functions = [tool["function"] for tool in use.rendered]
    assert [function["name"] for function in functions] == ["f", "git.log", "git.apply", "patch"]
    assert [spec.name for spec in use.specs] == ["f", "git.log", "git.apply", "patch"]
    assert functions[1]["description"].startswith("Shows commits.")
    assert "Works on a repository." in functions[1]["description"]
    assert "Works on a repository." not in functions[2]["description"]
    assert use.ignored == ("computer_use", "web_search", "mcp")
    assert use.specs[1].is_strict
    text = functions[3]["parameters"]["properties"]["input"]
    assert text["type"] == "string"
    assert "start: /.+/" in text["description"]
    assert functions[3]["parameters"]["required"] == ["input"]
    assert asked.settings["tools"] == [FUNCTION, NAMESPACE, PATCH]


def test_the_models_names_lead_back_to_the_clients_tools():
    tools = read(tools=[FUNCTION, NAMESPACE, PATCH]).tools
    found = tools.find("git.log")
    assert (found.namespace, found.name, found.is_custom) == ("git", "log", False)
    assert tools.find("git.apply").is_custom
    assert tools.find("patch").namespace is None
    assert not tools.find("f").is_custom


def test_the_entry_of_a_function_keeps_the_clients_values():
    schema = {"type": "object", "properties": {"b": {}, "a": {}}, "x-own": 1}
    tool = {"type": "function", "name": "f", "parameters": schema, "strict": False}
    rendered = read(tools=[tool]).generation.conversation.tools.rendered
    assert rendered[0]["function"] == {"name": "f", "parameters": schema, "strict": False}
    nested = {"type": "function", "function": {"name": "f", "parameters": schema}}
    assert read(tools=[nested]).generation.conversation.tools.rendered[0] == nested


@pytest.mark.parametrize(
    ("choice", "mode", "names"),
    [
        (None, CallMode.AUTO, None),
        ("none", CallMode.NONE, None),
        ("required", CallMode.REQUIRED, None),
        ({"type": "function", "name": "f"}, CallMode.REQUIRED, {"f"}),
        ({"type": "function", "name": "log", "namespace": "git"}, CallMode.REQUIRED, {"git.log"}),
        ({"type": "custom", "name": "patch"}, CallMode.REQUIRED, {"patch"}),
        (
            {
                "type": "allowed_tools",
                "mode": "auto",
                "tools": [
                    {"type": "web_search"},
                    {"type": "custom", "name": "patch"},
                    {"type": "function", "name": "git.log"},
                ],
            },
            CallMode.AUTO,
            {"patch", "git.log"},
        ),
    ],
)
def test_the_choice_of_a_tool_is_read(choice, mode, names):
    asked = read(tools=[FUNCTION, NAMESPACE, PATCH], tool_choice=choice)
    use = asked.generation.conversation.tools
    assert use.choice.mode is mode
    assert use.choice.names == names
    may_be_called = {spec.name for spec in use.specs}
    everything = {"f", "git.log", "git.apply", "patch"}
    assert may_be_called == (set() if mode is CallMode.NONE else names or everything)
    assert len(use.rendered) == 4  # also what may not be called: the cache depends on it
    assert asked.settings["tool_choice"] == (choice or "auto")


@pytest.mark.parametrize(
    ("tools", "param"),
    [
        (3, "tools"),
        ([1], "tools[0]"),
        ([{"type": 1}], "tools[0].type"),
        ([{"type": "web search\r\nx: y"}], "tools[0].type"),
        ([{"type": "ü"}], "tools[0].type"),
        ([{"type": "function"}], "tools[0].name"),
        ([{"type": "function", "name": "a b"}], "tools[0].name"),
        ([{"type": "function", "name": "a", "parameters": "x"}], "tools[0].parameters"),
        ([{"type": "function", "name": "a", "description": 1}], "tools[0].description"),
        ([{"type": "function", "name": "a", "strict": "yes"}], "tools[0].strict"),
        ([FUNCTION, FUNCTION], "tools[1]"),
        ([NAMESPACE, {"type": "function", "name": "git.log"}], "tools[1]"),
        ([{"type": "namespace", "tools": []}], "tools[0].name"),
        ([{"type": "namespace", "name": "n"}], "tools[0].tools"),
        ([{"type": "namespace", "name": "n", "tools": [{}]}], "tools[0].tools[0].name"),
        (
            [{"type": "namespace", "name": "n" * 100, "tools": [{"name": "a" * 100}]}],
            "tools[0].tools[0].name",
        ),
        ([{"type": "custom"}], "tools[0].name"),
        ([{"type": "custom", "name": "c", "format": "x"}], "tools[0].format"),
        ([{"type": "custom", "name": "c", "format": {"type": "x"}}], "tools[0].format.type"),
        (
            [{"type": "custom", "name": "c", "format": {"type": "grammar", "syntax": "lark"}}],
            "tools[0].format.definition",
        ),
        ([{"type": "function", "name": f"f{number}"} for number in range(513)], "tools"),
    ],
)
def test_each_malformed_tool_is_named_by_its_path(tools, param):
    assert refusal(tools=tools).param == param


@pytest.mark.parametrize(
    ("choice", "param"),
    [
        (1, "tool_choice"),
        ("some", "tool_choice"),
        ({}, "tool_choice.type"),
        ({"type": "web_search"}, "tool_choice.type"),
        ({"type": "function", "name": "g"}, "tool_choice.name"),
        ({"type": "function", "name": 1}, "tool_choice.name"),
        ({"type": "custom", "name": "g"}, "tool_choice.name"),
        ({"type": "allowed_tools", "mode": "auto", "tools": []}, "tool_choice.tools"),
        ({"type": "allowed_tools", "mode": "x", "tools": [FUNCTION]}, "tool_choice.mode"),
    ],
)
def test_each_impossible_choice_of_a_tool_is_named(choice, param):
    assert refusal(tools=[FUNCTION], tool_choice=choice).param == param


def test_a_call_cannot_be_required_when_all_tools_were_left_out():
    error = refusal(tools=[{"type": "web_search"}], tool_choice="required")
    assert error.param == "tool_choice"


# -- settings ----------------------------------------------------------------------------------


def test_settings_are_repeated_with_the_values_in_effect():
    settings = read(
        instructions="Be brief.",
        max_output_tokens=9,
        temperature=0.5,
        store=True,
        truncation="auto",
        reasoning={"effort": "xhigh", "summary": "auto"},
        metadata={"a": "b", "c": 1},
        user="me",
        parallel_tool_calls=False,
        text={"format": {"type": "json_object"}, "verbosity": "low"},
    ).settings
    assert settings["instructions"] == "Be brief."
    assert settings["max_output_tokens"] == 9
    assert settings["temperature"] == 0.5
    assert settings["store"] is False
    assert settings["truncation"] == "disabled"
    assert settings["reasoning"] == {"effort": "high", "summary": None}
    assert settings["metadata"] == {"a": "b"}
    assert settings["user"] == "me"
    assert settings["parallel_tool_calls"] is False
    assert settings["text"] == {"format": {"type": "json_object"}}


@pytest.mark.parametrize(
    ("word", "effort"),
    [
        ("none", Effort.NONE),
        ("minimal", Effort.LOW),
        ("low", Effort.LOW),
        ("medium", Effort.MEDIUM),
        ("high", Effort.HIGH),
        ("xhigh", Effort.HIGH),
        ("max", Effort.HIGH),
        (None, Effort.HIGH),
    ],
)
def test_every_spelling_of_a_thinking_level_is_understood(word, effort):
    asked = read(reasoning={"effort": word})
    assert asked.generation.conversation.effort is effort


def test_the_format_of_the_text_is_read():
    schema = {"type": "object", "properties": {}}
    form = {"type": "json_schema", "name": "n", "schema": schema, "strict": True}
    wanted = read(text={"format": form}).generation.response_format
    assert wanted.kind is FormatKind.JSON_SCHEMA
    assert wanted.schema == schema
    assert wanted.is_strict
    assert wanted.path == "text.format.schema"


def test_log_probabilities_are_asked_for_by_include_or_by_a_number():
    assert read().generation.sampling.top_logprobs == -1
    assert read(top_logprobs=0).generation.sampling.top_logprobs == -1
    assert read(top_logprobs=3).generation.sampling.top_logprobs == 3
    wanted = read(include=["message.output_text.logprobs", "code_interpreter_call.outputs"])
    assert wanted.generation.sampling.top_logprobs == 0
    assert read(include=["reasoning.encrypted_content"]).seals_reasoning


@pytest.mark.parametrize(
    ("fields", "param", "code"),
    [
        ({"previous_response_id": "resp_1"}, "previous_response_id", "unsupported_parameter"),
        ({"conversation": {"id": "c"}}, "conversation", "unsupported_parameter"),
        ({"background": True}, "background", "unsupported_parameter"),
        ({"prompt": {"id": "p"}}, "prompt", "unsupported_parameter"),
        ({"model": 3}, "model", "invalid_type"),
        ({"model": "x" * 600}, "model", "invalid_value"),
        ({"instructions": ["x"]}, "instructions", "invalid_type"),
        ({"stream": "yes"}, "stream", "invalid_type"),
        ({"temperature": 3}, "temperature", "invalid_value"),
        ({"max_output_tokens": 0}, "max_output_tokens", "invalid_value"),
        ({"top_logprobs": 21}, "top_logprobs", "invalid_value"),
        ({"include": "all"}, "include", "invalid_type"),
        ({"include": [1]}, "include[0]", "invalid_type"),
        ({"parallel_tool_calls": 1}, "parallel_tool_calls", "invalid_type"),
        ({"reasoning": "high"}, "reasoning", "invalid_type"),
        ({"reasoning": {"effort": "extreme"}}, "reasoning.effort", "invalid_value"),
        ({"text": "x"}, "text", "invalid_type"),
        ({"text": {"format": {}}}, "text.format.type", "missing_required_parameter"),
        ({"text": {"format": {"type": "xml"}}}, "text.format.type", "invalid_value"),
        (
            {"text": {"format": {"type": "json_schema", "name": "n"}}},
            "text.format.schema",
            "missing_required_parameter",
        ),
    ],
)
def test_each_field_that_cannot_be_honoured_is_named(fields, param, code):
    error = refusal(**fields)
    assert (error.param, error.code) == (param, code)


def test_null_and_false_mean_not_given():
    nothing = dict.fromkeys(
        ("previous_response_id", "conversation", "prompt", "tools", "tool_choice", "include")
    )
    read(**nothing, background=False, reasoning=None, text=None, stream=None, metadata=None)
