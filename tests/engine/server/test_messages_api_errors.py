"""Errors, keep-alives and lost connections of `/v1/messages`, in Anthropic's shape."""

import json
import time

import anthropic
import psutil
import pytest

GOOD = {"when": "GOOD", "times": 0, "text": "Fine."}
# Counting, because a phrase that repeats would end the answer.
COUNT = " ".join(str(number) for number in range(800))
# A minute and more, so that it ends by what a test does and not by itself.
SLOW = {"when": "SLOW", "times": 0, "text": COUNT, "delay_ms": 50}
LONGREAD = {
    "when": "LONGREAD",
    "times": 0,
    "text": "At last.",
    "prompt_delay_ms": 4000,
    "prompt_steps": 1,
}
ENDLESSREAD = {**LONGREAD, "when": "ENDLESS", "prompt_delay_ms": 300_000, "prompt_steps": 300}
CRASH = {
    "when": "CRASH",
    "times": 0,
    "text": "one two three",
    "fault": {"kind": "crash", "after": 2},
}
ERROR = {"when": "ERROR", "times": 0, "text": "one two", "fault": {"kind": "error", "after": 1}}


@pytest.fixture(scope="module")
def server(start_server):
    script = {
        "context": 2048,
        "parallel": 1,
        "answers": [GOOD, SLOW, LONGREAD, ENDLESSREAD, CRASH, ERROR],
    }
    flags = ("--sse-keepalive-s", "1", "--parallel", "1", "--queue-max", "1")
    return start_server(script, *flags)


@pytest.fixture(scope="module")
def client(server):
    with anthropic.Anthropic(base_url=server.url, api_key="local", max_retries=0) as client:
        yield client


def body_of(content, **fields):
    return {"max_tokens": 2000, "messages": [{"role": "user", "content": content}], **fields}


def post(server, content, **fields):
    return server.http.post("/v1/messages", json=body_of(content, **fields))


def connect(server, content, *, stream):
    """Start a request on a socket of its own, to be closed by the test."""
    body = json.dumps(body_of(content, stream=stream)).encode()
    head = (
        f"POST /v1/messages HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return server.raw(head.encode() + body)


def check_shape(reply, status, kind):
    """The error's sentence."""
    assert reply.status_code == status, reply.text
    body = reply.json()
    assert set(body) == {"type", "error", "request_id"}
    assert body["type"] == "error"
    assert body["error"]["type"] == kind
    assert body["request_id"] == reply.headers["request-id"]
    return body["error"]["message"]


# -- refused -----------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/messages/count_tokens"])
@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b'"x"', b'{"max_tokens": NaN}', b"\xff{}"])
def test_a_body_that_is_no_object_is_refused_in_anthropics_shape(server, path, raw):
    reply = server.http.post(path, content=raw, headers={"content-type": "application/json"})
    assert check_shape(reply, 400, "invalid_request_error").endswith(".")


BLOCKS = {
    "no type": {},
    "an unknown type": {"type": "hologram"},
    "a text without text": {"type": "text"},
    "a text that is a number": {"type": "text", "text": 5},
    "a call of the user": {"type": "tool_use", "id": "t", "name": "n", "input": {}},
    "a result without a call": {"type": "tool_result", "tool_use_id": "t", "content": "x"},
    "a result without an id": {"type": "tool_result", "content": "x"},
    "an image without a source": {"type": "image"},
    "an image of a file": {"type": "image", "source": {"type": "file", "file_id": "f"}},
    "an image": {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": "AA=="},
    },
    "a PDF": {
        "type": "document",
        "source": {"type": "base64", "media_type": "application/pdf", "data": "AA=="},
    },
    "a document without a source": {"type": "document"},
    "an upload": {"type": "container_upload", "file_id": "f"},
    "a number": 5,
    "null": None,
    "a list": [],
}


@pytest.mark.parametrize("block", BLOCKS.values(), ids=BLOCKS)
def test_a_malformed_block_is_refused_with_one_sentence(server, block):
    message = check_shape(post(server, [block]), 400, "invalid_request_error")
    assert "messages[0].content[0]" in message
    assert message.endswith(".")


@pytest.mark.parametrize("stream", [False, True])
def test_a_missing_max_tokens_is_refused(server, stream):
    reply = post(server, "GOOD", max_tokens=None, stream=stream)
    assert "max_tokens" in check_shape(reply, 400, "invalid_request_error")


@pytest.mark.parametrize("stream", [False, True])
def test_a_prompt_over_the_context_is_refused_at_once_in_words_that_agents_know(
    server, client, stream
):
    messages = [{"role": "user", "content": "GOOD " * 4000}]
    running = connect(server, "SLOW", stream=True)
    server.wait_for(lambda s: s["running"] is not None)
    with pytest.raises(anthropic.BadRequestError, match=r"prompt is too long: \d+ tokens > 2048"):
        client.messages.create(model="m", max_tokens=10, messages=messages, stream=stream)
    assert server.status()["running"] is not None  # so it did not wait for its turn
    running.close()
    server.wait_idle()


def test_a_cap_over_the_room_is_refused_with_three_numbers_when_it_may_not_be_lowered(server):
    message = check_shape(
        post(server, "GOOD", max_tokens=5000, fit_max_tokens=False), 400, "invalid_request_error"
    )
    counted = server.http.post("/v1/messages/count_tokens", json=body_of("GOOD")).json()
    start = "input length and `max_tokens` exceed context limit: "
    assert message.startswith(f"{start}{counted['input_tokens']} + 5000 > 2048, ")


@pytest.mark.parametrize("stream", [False, True])
def test_a_schema_that_points_elsewhere_is_refused(server, stream):
    form = {"type": "json_schema", "schema": {"$ref": "http://example.org/schema.json"}}
    reply = post(server, "GOOD", output_config={"format": form}, stream=stream)
    assert "http://example.org" in check_shape(reply, 400, "invalid_request_error")


@pytest.mark.parametrize(
    ("method", "path", "status", "kind"),
    [
        ("GET", "/v1/messages", 405, "invalid_request_error"),
        ("POST", "/v1/messages/batches", 404, "not_found_error"),
    ],
)
def test_the_router_answers_in_anthropics_shape_there(server, method, path, status, kind):
    check_shape(server.http.request(method, path), status, kind)


def test_other_content_types_are_refused_in_anthropics_shape(server):
    reply = server.http.post("/v1/messages", content=b"a=b", headers={"content-type": "text/x"})
    check_shape(reply, 415, "invalid_request_error")


def test_a_key_that_is_missing_is_401_in_anthropics_shape(start_server):
    key = "0123456789abcdef"
    server = start_server({"answers": [GOOD]}, environment={"STRATUM_API_KEYS": key})
    server.key = key
    check_shape(post(server, "GOOD"), 401, "authentication_error")
    with anthropic.Anthropic(base_url=server.url, api_key=key, max_retries=0) as client:
        messages = [{"role": "user", "content": "GOOD"}]
        assert client.messages.create(model="m", max_tokens=5, messages=messages)


# -- keep-alives -------------------------------------------------------------------------------

PING = b'event: ping\ndata: {"type":"ping"}\n\n'


def test_a_slow_prompt_gets_pings_after_the_start(server):
    connection = connect(server, "LONGREAD", stream=True)
    received = b""
    while b"message_stop" not in received:
        part = connection.recv(65536)
        assert part, received
        received += part
    connection.close()
    start = received.index(b"event: message_start")
    assert received.index(PING) > start
    assert received.count(PING) >= 3  # one with the start, and of four seconds two at least
    assert b": keep-alive" not in received


def test_a_waiting_stream_gets_pings_and_then_its_answer(server):
    running = connect(server, "SLOW", stream=True)
    server.wait_for(lambda s: s["running"] is not None)
    waiting = connect(server, "GOOD", stream=True)
    received = b""
    while received.count(PING) < 2:
        received += waiting.recv(65536)
    assert b"message_start" not in received
    running.close()
    while b"message_stop" not in received:
        received += waiting.recv(65536)
    waiting.close()
    server.wait_idle()


def test_the_sdk_reads_a_stream_that_begins_with_pings(server, client):
    running = connect(server, "SLOW", stream=True)
    server.wait_for(lambda s: s["running"] is not None)
    messages = [{"role": "user", "content": "GOOD"}]
    with client.messages.create(model="m", max_tokens=50, messages=messages, stream=True) as stream:
        time.sleep(1.5)
        running.close()
        kinds = [event.type for event in stream]
    assert kinds[0] == "message_start"
    assert kinds[-1] == "message_stop"


def test_a_full_queue_is_429_in_anthropics_shape(server):
    running = connect(server, "SLOW", stream=True)
    server.wait_for(lambda s: s["running"] is not None)
    waiting = connect(server, "GOOD", stream=False)
    server.wait_for(lambda s: s["queued"] == 1)
    reply = post(server, "GOOD")
    check_shape(reply, 429, "rate_limit_error")
    assert reply.headers["retry-after"] == "2"
    running.close()
    waiting.close()
    server.wait_idle()


# -- faults ------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", ["SLOW", "ENDLESS"])
@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_goes_away_stops_the_work(server, content, stream):
    connection = connect(server, content, stream=stream)
    server.wait_for(lambda s: s["running"] is not None)
    connection.close()
    server.wait_disconnected()
    assert post(server, "GOOD").status_code == 200


def test_a_worker_killed_in_a_stream_ends_it_with_an_error_event(server):
    connection = connect(server, "SLOW", stream=True)
    server.wait_for(lambda s: (s["running"] or {}).get("generated", 0) > 3)
    for child in psutil.Process(server.process.pid).children():
        child.kill()
    received = b""
    while not received.endswith(b"0\r\n\r\n"):  # the last chunk
        part = connection.recv(65536)
        assert part, received[-500:]
        received += part
    connection.close()
    last = received.removesuffix(b"\r\n0\r\n\r\n").rsplit(b"event: ", 1)[1]
    name, data = last.strip().split(b"\n")
    assert name == b"error"
    error = json.loads(data.removeprefix(b"data: "))
    assert error["type"] == "error"
    assert error["error"]["type"] == "api_error"
    assert error["error"]["message"]
    assert b"message_stop" not in received
    assert post(server, "GOOD").json()["content"][0]["text"] == "Fine."


def test_the_sdk_raises_on_an_error_in_a_stream(client):
    messages = [{"role": "user", "content": "CRASH"}]
    stream = client.messages.create(model="m", max_tokens=50, messages=messages, stream=True)
    with pytest.raises(anthropic.APIStatusError, match="api_error"):
        list(stream)


@pytest.mark.parametrize(
    ("content", "status", "kind"),
    [("CRASH", 503, "overloaded_error"), ("ERROR", 500, "api_error")],
)
def test_a_whole_answer_that_fails_is_an_error_in_anthropics_shape(server, content, status, kind):
    assert check_shape(post(server, content), status, kind)
    assert post(server, "GOOD").status_code == 200


@pytest.mark.parametrize("stream", [False, True])
def test_a_cancelled_request_ends_its_turn(server, stream):
    connection = connect(server, "SLOW", stream=stream)
    status = server.wait_for(lambda s: (s["running"] or {}).get("generated", 0) > 3)
    request_id = status["running"]["request_id"]
    assert status["running"]["protocol"] == "messages"
    assert server.http.post(f"/v1/requests/{request_id}/cancel", json={}).status_code == 200
    received = b""
    while b'"stop_reason":"end_turn"' not in received:
        part = connection.recv(65536)
        assert part, received
        received += part
    connection.close()


def test_nothing_of_a_request_is_in_the_log(server):
    post(server, "GOOD bananas", system="quince")
    assert "bananas" not in server.log()
    assert "quince" not in server.log()
