"""Warm conversations over an unload and over a restart of the server."""

import re

import pytest

SYSTEM = "You answer in short sentences and you like the sea. " * 12
MESSAGES = [
    {"role": "system", "content": SYSTEM},
    {"role": "user", "content": "What is kept over the night?"},
]
FLAGS = ("--context", "2048", "--threads", "1", "--save-sessions")


@pytest.fixture
def start(start_server, tmp_path):
    def start_here(*flags):
        return start_server(None, *FLAGS, *flags, environment={"STRATUM_HOME": str(tmp_path)})

    return start_here


def ask(server, messages):
    reply = server.chat(messages=messages, temperature=0, max_tokens=8, reasoning_effort="none")
    assert reply.status_code == 200, reply.text
    answer = reply.json()
    usage = answer["usage"]
    cached = usage["prompt_tokens_details"]["cached_tokens"]
    return answer["choices"][0]["message"]["content"], cached, usage["prompt_tokens"]


def files(tmp_path):
    return sorted((tmp_path / "data" / "sessions").glob("*"))


def test_conversations_come_back_after_an_unload_and_after_a_restart(start, tmp_path):
    server = start()
    text, cached, total = ask(server, MESSAGES)
    assert cached == 0
    turn_start = total - 7  # header of the turn and closed thinking
    assert server.http.post("/unload", json={}).status_code == 200
    (saved,) = files(tmp_path)
    assert b"kept over the night" not in saved.read_bytes()  # ids are no text, at least
    assert ask(server, MESSAGES) == (text, turn_start, total)
    assert server.stop() == 0

    again = start()
    assert again.status()["warm"]["sessions"] == 1
    assert ask(again, MESSAGES) == (text, turn_start, total)
    assert "checkpoints" in again.log()
    assert "sea" not in re.sub(r"research|search", "", again.log())


def test_a_damaged_file_costs_a_sentence_and_other_settings_do_not_read_it(start, tmp_path):
    server = start()
    ask(server, MESSAGES)
    assert server.stop() == 0
    (saved,) = files(tmp_path)
    other = start("--kv-type", "f32")
    assert ask(other, MESSAGES)[1] == 0
    assert other.stop() == 0
    assert len(files(tmp_path)) == 2
    saved.write_bytes(saved.read_bytes()[:-1000])
    again = start()
    assert ask(again, MESSAGES)[1] == 0
    assert f"the saved conversations in {saved.name} are not used" in again.log()


def test_nothing_is_saved_unless_it_was_asked_for(start_server, tmp_path):
    server = start_server(None, *FLAGS[:-1], environment={"STRATUM_HOME": str(tmp_path)})
    ask(server, MESSAGES)
    assert server.stop() == 0
    assert files(tmp_path) == []
