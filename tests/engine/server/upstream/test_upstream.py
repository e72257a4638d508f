"""A front without a model: another server answers behind it."""

import json
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

import anthropic
import openai
import pytest

from tests.support import mcp_tools
from tests.support.fake_upstream import MODEL, FakeUpstream

KEY = "sk-upstream-key-0815-4711"
USER = "user:pass-word-12345"

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}
NOW = {"type": "function", "function": {"name": "now"}}


@pytest.fixture(scope="module")
def fake():
    upstream = FakeUpstream()
    yield upstream
    upstream.close()


@pytest.fixture(scope="module")
def server(start_server, fake):
    tools = {
        "near": {"command": sys.executable, "args": [str(Path(mcp_tools.__file__))]},
    }
    return start_server(
        None,
        *("--upstream", f"http://{USER}@127.0.0.1:{fake.port}/v1/"),
        *("--upstream-timeout-s", "4", "--sse-keepalive-s", "1"),
        *("--mcp-servers", json.dumps(tools)),
        environment={"STRATUM_UPSTREAM_KEY": KEY},
    )


@pytest.fixture(scope="module")
def client(server):
    with server.openai() as client:
        yield client


@pytest.fixture(scope="module")
def claude(server):
    options = {"api_key": "local", "max_retries": 0, "timeout": 90}
    with anthropic.Anthropic(base_url=server.url, **options) as client:
        yield client


def asked(fake):
    """The headers and the body of the last request."""
    return fake.seen[-1]


def user(text):
    return [{"role": "user", "content": text}]


# -- passed on as they are -----------------------------------------------------------------------


def test_a_chat_is_passed_on_and_its_answer_comes_back(client, fake):
    answer = client.chat.completions.create(model="any", messages=user("hello"))
    assert answer.choices[0].message.content == "Big answer."
    assert answer.choices[0].message.reasoning_content == "I think."
    assert answer.model == "any"
    assert answer.usage.total_tokens == 30
    headers, body = asked(fake)
    assert headers["authorization"] == f"Bearer {KEY}"
    assert body == {"model": MODEL, "messages": user("hello")}


def test_the_body_goes_there_unchanged_but_for_the_models_name(server, fake):
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}
    fields = {
        "messages": [{"role": "user", "content": [image, {"type": "text", "text": "ü"}]}],
        "guided_choice": ["a", "b"],
        "top_k": 5,
        "n": 7,
    }
    assert server.http.post("/v1/chat/completions", json=fields).status_code == 200
    assert asked(fake)[1] == {**fields, "model": MODEL}


def test_the_clients_own_key_and_headers_stay_here(server, fake):
    headers = {"authorization": "Bearer of-the-client", "x-api-key": "mine", "x-odd": "1"}
    server.http.post("/v1/chat/completions", json={"messages": user("x")}, headers=headers)
    sent, _ = asked(fake)
    assert sent["authorization"] == f"Bearer {KEY}"
    assert not {"x-api-key", "x-odd", "cookie", "origin"} & sent.keys()


def test_a_streamed_chat_is_passed_on_chunk_by_chunk(client):
    stream = client.chat.completions.create(
        model="any", messages=user("x"), stream=True, stream_options={"include_usage": True}
    )
    chunks = list(stream)
    texts = [c.choices[0].delta.content or "" for c in chunks if c.choices]
    assert "".join(texts) == "Big answer. ü"
    thoughts = [getattr(c.choices[0].delta, "reasoning_content", "") for c in chunks if c.choices]
    assert "".join(thoughts) == "I think."
    assert {chunk.model for chunk in chunks} == {"any"}
    assert chunks[-1].usage.completion_tokens == 9


def test_a_text_completion_is_passed_on(server, fake):
    reply = server.http.post("/v1/completions", json={"prompt": "Once", "model": MODEL})
    assert reply.status_code == 200
    assert asked(fake)[1] == {"prompt": "Once", "model": MODEL}


# -- protocols that are translated ---------------------------------------------------------------


def test_a_message_is_answered_by_the_upstream(claude, fake):
    message = claude.messages.create(
        model="claude-x",
        max_tokens=50,
        system="Be brief.",
        messages=user("hello"),
        stop_sequences=["END"],
        thinking={"type": "enabled", "budget_tokens": 1024},
    )
    assert [block.type for block in message.content] == ["thinking", "text"]
    assert message.content[0].thinking == "I think."
    assert message.content[1].text == "Big answer. ü"
    assert message.model == "claude-x"
    usage = message.usage
    assert (usage.input_tokens, usage.cache_read_input_tokens, usage.output_tokens) == (5, 16, 9)
    _, body = asked(fake)
    assert body["model"] == MODEL
    assert [message["role"] for message in body["messages"]] == ["system", "user"]
    assert (body["max_tokens"], body["stop"]) == (50, ["END"])
    assert body["chat_template_kwargs"] == {"enable_thinking": True, "reasoning_effort": "low"}
    assert body["thinking_token_budget"] == 1024


def test_a_stop_sequence_of_the_upstream_is_told(claude):
    message = claude.messages.create(
        model="m", max_tokens=50, messages=user("STOPPED"), stop_sequences=["END"]
    )
    assert (message.stop_reason, message.stop_sequence) == ("stop_sequence", "END")


def test_a_streamed_message_with_calls_has_whole_blocks(claude):
    tools = [
        {"name": "get_weather", "input_schema": WEATHER["function"]["parameters"]},
        {"name": "now", "input_schema": {"type": "object"}},
    ]
    with claude.messages.stream(
        model="m", max_tokens=50, messages=user("TOOL"), tools=tools
    ) as stream:
        message = stream.get_final_message()
    assert message.stop_reason == "tool_use"
    calls = [(block.name, block.input) for block in message.content]
    assert calls == [("get_weather", {"city": "Rome"}), ("now", {})]


def test_a_call_that_was_cut_is_none(claude):
    tools = [{"name": "now", "input_schema": {"type": "object"}}]
    message = claude.messages.create(model="m", max_tokens=9, messages=user("CUT"), tools=tools)
    assert message.stop_reason == "max_tokens"
    assert [block.type for block in message.content] == ["text"]


def test_a_response_is_answered_by_the_upstream(client, fake):
    response = client.responses.create(
        model="gpt-x", input="hello", instructions="Be brief.", reasoning={"effort": "none"}
    )
    assert response.output_text == "Big answer. ü"
    assert response.usage.input_tokens == 21
    assert response.usage.input_tokens_details.cached_tokens == 16
    _, body = asked(fake)
    assert body["chat_template_kwargs"] == {"enable_thinking": False}


def test_a_history_with_calls_reaches_the_upstream_in_openai_form(claude, fake):
    call = {"type": "tool_use", "id": "toolu_1", "name": "now", "input": {"a": 1}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "noon"}
    claude.messages.create(
        model="m",
        max_tokens=9,
        messages=[
            *user("time?"),
            {"role": "assistant", "content": [call]},
            {"role": "user", "content": [result]},
        ],
        tools=[{"name": "now", "input_schema": {"type": "object"}}],
        tool_choice={"type": "tool", "name": "now"},
    )
    _, body = asked(fake)
    _, assistant, tool = body["messages"]
    assert assistant["tool_calls"][0]["function"] == {"name": "now", "arguments": '{"a":1}'}
    assert (tool["role"], tool["tool_call_id"], tool["content"]) == ("tool", "toolu_1", "noon")
    assert body["tool_choice"] == {"type": "function", "function": {"name": "now"}}


def test_an_assistants_last_message_is_continued_by_vllms_flags(claude, fake):
    messages = [*user("x"), {"role": "assistant", "content": "Big"}]
    claude.messages.create(model="m", max_tokens=9, messages=messages)
    _, body = asked(fake)
    assert body["continue_final_message"] is True
    assert body["add_generation_prompt"] is False


def test_mcp_tools_of_this_machine_work_with_the_upstreams_model(server, fake):
    reply = server.chat("hello", stratum_mcp=["near"])
    assert reply.status_code == 200, reply.text
    assert reply.json()["choices"][0]["message"]["content"] == "Big answer. ü"
    names = [tool["function"]["name"] for tool in asked(fake)[1]["tools"]]
    assert "near__add" in names


# -- models, health, status ----------------------------------------------------------------------


def test_the_list_of_models_is_the_upstreams(client):
    models = client.models.list().data
    assert [model.id for model in models] == [MODEL]
    assert models[0].context_length == 262144
    assert client.models.retrieve(MODEL).owned_by == "vllm"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("nothing")


def test_health_and_status_say_that_there_is_an_upstream_and_no_secret(server, fake):
    server.http.get("/v1/models")
    health = server.http.get("/health")
    assert health.json() == {"status": "ok", "loaded": True, "upstream": True}
    status = server.http.get("/status")
    assert status.json()["upstream"] == {
        "url": f"http://127.0.0.1:{fake.port}",
        "reachable": True,
    }
    assert KEY not in status.text
    assert "pass-word" not in status.text


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/tokenize", {"content": "x"}),
        ("POST", "/detokenize", {"tokens": [1]}),
        ("POST", "/apply-template", {"messages": user("x")}),
        ("POST", "/v1/messages/count_tokens", {"messages": user("x")}),
        ("POST", "/v1/responses/input_tokens", {"input": "x"}),
        ("POST", "/load", {}),
        ("POST", "/unload", {}),
        ("GET", "/props", None),
    ],
)
def test_what_needs_a_model_here_is_refused_with_a_sentence(server, method, path, body):
    reply = server.http.request(method, path, json=body)
    assert reply.status_code == 400
    assert "passes requests on" in reply.json()["error"]["message"]


# -- security ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "headers", [{"origin": "https://evil.example"}, {"host": "evil.example"}, {"origin": "null"}]
)
def test_foreign_pages_reach_no_upstream(server, fake, headers):
    before = len(fake.seen)
    body = {"messages": user("x")}
    reply = server.http.post("/v1/chat/completions", json=body, headers=headers)
    assert reply.status_code == 403
    assert len(fake.seen) == before


# -- what goes wrong there -----------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("text", "status", "code", "words"),
    [
        ("STATUS400", 400, "context_length_exceeded", "maximum context length is 10 tokens"),
        ("STATUS401", 500, "engine_failed", "Set upstream_key"),
        ("STATUS429", 429, "queue_full", ""),
        ("STATUS500", 503, "engine_failed", "HTTP 500"),
    ],
)
def test_a_refusal_there_is_one_of_ours_with_its_own_status(
    server, text, status, code, words, stream
):
    reply = server.chat(text, stream=stream)
    error = reply.json()["error"]
    assert (reply.status_code, error["code"]) == (status, code)
    assert words in error["message"]
    assert KEY not in reply.text
    if status == 429:
        assert reply.headers["retry-after"] == "7"
    if text == "STATUS401":
        assert reply.headers["x-should-retry"] == "false"


def test_a_context_that_is_too_long_there_is_said_in_each_protocols_words(server, claude):
    with pytest.raises(anthropic.BadRequestError, match=r"prompt is too long: .* 10 tokens"):
        claude.messages.create(model="m", max_tokens=9, messages=user("STATUS400"))
    with (
        pytest.raises(anthropic.BadRequestError, match="prompt is too long"),
        claude.messages.stream(model="m", max_tokens=9, messages=user("STATUS400")) as stream,
    ):
        stream.get_final_message()
    for is_streamed in (False, True):
        body = {"input": "STATUS400", "stream": is_streamed}
        reply = server.http.post("/v1/responses", json=body)
        error = reply.json()["error"]
        assert (reply.status_code, error["code"]) == (400, "context_length_exceeded")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("BREAK", "ended in the middle"),
        ("ERRMID", "the engine died"),
        ("GARBAGE", "could not be read"),
        ("SILENT", "was silent for 4 seconds"),
    ],
)
def test_a_stream_that_breaks_ends_with_an_error_in_each_protocol(server, claude, text, words):
    events = server.events(text)
    assert words in events[-2]["error"]["message"]
    assert events[-1] == "[DONE]"
    with (
        pytest.raises(anthropic.APIStatusError, match=words),
        claude.messages.stream(model="m", max_tokens=9, messages=user(text)) as stream,
    ):
        stream.get_final_message()
    reply = server.http.post("/v1/responses", json={"input": text})
    assert reply.status_code == 503
    assert words in reply.json()["error"]["message"]


def wait_until(condition, timeout_s=60.0):
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("text", ["LATE", "SILENT"])
def test_a_client_that_goes_away_is_gone_at_the_upstream_too(server, fake, text, stream):
    if text == "SILENT" and not stream:
        pytest.skip("a whole answer has no middle")
    before, fake.began = fake.gone, type(fake.began)()
    connection = server.raw_chat(text, stream=stream)
    assert fake.began.wait(60)
    connection.close()
    wait_until(lambda: fake.gone > before)
    server.wait_idle()


def test_a_cancelled_request_ends_as_if_it_were_complete(server, fake):
    before, fake.began = fake.gone, type(fake.began)()
    body = {"messages": user("SILENT"), "stream": True}
    with server.http.stream("POST", "/v1/chat/completions", json=body) as reply:
        assert fake.began.wait(60)
        request_id = reply.headers["x-request-id"]
        assert server.http.post(f"/v1/requests/{request_id}/cancel").status_code == 200
        lines = [line for line in reply.iter_lines() if line.startswith("data:")]
    assert lines[-1] == "data: [DONE]"
    assert json.loads(lines[-2][5:])["choices"][0]["finish_reason"] == "stop"
    wait_until(lambda: fake.gone > before)


def test_an_upstream_that_is_late_gets_keep_alives_out(server):
    with server.http.stream(
        "POST", "/v1/chat/completions", json={"messages": user("LATE"), "stream": True}
    ) as reply:
        lines = list(reply.iter_lines())
    assert ": keep-alive" in lines
    assert any("was silent for 4 seconds" in line for line in lines)


def test_an_upstream_that_is_down_is_said_and_the_front_lives(start_server):
    front = start_server(None, "--upstream", "http://127.0.0.1:9")
    for path, body in [
        ("/v1/chat/completions", {"messages": user("x")}),
        ("/v1/chat/completions", {"messages": user("x"), "stream": True}),
        ("/v1/messages", {"messages": user("x"), "max_tokens": 9}),
        ("/v1/messages", {"messages": user("x"), "max_tokens": 9, "stream": True}),
        ("/v1/responses", {"input": "x"}),
    ]:
        reply = front.http.post(path, json=body)
        assert reply.status_code == 503, (path, reply.text)
        assert "http://127.0.0.1:9 cannot be reached" in reply.text
    assert front.http.get("/v1/models").status_code == 503
    assert front.http.get("/health").json()["loaded"] is False
    assert front.status()["upstream"] == {"url": "http://127.0.0.1:9", "reachable": False}


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--upstream", "ftp://user:hidden-word@host"], "http://host:8000/v1"),
        (["--upstream", "cluster:8000"], "http://host:8000/v1"),
        (["--upstream", "http://host", "--script", "some.json"], "Use one of them"),
        (["--upstream", "http://LOCALHOST:8099/v1", "--port", "8099"], "this server's own address"),
        (["--upstream", "http://localhost/v1", "--port", "80"], "(port 80)"),
    ],
)
def test_an_address_that_is_none_stops_the_start_and_is_not_shown(flags, words):
    root = Path(__file__).parents[4]
    command = [sys.executable, "-m", "engine", "serve", "--port", "0", *flags]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=root, timeout=300, check=False
    )
    assert done.returncode == 2
    assert words in done.stderr
    assert "hidden-word" not in done.stderr


def test_an_upstream_whose_list_does_not_come_is_said_with_the_time_that_was_waited(start_server):
    with socket.create_server(("127.0.0.1", 0)) as silent:  # takes connections, answers none
        front = start_server(None, "--upstream", f"http://127.0.0.1:{silent.getsockname()[1]}")
        assert "was silent for 5 seconds" in front.http.get("/v1/models").text


# -- another Stratum as the upstream -------------------------------------------------------------


def test_another_stratum_serves_as_the_upstream(start_server):
    key = "k" * 24
    answers = [{"times": 0, "text": "Thinking.</think>\n\nFrom far away."}]
    far = start_server({"answers": answers}, "--api-keys", key, wait=False)
    far.key = key
    while far.http.get("/health").status_code == 503:
        time.sleep(0.02)
    front = start_server(None, "--upstream", far.url, environment={"STRATUM_UPSTREAM_KEY": key})
    body = front.chat("hello", model="x").json()
    assert body["choices"][0]["message"]["content"] == "From far away."
    assert body["model"] == "x"
    deltas = [event["choices"][0]["delta"] for event in front.events("hello")[:-1]]
    assert deltas[0] == {"role": "assistant", "content": ""}
    assert "".join(delta.get("reasoning_content", "") for delta in deltas) == "Thinking."
    assert "".join(delta.get("content", "") for delta in deltas) == "From far away."
    reply = front.http.post("/v1/messages", json={"messages": user("hello"), "max_tokens": 90})
    assert reply.json()["content"][-1]["text"].endswith("From far away.")
    long = {"messages": user("word " * 5000), "max_tokens": 9}
    error = front.http.post("/v1/messages", json=long).json()["error"]["message"]
    assert re.fullmatch(r"prompt is too long: \d+ tokens > 4096 maximum", error)
    answer = front.http.post("/v1/responses", json={"input": "hello"}).json()
    assert answer["output"][-1]["content"][0]["text"] == "From far away."


def test_the_log_names_the_upstreams_host_and_holds_no_secret(server):
    server.chat("STATUS500")
    log = server.log()
    for secret in (KEY, "pass-word", "STATUS500", "Big answer"):
        assert secret not in log
    assert "Traceback" not in log, log
