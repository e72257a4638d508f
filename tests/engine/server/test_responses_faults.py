"""`POST /v1/responses` when something is slow or goes wrong: the stream always has an end."""

import json
import threading

import psutil
import pytest

from tests.support import responses_stream

QUICK = {"when": "QUICK", "times": 0, "text": "Hm.</think>\n\nYes."}
# Numbers: a phrase that is repeated would end the answer.
NUMBERS = " ".join(str(number) for number in range(1500))
# Minutes, so that it ends by what a test does and not by itself.
SLOW = {"when": "SLOW", "times": 0, "text": NUMBERS, "delay_ms": 50}
PAUSE = {
    "when": "PAUSE",
    "times": 0,
    "text": "Hm.</think>\n\nRead.",
    "prompt_delay_ms": 300_000,
    "prompt_steps": 300,
}
HALTING = {
    "when": "HALTING",
    "times": 0,
    "pieces": ["Let me see.", "</think>", "Yes."],
    "group": 5,
    "delay_ms": 3600,
}
ERROR = {
    "when": "ERROR",
    "times": 0,
    "text": "one two three",
    "fault": {"kind": "error", "after": 2},
}
CRASH = {"when": "CRASH", "times": 0, "text": "one two", "fault": {"kind": "crash", "after": 1}}
STUCK = {"when": "STUCK", "times": 0, "text": NUMBERS[:800] + "</think>\n\nNever."}
STUCK["after_force"] = "So be it."


@pytest.fixture(scope="module")
def server(start_server):
    script = {"context": 16384, "answers": [QUICK, SLOW, PAUSE, HALTING, ERROR, CRASH, STUCK]}
    flags = ("--parallel", "1", "--queue-max", "1", "--sse-keepalive-s", "1")
    return start_server(script, *flags)


def post(server, content, **fields):
    return server.http.post("/v1/responses", json={"input": content, **fields})


def start(server, content, *, stream):
    """Send a request on a socket of its own."""
    body = json.dumps({"input": content, "stream": stream}).encode()
    head = (
        f"POST /v1/responses HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return server.raw(head.encode() + body)


class Reader(threading.Thread):
    """Reads one stream in the background; `received` grows as it comes."""

    def __init__(self, server, content):
        super().__init__()
        self.server, self.content = server, content
        self.received = ""
        self.start()

    def run(self):
        body = {"input": self.content, "stream": True}
        with self.server.http.stream("POST", "/v1/responses", json=body) as reply:
            for text in reply.iter_text():
                self.received += text

    def result(self):
        self.join(timeout=90)
        return responses_stream.parse(self.received)


def test_a_worker_killed_in_a_stream_ends_it_with_a_failed_response(server):
    reader = Reader(server, "SLOW")
    server.wait_for(lambda s: (s["running"] or {}).get("generated", 0) > 3)
    for child in psutil.Process(server.process.pid).children():
        child.kill()
    final = responses_stream.check_order(reader.result())
    assert final["status"] == "failed"
    assert final["error"]["code"] == "server_error"
    assert final["error"]["message"]
    assert final["output"][0]["status"] == "incomplete"
    assert post(server, "QUICK").json()["status"] == "completed"


def test_an_error_of_the_model_ends_a_stream_with_a_failed_response(server):
    seen = responses_stream.parse(post(server, "ERROR", stream=True).text)
    final = responses_stream.check_order(seen)
    assert final["error"] == {
        "code": "server_error",
        "message": "The script says that this request fails.",
    }


def test_a_whole_answer_that_fails_is_an_http_error(server):
    assert post(server, "ERROR").status_code == 500
    reply = post(server, "CRASH")
    assert reply.status_code == 503
    assert reply.json()["error"]["code"] == "engine_failed"


def test_silence_is_filled_with_numbered_events_that_the_sdk_takes(server):
    with (
        server.openai() as client,
        client.responses.stream(model="m", input="HALTING") as stream,
    ):
        seen = list(stream)
        assert stream.get_final_response().output_text == "Yes."
    assert [event.sequence_number for event in seen] == list(range(len(seen)))
    kinds = [event.type for event in seen]
    # The configured second of silence counts twice here: once before the first words, and once
    # while the thinking is an open item. A busy machine makes the silences longer.
    assert kinds.count("response.in_progress") >= 3
    late = [event for event in seen if event.type == "response.in_progress"][-1]
    assert late.response.output[0].status == "in_progress"
    assert b": keep-alive" not in post(server, "QUICK", stream=True).content


def test_a_stream_that_waits_in_the_queue_begins_and_is_kept_alive(server):
    running = start(server, "SLOW", stream=True)
    server.wait_for(lambda s: s["running"] is not None)
    reader = Reader(server, "QUICK")
    server.wait_for(lambda s: s["queued"] == 1)
    refused = post(server, "QUICK", stream=True)
    assert refused.status_code == 429
    assert refused.headers["retry-after"] == "2"
    # The second one is a sign of life, and nobody works for the request yet.
    server.wait_for(lambda _: reader.received.count("event: response.in_progress") == 2)
    assert server.status()["queued"] == 1
    running.close()
    assert responses_stream.check_order(reader.result())["status"] == "completed"


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("content", ["SLOW", "PAUSE"])
def test_a_client_that_goes_away_stops_the_work(server, content, stream):
    connection = start(server, content, stream=stream)
    busy = "thinking" if content == "SLOW" else "reading"
    server.wait_for(lambda s: s["state"] == busy)
    connection.close()
    server.wait_disconnected()
    assert post(server, "QUICK").status_code == 200


def cancel(server, place):
    status = server.wait_for(lambda s: (s["running"] or {}).get("generated", 0) > 3)
    request_id = status["running"]["request_id"]
    reply = server.http.post(f"/v1/requests/{request_id}/{place}", json={})
    assert reply.status_code == 200


def test_a_cancelled_response_is_incomplete_without_a_reason(server):
    reader = Reader(server, "SLOW")
    cancel(server, "cancel")
    final = responses_stream.check_order(reader.result())
    assert final["status"] == "incomplete"
    assert final["incomplete_details"] == {"reason": None}
    assert final["usage"]["output_tokens"] > 3


def test_thinking_has_a_budget_and_then_there_is_an_answer(server):
    answer = post(server, "STUCK", reasoning_budget_tokens=20).json()
    assert answer["status"] == "completed"
    assert [item["type"] for item in answer["output"]] == ["reasoning", "message"]
    assert answer["output"][1]["content"][0]["text"] == "So be it."
    details = answer["usage"]["output_tokens_details"]
    assert 20 <= details["reasoning_tokens"] < 100
    assert "0 1 2" in answer["output"][0]["content"][0]["text"]
