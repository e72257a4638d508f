"""`POST /v1/requests/{id}/stop_thinking`: the owner of a request wants the answer now."""

import json
import threading

import pytest

SENTENCE = "I have thought about this long enough"


@pytest.fixture(scope="module")
def server(start_server):
    answers = [
        {
            "when": "PONDER",
            "text": "thinking " * 2000,
            "after_force": "The answer.",
            "delay_ms": 20,
            "times": 0,
        },
        {
            "when": "READING",
            "text": "thinking " * 2000,
            "after_force": "At once.",
            "delay_ms": 20,
            "prompt_delay_ms": 600,
            "times": 0,
        },
        {"when": "QUICK", "text": "Hm.</think>\n\n" + "word " * 100, "delay_ms": 50, "times": 0},
    ]
    return start_server({"answers": answers}, "--parallel", "1")


class Chat(threading.Thread):
    """A streamed chat that collects what it gets."""

    def __init__(self, server, content):
        super().__init__()
        self._server, self._content = server, content
        self.reasoning = self.content = ""
        self.finish = None
        self.start()

    def run(self):
        for event in self._server.events(self._content):
            if event == "[DONE]":
                return
            choice = event["choices"][0]
            self.reasoning += choice["delta"].get("reasoning_content", "")
            self.content += choice["delta"].get("content", "")
            self.finish = choice["finish_reason"] or self.finish


def stop_thinking(server, request_id):
    return server.http.post(f"/v1/requests/{request_id}/stop_thinking", json={})


def test_thinking_ends_with_a_sentence_and_the_answer_follows(server):
    chat = Chat(server, "PONDER")
    status = server.wait_for(lambda s: s["state"] == "thinking")
    reply = stop_thinking(server, status["running"]["request_id"])
    assert (reply.status_code, reply.json()["status"]) == (200, "answering")
    chat.join()
    assert chat.reasoning.startswith("th")  # a word may have come, or its first token
    assert SENTENCE in chat.reasoning
    assert (chat.content, chat.finish) == ("The answer.", "stop")


def test_a_request_that_still_waits_or_reads_will_not_think(server):
    first = Chat(server, "PONDER")
    server.wait_for(lambda s: s["running"])
    second = Chat(server, "READING")
    status = server.wait_for(lambda s: s["waiting"])
    assert stop_thinking(server, status["waiting"][0]["request_id"]).status_code == 200
    assert stop_thinking(server, status["running"]["request_id"]).status_code == 200
    first.join()
    second.join()
    assert (first.content, second.content) == ("The answer.", "At once."), server.log()
    assert SENTENCE in second.reasoning
    assert second.reasoning.count("thinking ") <= 1


def test_an_answer_under_way_is_left_alone(server):
    chat = Chat(server, "QUICK")
    status = server.wait_for(lambda s: s["state"] == "answering")
    assert stop_thinking(server, status["running"]["request_id"]).status_code == 200
    chat.join()
    assert (chat.reasoning, chat.content) == ("Hm.", "word " * 100)


def test_an_unknown_request_and_a_foreign_page_are_refused(server):
    reply = stop_thinking(server, "req_unknown")
    assert (reply.status_code, json.loads(reply.text)["error"]["code"]) == (404, "not_found")
    foreign = server.http.post(
        "/v1/requests/req_x/stop_thinking", json={}, headers={"origin": "http://localhost:3000"}
    )
    assert foreign.status_code == 403
