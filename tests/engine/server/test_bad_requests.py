"""What a real server answers to requests that cannot be served."""

import json
import time

import pytest

JSON = {"content-type": "application/json"}
HELLO = [{"role": "user", "content": "hello"}]
TOOL = {"type": "function", "function": {"name": "now"}}
CALL = {"id": "a", "type": "function", "function": {"name": "now", "arguments": "{}"}}


@pytest.fixture(scope="module")
def server(start_server):
    script = {"context": 1024, "answers": [{"times": 0, "text": "Hm.</think>\n\nYes."}]}
    flags = ("--max-body-mib", "1", "--strict-model", "--model-id", "mine")
    return start_server(script, *flags)


def error_of(reply, status):
    assert reply.status_code == status, reply.text
    assert reply.headers["content-type"] == "application/json; charset=utf-8"
    error = reply.json()["error"]
    assert set(error) >= {"message", "type", "param", "code"}
    assert "Traceback" not in error["message"]
    return error


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (b"", "invalid_json"),
        (b"   ", "invalid_json"),
        (b"{", "invalid_json"),
        (b"hello", "invalid_json"),
        (b'{"messages": NaN}', "invalid_json"),
        (b'{"temperature": Infinity}', "invalid_json"),
        (b'{"temperature": 1e999}', "invalid_json"),
        (b'{"a": "\xff"}', "invalid_json"),
        (b"[" * 129 + b"]" * 129, "invalid_json"),
        (b"[" * 200_000, "invalid_json"),
        (b'{"n": ' + b"9" * 5000 + b"}", "invalid_json"),
        (b"[]", "invalid_type"),
        (b'"text"', "invalid_type"),
        (b"null", "invalid_type"),
    ],
)
def test_a_body_that_is_no_json_object_is_refused(server, raw, code):
    reply = server.http.post("/v1/chat/completions", content=raw, headers=JSON)
    assert error_of(reply, 400)["code"] == code


def test_a_byte_order_mark_and_duplicate_keys_are_accepted(server):
    raw = b'\xef\xbb\xbf{"n": 9, "messages": [{"role": "user", "content": "x"}], "n": 1}'
    reply = server.http.post("/v1/chat/completions", content=raw, headers=JSON)
    assert reply.status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"content-type": "text/plain"},
        {"content-type": "application/x-www-form-urlencoded"},
        {"content-type": "application/json", "content-encoding": "gzip"},
        {"origin": "http://localhost:3000"},
    ],
)
def test_other_body_types_are_refused(server, headers):
    raw = json.dumps({"messages": HELLO}).encode()
    reply = server.http.post("/v1/chat/completions", content=raw, headers=headers)
    assert error_of(reply, 415)["code"] == "unsupported_media_type"


def test_a_missing_content_type_and_a_charset_are_accepted(server):
    raw = json.dumps({"messages": HELLO}).encode()
    for headers in ({}, {"content-type": "application/json; charset=utf-8"}):
        reply = server.http.post("/v1/chat/completions", content=raw, headers=headers)
        assert reply.status_code == 200


def test_a_body_over_the_limit_is_refused_plain_and_chunked(server):
    def chunks():
        for _ in range(40):
            yield b" " * 65536

    for content in (b" " * (2 << 20), chunks()):
        reply = server.http.post("/v1/chat/completions", content=content, headers=JSON)
        assert error_of(reply, 413)["code"] == "request_too_large"


@pytest.mark.parametrize(
    ("fields", "code", "param"),
    [
        ({"messages": None}, "missing_required_parameter", "messages"),
        ({"messages": []}, "invalid_value", "messages"),
        ({"messages": "[]"}, "invalid_value", "messages"),
        ({"messages": "hello"}, "invalid_type", "messages"),
        ({"messages": {"role": "user"}}, "invalid_type", "messages"),
        ({"messages": ["hi"]}, "invalid_type", "messages[0]"),
        ({"messages": [{"content": "x"}]}, "missing_required_parameter", "messages[0].role"),
        ({"messages": [{"role": "wizard", "content": "x"}]}, "invalid_value", "messages[0].role"),
        ({"messages": [{"role": 3, "content": "x"}]}, "invalid_type", "messages[0].role"),
        ({"messages": [{"role": "user", "content": 5}]}, "invalid_type", "messages[0].content"),
        (
            {"messages": [{"role": "user", "content": [{"text": "x"}]}]},
            "missing_required_parameter",
            "messages[0].content[0].type",
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "hologram"}]}]},
            "invalid_value",
            "messages[0].content[0].type",
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "input_audio"}]}]},
            "unsupported_value",
            "messages[0].content[0].type",
        ),
        (
            {
                "messages": [
                    *HELLO,
                    {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]},
                ]
            },
            "image_unsupported",
            "messages[1].content[0]",
        ),
        ({"messages": [{"role": "system", "content": "x"}]}, "template_error", "messages"),
        (
            {"messages": [*HELLO, {"role": "tool", "tool_call_id": "z", "content": "1"}]},
            "invalid_value",
            "messages[1].tool_call_id",
        ),
        (
            {
                "messages": [
                    *HELLO,
                    {"role": "assistant", "tool_calls": [CALL]},
                    {"role": "tool", "content": "1"},
                ]
            },
            "missing_required_parameter",
            "messages[2].tool_call_id",
        ),
        (
            {"messages": [*HELLO, {"role": "assistant", "tool_calls": [{"id": "a"}]}]},
            "missing_required_parameter",
            "messages[1].tool_calls[0].function",
        ),
        ({"temperature": 3}, "invalid_value", "temperature"),
        ({"temperature": "0.7"}, "invalid_type", "temperature"),
        ({"temperature": True}, "invalid_type", "temperature"),
        ({"top_p": 0}, "invalid_value", "top_p"),
        ({"top_k": -1}, "invalid_value", "top_k"),
        ({"top_k": 1.5}, "invalid_type", "top_k"),
        ({"min_p": 2}, "invalid_value", "min_p"),
        ({"presence_penalty": 3}, "invalid_value", "presence_penalty"),
        ({"repeat_penalty": 0}, "invalid_value", "repeat_penalty"),
        ({"penalty_last_n": -2}, "invalid_value", "penalty_last_n"),
        ({"seed": "x"}, "invalid_type", "seed"),
        ({"seed": 2**63}, "invalid_value", "seed"),
        ({"logit_bias": {"9999999": 1}}, "invalid_value", "logit_bias.9999999"),
        ({"logit_bias": {"0" * 12 + "99999": 1}}, "invalid_value", "logit_bias.00000000000099999"),
        ({"logit_bias": {"x": 1}}, "invalid_value", "logit_bias.x"),
        ({"logit_bias": {"1": 101}}, "invalid_value", "logit_bias.1"),
        ({"logit_bias": [1]}, "invalid_type", "logit_bias"),
        ({"stop": ["x"] * 17}, "invalid_value", "stop"),
        ({"stop": ["x" * 257]}, "invalid_value", "stop[0]"),
        ({"stop": [1]}, "invalid_type", "stop[0]"),
        ({"stop": 5}, "invalid_type", "stop"),
        ({"max_tokens": 0}, "invalid_value", "max_tokens"),
        ({"max_tokens": "5"}, "invalid_type", "max_tokens"),
        ({"max_completion_tokens": -2}, "invalid_value", "max_completion_tokens"),
        ({"n": 5}, "invalid_value", "n"),
        ({"n": 0}, "invalid_value", "n"),
        ({"top_logprobs": 2}, "invalid_value", "top_logprobs"),
        ({"logprobs": True, "top_logprobs": 21}, "invalid_value", "top_logprobs"),
        ({"logprobs": 3}, "invalid_type", "logprobs"),
        ({"stream": "yes"}, "invalid_type", "stream"),
        ({"stream": True, "stream_options": []}, "invalid_type", "stream_options"),
        ({"reasoning_effort": "extreme"}, "invalid_value", "reasoning_effort"),
        ({"reasoning_effort": 3}, "invalid_type", "reasoning_effort"),
        ({"reasoning": {"effort": "x"}}, "invalid_value", "reasoning.effort"),
        (
            {"chat_template_kwargs": {"enable_thinking": "no"}},
            "invalid_type",
            "chat_template_kwargs.enable_thinking",
        ),
        ({"reasoning_budget_tokens": -1}, "invalid_value", "reasoning_budget_tokens"),
        ({"tools": "x"}, "invalid_type", "tools"),
        ({"tools": [{"type": "custom"}]}, "unsupported_value", "tools[0].type"),
        ({"tools": [{"type": "function"}]}, "missing_required_parameter", "tools[0].function"),
        (
            {"tools": [{"type": "function", "function": {"name": "a b"}}]},
            "invalid_value",
            "tools[0].function.name",
        ),
        ({"tools": [TOOL, TOOL]}, "invalid_value", "tools[1]"),
        (
            {"tools": [{"type": "function", "function": {"name": "a", "parameters": []}}]},
            "invalid_type",
            "tools[0].function.parameters",
        ),
        ({"tools": [TOOL], "tool_choice": "sometimes"}, "invalid_value", "tool_choice"),
        ({"tool_choice": "required"}, "invalid_value", "tool_choice"),
        ({"tools": [TOOL], "tool_choice": 5}, "invalid_type", "tool_choice"),
        ({"tools": [TOOL], "tool_choice": {"type": "magic"}}, "invalid_value", "tool_choice.type"),
        (
            {"tools": [TOOL], "tool_choice": {"type": "allowed_tools", "allowed_tools": {}}},
            "missing_required_parameter",
            "tool_choice.allowed_tools.tools",
        ),
        (
            {
                "tools": [TOOL],
                "tool_choice": {"type": "allowed_tools", "tools": [{"name": "other"}]},
            },
            "invalid_value",
            "tool_choice.tools[0].name",
        ),
        (
            {
                "tools": [TOOL],
                "tool_choice": {"type": "function", "function": {"name": "other"}},
            },
            "invalid_value",
            "tool_choice.function.name",
        ),
        ({"functions": []}, "unsupported_parameter", "functions"),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "x"}}},
            "missing_required_parameter",
            "response_format.json_schema.schema",
        ),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"schema": []}}},
            "invalid_type",
            "response_format.json_schema.schema",
        ),
        (
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"schema": {"description": "x" * 262_144}},
                }
            },
            "invalid_schema",
            "response_format.json_schema.schema",
        ),
        ({"stratum_mcp": "yes"}, "invalid_type", "stratum_mcp"),
        ({"stratum_mcp": [1]}, "invalid_type", "stratum_mcp[0]"),
        ({"response_format": {"type": "xml"}}, "invalid_value", "response_format.type"),
        ({"modalities": ["text", "audio"]}, "unsupported_value", "modalities"),
        ({"audio": {}}, "unsupported_parameter", "audio"),
        ({"guided_json": {}}, "unsupported_parameter", "guided_json"),
        ({"chat_template": "x"}, "unsupported_parameter", "chat_template"),
        ({"add_generation_prompt": False}, "unsupported_parameter", "add_generation_prompt"),
        ({"model": 5}, "invalid_type", "model"),
    ],
)
def test_a_bad_field_is_named(server, fields, code, param):
    body = {"messages": HELLO, **fields}
    error = error_of(server.http.post("/v1/chat/completions", json=body), 400)
    assert (error["code"], error["param"]) == (code, param)
    assert error["type"] == "invalid_request_error"
    assert error["message"].count("\n") == 0


@pytest.mark.parametrize(
    "fields",
    [
        dict.fromkeys(
            ("temperature", "stop", "tools", "stream", "n", "seed", "logit_bias", "user")
        ),
        {"max_tokens": 4.0, "top_k": 20.0, "seed": -1},
        {"stop": ["", "never"], "stream_options": {"include_usage": True}},
        {"store": True, "metadata": {"a": 1}, "user": "me", "verbosity": "low", "zebra": [1]},
        {"response_format": {"type": "text"}, "modalities": ["text"]},
        {"chat_template_kwargs": {"anything": 1}, "reasoning": {"effort": None}},
        {"logit_bias": {"1": -100, "2": 100, "0" * 5000 + "3": 1}},
        {"model": ""},
        {"model": "mine"},
    ],
)
def test_null_whole_floats_and_hints_are_accepted(server, fields):
    reply = server.chat("hello", **fields)
    assert reply.status_code == 200, reply.text


def test_strict_model_refuses_an_unknown_name(server):
    error = error_of(server.chat("hello", model="other"), 404)
    assert error["code"] == "model_not_found"
    assert error["type"] == "not_found_error"


def test_half_a_surrogate_pair_in_a_message_or_name_is_no_failure(server):
    raw = b'{"messages": [{"role": "user", "content": "a \\ud800 b"}], "user": "\\ud800"}'
    reply = server.http.post("/v1/chat/completions", content=raw, headers=JSON)
    assert reply.status_code == 200
    raw = b'{"messages": [{"role": "user", "content": "a"}], "model": "\\ud800"}'
    reply = server.http.post("/v1/chat/completions", content=raw, headers=JSON)
    assert error_of(reply, 404)["code"] == "model_not_found"


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 64,  # a TLS hello
        b"GET / HTTP/1.1\r\n\r\n",  # no Host
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: evil.example\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"y" * 70_000 + b"\r\n\r\n",
    ],
)
def test_what_is_no_good_http_gets_400_and_the_server_goes_on(server, request_bytes):
    connection = server.raw(request_bytes)
    try:
        answer = connection.recv(65536)
    except ConnectionResetError:  # it closed while we were still sending
        answer = b"HTTP/1.1 400"
    connection.close()
    assert answer.startswith(b"HTTP/1.1 400")
    assert server.http.get("/health").status_code == 200


def test_a_client_that_vanishes_while_sending_leaves_no_trace(server):
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n"
    head += "Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"
    connection = server.raw(head.encode())
    time.sleep(0.1)
    connection.close()
    assert server.chat("hello").status_code == 200
    assert "Traceback" not in server.log()


@pytest.mark.parametrize(
    "fields",
    [
        {"logit_bias": {"z" * 100_000: 1}},
        {"guided_" + "z" * 100_000: 1},
        {"model": "z" * 100_000},
        {"tools": [TOOL], "tool_choice": {"type": "function", "name": "z" * 100_000}},
        {"messages": [{"role": "z" * 100_000}]},
    ],
)
def test_an_error_quotes_no_long_texts_of_the_client(server, fields):
    reply = server.http.post("/v1/chat/completions", json={"messages": HELLO, **fields})
    assert error_of(reply, 400)["param"]
    assert len(reply.content) < 1000


@pytest.mark.parametrize("raw", [b"[]", b"1", b"null", b"{"])
def test_what_is_no_field_has_no_param(server, raw):
    reply = server.http.post("/v1/chat/completions", content=raw, headers=JSON)
    assert error_of(reply, 400)["param"] is None


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("messages", "hello"),
        ("messages", '[{"role": "user", "content": "x", "a": NaN}]'),
        ("messages", '[{"role": "user", "content": "x", "a": 1e999}]'),
        ("tools", "[" * 1000 + "]" * 1000),
    ],
)
def test_a_field_that_was_encoded_twice_is_as_strict_as_the_body(server, key, text):
    reply = server.http.post("/v1/chat/completions", json={"messages": HELLO, key: text})
    assert error_of(reply, 400)["param"] == key


@pytest.mark.parametrize("messages", [HELLO * 60_000, [{"role": "user", "content": "a" * 990_000}]])
def test_what_cannot_fit_whatever_it_says_is_refused_without_counting(server, messages):
    body = json.dumps({"messages": messages}, separators=(",", ":")).encode()[: 1 << 20]
    if not body.endswith(b"}"):  # too many for the body limit of this server
        messages = messages[:20_000]
    error = error_of(server.http.post("/v1/chat/completions", json={"messages": messages}), 400)
    assert error["code"] == "context_length_exceeded"
    assert "at least" in error["message"]
    assert error["n_prompt_tokens"] > error["n_ctx"]


def test_earlier_calls_with_wild_arguments_do_not_end_a_conversation(server):
    for arguments in ("[" * 900 + "]" * 900, '{"a": ' + "[" * 900 + "]" * 900 + "}", '{"a": NaN}'):
        call = {**CALL, "function": {"name": "now", "arguments": arguments}}
        turns = [*HELLO, {"role": "assistant", "tool_calls": [call]}]
        reply = server.http.post("/v1/chat/completions", json={"model": "mine", "messages": turns})
        # 900 brackets are more tokens than this context has; what counts is the reason
        if reply.status_code != 200:
            assert error_of(reply, 400)["code"] == "context_length_exceeded"
