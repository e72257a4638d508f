"""Workers that crash, fail or are slow to load, and a server that is told to stop."""

import json
import os
import signal
import socket
import threading
import time

import httpx
import psutil
import pytest

GOOD = {"when": "GOOD", "times": 0, "text": "Hm.</think>\n\nFine."}
CRASH = {"when": "CRASH", "text": "one two three four", "fault": {"kind": "crash", "after": 2}}
ERROR = {"when": "ERROR", "text": "one two three", "fault": {"kind": "error", "after": 1}}
# Two words: one alone would end the answer as a repetition.
FLOOD = {"when": "FLOOD", "times": 0, "text": "to and fro " * 4000, "group": 50}
# Minutes, so that it ends by what a test does and not by itself.
SLOW = {"when": "SLOW", "times": 0, "text": "to and fro " * 1500, "delay_ms": 50}


@pytest.fixture(scope="module")
def server(start_server):
    faults = [{**fault, "times": 0} for fault in (CRASH, ERROR)]
    return start_server({"context": 32768, "answers": [GOOD, SLOW, FLOOD, *faults]})


def test_a_worker_killed_in_a_stream_ends_it_with_an_error_and_is_replaced(server):
    connection = server.raw_chat("SLOW", stream=True)
    server.wait_for(lambda s: (s["running"] or {}).get("generated", 0) > 3)
    for child in psutil.Process(server.process.pid).children():
        child.kill()
    received = b""
    while b"[DONE]" not in received:
        part = connection.recv(65536)
        assert part, received[-500:]
        received += part
    connection.close()
    assert b'"code":"engine_failed"' in received
    assert b'"finish_reason":"' not in received
    assert server.chat("GOOD").json()["choices"][0]["message"]["content"] == "Fine."
    assert server.status()["restarts"] >= 1


def test_a_worker_that_dies_gives_a_whole_answer_503(server):
    reply = server.chat("CRASH")
    assert reply.status_code == 503
    assert reply.json()["error"]["code"] == "engine_failed"
    assert reply.json()["error"]["type"] == "server_error"
    assert "x-should-retry" not in reply.headers
    assert server.chat("GOOD").status_code == 200


def test_a_reader_that_stops_reading_blocks_nobody(server):
    connection = server.raw_chat("FLOOD", stream=True)
    server.wait_for(lambda s: s["running"] is not None)
    assert server.chat("GOOD").status_code == 200
    connection.close()
    server.wait_idle()  # it may have been complete, where the system's buffers held all of it


def test_a_slow_reader_pauses_the_generation_and_gets_everything_in_the_end(server):
    body = json.dumps(
        {
            "messages": [{"role": "user", "content": "FLOOD"}],
            **{"stream": True, "reasoning_effort": "none", "logprobs": True, "top_logprobs": 20},
        }
    ).encode()
    connection = socket.socket()
    connection.setsockopt(
        socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 17
    )  # else the system reads ahead
    connection.settimeout(90)
    connection.connect(("127.0.0.1", server.port))
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    connection.sendall(head.encode() + body)
    before = -1
    status = server.wait_for(lambda s: (s["running"] or {}).get("generated", 0) > 0)
    while status["running"]["generated"] != before:
        before = status["running"]["generated"]
        time.sleep(0.5)
        status = server.status()
    assert before < 10_000  # of 12,000 or more; the system's own buffers hold the most
    tail = b""
    while b"[DONE]" not in tail:
        tail = (tail + connection.recv(1 << 20))[-300:]
    connection.close()
    assert b'"finish_reason":"stop"' in tail
    server.wait_idle()


def test_a_request_that_fails_alone_is_500_and_not_to_be_retried(server):
    reply = server.chat("ERROR")
    assert reply.status_code == 500
    assert reply.json()["error"]["code"] == "engine_failed"
    assert reply.headers["x-should-retry"] == "false"
    assert server.status()["loaded"] is True


def test_requests_wait_for_a_slow_load_with_keep_alives(start_server):
    script = {"load": {"delay_ms": 5000, "steps": 5}, "answers": [GOOD]}
    server = start_server(script, "--sse-keepalive-s", "1", wait=False)
    health = server.http.get("/health")
    assert health.status_code == 503
    assert health.json()["status"] == "loading"
    assert 0 <= health.json()["progress"] < 1
    assert server.status()["state"] == "loading"
    assert server.http.get("/v1/models").json()["data"][0]["status"] == {"value": "loading"}
    reply = server.chat("GOOD", stream=True)
    assert ": keep-alive" in reply.text
    assert reply.text.endswith("data: [DONE]\n\n")
    assert server.http.get("/health").json() == {"status": "ok", "loaded": True}


def test_a_failed_load_is_503_for_all_who_wait_and_told_by_status(start_server):
    load = {"delay_ms": 300, "fail_code": "out_of_memory", "fail_message": "Not enough memory."}
    server = start_server({"load": load, "answers": [GOOD]}, wait=False)
    reply = server.chat("GOOD")
    assert reply.status_code == 503
    assert reply.json()["error"]["code"] == "load_failed"
    assert reply.json()["error"]["message"] == "Not enough memory."
    assert reply.headers["x-should-retry"] == "false"
    status = server.wait_for(lambda s: s["state"] == "failed")
    assert status["error"]["code"] == "out_of_memory"
    assert server.http.get("/health").status_code == 503


@pytest.mark.skipif(os.name == "nt", reason="Windows has no signal that can be sent politely")
def test_a_stop_signal_lets_a_running_answer_end_and_refuses_new_work(start_server):
    answer = {"when": "SHORT", "text": "</think>\n\n" + "word " * 300, "delay_ms": 20}
    server = start_server({"answers": [answer]})
    result = {}

    def ask():
        result["events"] = server.events("SHORT")

    thread = threading.Thread(target=ask)
    thread.start()
    server.wait_for(lambda s: (s["running"] or {}).get("generated", 0) > 3)
    with httpx.Client(base_url=server.url, trust_env=False, timeout=90) as other:
        server.process.send_signal(signal.SIGTERM)
        body = {"messages": []}  # 400 until the signal has come through
        while (refused := other.post("/v1/chat/completions", json=body)).status_code == 400:
            time.sleep(0.02)
    assert refused.status_code == 503
    assert refused.json()["error"]["code"] == "shutting_down"
    thread.join()
    assert result["events"][-1] == "[DONE]"
    assert result["events"][-2]["choices"][0]["finish_reason"] == "stop"
    assert server.process.wait(timeout=90) == 0
    with pytest.raises(httpx.ConnectError):
        httpx.get(server.url, trust_env=False)


def test_a_forced_shutdown_ends_running_answers_with_an_error(start_server):
    server = start_server({"context": 16384, "answers": [SLOW]})
    record_path = server.home / "data" / "engine.json"
    record = json.loads(record_path.read_text(encoding="utf-8"))
    assert (record["port"], record["pid"]) == (server.port, server.process.pid)
    assert record["nonce"] == server.status()["instance"]  # so the app knows that it is ours
    result = {}

    def ask():
        result["events"] = server.events("SLOW")

    thread = threading.Thread(target=ask)
    thread.start()
    server.wait_for(lambda s: (s["running"] or {}).get("generated", 0) > 3)
    reply = server.http.post("/shutdown", json={"force": True})
    assert reply.json() == {"status": "stopping"}
    thread.join()
    assert result["events"][-2]["error"]["code"] == "shutting_down"
    assert server.process.wait(timeout=90) == 0
    assert not record_path.exists()


def test_a_worker_that_hangs_does_not_hold_up_a_forced_shutdown(start_server):
    hang = {
        "when": "HANG",
        "times": 0,
        "text": "one two three",
        "fault": {"kind": "hang", "after": 2},
    }
    server = start_server({"answers": [hang]})
    streamed = server.raw_chat("HANG", stream=True)
    whole = server.raw_chat("HANG", stream=False)
    server.wait_for(lambda s: len(s["requests"]) == 2)
    server.wait_for(lambda s: any(request["generated"] == 2 for request in s["requests"]))
    server.http.post("/shutdown", json={"force": True})
    for connection in (streamed, whole):
        received = b""
        while part := connection.recv(65536):
            received += part
        connection.close()
        assert b'"code":"shutting_down"' in received
    assert server.process.wait(timeout=90) == 0
    assert "Traceback" not in server.log()
