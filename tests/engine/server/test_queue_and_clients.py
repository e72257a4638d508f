"""Waiting, cancelling, and clients that go away, on a server with one place and one waiting seat."""

import socket
import threading

import openai
import pytest

# Minutes, so that it ends by what a test does and not by itself.
SLOW = {"when": "SLOW", "times": 0, "text": "to and fro " * 1500, "delay_ms": 50}
PROMPT = {
    "when": "LONGREAD",
    "times": 0,
    "text": "Hm.</think>\n\nRead.",
    "prompt_delay_ms": 300_000,
    "prompt_steps": 300,
}
QUICK = {"when": "QUICK", "times": 0, "text": "Hm.</think>\n\nYes."}


@pytest.fixture(scope="module")
def server(start_server):
    script = {"context": 16384, "answers": [SLOW, PROMPT, QUICK]}
    flags = ("--parallel", "1", "--queue-max", "1", "--sse-keepalive-s", "1")
    return start_server(script, *flags)


def close_hard(connection):
    """Close with a reset, as a killed program does."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
    connection.close()


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("content", ["SLOW", "LONGREAD"])
def test_a_client_that_goes_away_stops_the_work_at_once(server, content, stream):
    connection = server.raw_chat(content, stream=stream)
    busy = "thinking" if content == "SLOW" else "reading"
    server.wait_for(lambda s: s["state"] == busy)
    connection.close()
    server.wait_disconnected()
    assert server.chat("QUICK").status_code == 200
    assert "finish=disconnected" in server.log()


@pytest.mark.parametrize("stream", [False, True])
def test_a_waiting_client_that_goes_away_leaves_the_queue(server, stream):
    running = server.raw_chat("SLOW", stream=True)
    server.wait_for(lambda s: s["running"] is not None)
    waiting = server.raw_chat("QUICK", stream=stream)
    status = server.wait_for(lambda s: s["queued"] == 1)
    assert status["waiting"][0]["position"] == 1
    close_hard(waiting)
    server.wait_for(lambda s: s["queued"] == 0)
    assert server.status()["running"] is not None
    running.close()
    server.wait_idle()


def test_a_full_queue_answers_429_and_the_sdk_retries_until_there_is_room(server):
    running = server.raw_chat("SLOW", stream=True)
    server.wait_for(lambda s: s["running"] is not None)
    waiting = server.raw_chat("QUICK", stream=False)
    server.wait_for(lambda s: s["queued"] == 1)
    refused = server.chat("QUICK")
    assert refused.status_code == 429
    assert refused.headers["retry-after"] == "2"
    assert refused.json()["error"]["code"] == "queue_full"
    assert refused.json()["error"]["type"] == "rate_limit_error"
    timer = threading.Timer(0.5, running.close)
    timer.start()
    messages = [{"role": "user", "content": "QUICK"}]
    with server.openai(max_retries=9) as client:
        answer = client.chat.completions.create(model="m", messages=messages)
    assert answer.choices[0].message.content == "Yes."
    timer.join()
    assert b" 200 OK" in waiting.recv(4096)
    waiting.close()


def test_a_waiting_stream_gets_keep_alives_and_then_its_answer(server):
    running = server.raw_chat("SLOW", stream=True)
    server.wait_for(lambda s: s["running"] is not None)
    waiting = server.raw_chat("QUICK", stream=True)
    received = b""
    while b": keep-alive\n\n" not in received:
        received += waiting.recv(4096)
    assert b" 200 OK" in received
    assert b"data:" not in received
    running.close()
    while b"[DONE]" not in received:
        received += waiting.recv(4096)
    waiting.close()


def test_a_slow_prompt_gets_keep_alives(server):
    connection = server.raw_chat("LONGREAD", stream=True)
    received = b""
    while received.count(b": keep-alive\n\n") < 2:
        received += connection.recv(4096)
    connection.close()
    server.wait_idle()


@pytest.mark.parametrize("stream", [False, True])
def test_a_running_request_can_be_cancelled_and_ends_with_stop(server, stream):
    connection = server.raw_chat("SLOW", stream=stream)
    status = server.wait_for(lambda s: (s["running"] or {}).get("generated", 0) > 3)
    path = f"/v1/requests/{status['running']['request_id']}/cancel"
    assert server.http.post(path).status_code == 200
    received = b""
    ending = b"[DONE]" if stream else b'"timings"'
    while ending not in received:
        part = connection.recv(65536)
        assert part, received
        received += part
    connection.close()
    assert b'"finish_reason":"stop"' in received
    server.wait_idle()
    assert server.http.post(path).status_code == 404


def test_a_waiting_request_can_be_cancelled(server):
    running = server.raw_chat("SLOW", stream=True)
    server.wait_for(lambda s: s["running"] is not None)
    waiting = server.raw_chat("QUICK", stream=False)
    status = server.wait_for(lambda s: s["queued"] == 1)
    server.http.post(f"/v1/requests/{status['waiting'][0]['request_id']}/cancel")
    received = b""
    while b'"timings"' not in received:  # headers and body may come one by one
        part = waiting.recv(65536)
        assert part, received
        received += part
    assert b" 200 OK" in received
    assert b'"content":""' in received
    waiting.close()
    running.close()
    server.wait_idle()


def test_status_counts_what_a_running_request_does(server):
    connection = server.raw_chat("SLOW", stream=True)
    running = server.wait_for(lambda s: (s["running"] or {}).get("generated", 0) > 5)["running"]
    assert running["protocol"] == "chat"
    assert running["prompt_read"] == running["prompt_tokens"] > 0
    assert running["max_tokens"] > 1000
    assert running["tokens_per_s"] > 0
    connection.close()
    server.wait_idle()


def test_a_request_that_waits_too_long_gets_503(start_server):
    script = {"context": 16384, "answers": [SLOW, QUICK]}
    server = start_server(script, "--parallel", "1", "--queue-timeout-s", "0.3")
    running = server.raw_chat("SLOW", stream=True)
    server.wait_for(lambda s: s["running"] is not None)
    refused = server.chat("QUICK")
    assert refused.status_code == 503
    assert refused.json()["error"]["code"] == "queue_timeout"
    assert int(refused.headers["retry-after"]) > 0
    *_, error, done = server.events("QUICK")
    assert error["error"]["code"] == "queue_timeout"
    assert done == "[DONE]"
    with server.openai() as client:
        messages = [{"role": "user", "content": "QUICK"}]
        stream = client.chat.completions.create(model="m", messages=messages, stream=True)
        with pytest.raises(openai.APIError, match="waited"):
            list(stream)
    running.close()
