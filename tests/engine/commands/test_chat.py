"""`engine chat` against a real server with a scripted worker."""

import contextlib
import io
import json
import os
import re
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import requests

from engine.cli import main
from engine.commands.terminal import without_controls

REPOSITORY = Path(__file__).resolve().parents[3]
KEY = "0123456789abcdef"
ANSWERS = [
    {
        "when": "second question",
        "times": 0,
        "text": "More thoughts.</think>\n\nSecond \x1b[2Janswer.",
    },
    {"when": "third question", "times": 0, "text": "A line.\n</think>\n\nThird answer."},
    {"when": "BREAK", "times": 0, "text": "a b c", "fault": {"kind": "error", "after": 1}},
    {"times": 0, "text": "Some thoughts.</think>\n\nFirst answer: é 😀."},
]


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    folder = tmp_path_factory.mktemp("chat")
    script = folder / "script.json"
    script.write_text(json.dumps({"format": 1, "answers": ANSWERS}), encoding="utf-8")
    process = subprocess.Popen(
        [sys.executable, "-m", "engine", "serve", "--port", "0", "--script", str(script)],
        cwd=REPOSITORY,
        env={**os.environ, "STRATUM_HOME": str(folder), "STRATUM_API_KEYS": KEY},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    with process.stdout as out:
        found = re.search(r"http://[^ ]+", out.readline().decode())
        yield found[0]
        headers = {"x-api-key": KEY}
        requests.post(f"{found[0]}/shutdown", json={}, headers=headers, timeout=90)
        assert process.wait(timeout=90) == 0


@pytest.fixture
def chat(url, monkeypatch, capsys):
    def run(text, *flags, key=KEY):
        monkeypatch.setattr(sys, "stdin", io.StringIO(text))
        status = main(["chat", "--url", url, "--key", key, *flags])
        return status, capsys.readouterr()

    return run


def test_answers_and_thinking_are_printed_line_by_line(chat):
    status, captured = chat("hello\n\nsecond question\n")
    assert status == 0
    assert captured.out == (
        "Some thoughts.\n\nFirst answer: é 😀.\nMore thoughts.\n\nSecond [2Janswer.\n"
    )
    assert captured.err == ""


def test_one_empty_line_stands_between_thinking_that_ends_its_line_and_the_answer(chat):
    _, captured = chat("third question\n")
    assert captured.out == "A line.\n\nThird answer.\n"


def test_clear_forgets_the_conversation_and_exit_ends_it(chat):
    _, captured = chat("second question\nanything\n")
    assert captured.out.count("Second") == 2  # the history still has the question
    _, captured = chat("second question\n/clear\nanything\n/exit\nnever asked\n")
    assert captured.out.count("Second") == 1
    assert captured.out.count("First") == 1


def test_an_error_of_the_server_is_one_line_and_the_chat_goes_on(chat):
    status, captured = chat("BREAK\nhello\n")
    assert status == 0
    assert captured.err.count("\n") == 1
    assert "engine chat: The script says that this request fails." in captured.err
    status, captured = chat("hello\n", "--effort", "extreme")
    assert status == 1
    assert "reasoning_effort must be one of" in captured.err


def test_a_wrong_key_is_said(chat):
    status, captured = chat("hello\n", key="wrong")
    assert status == 1
    assert "The API key is missing or wrong. Give it with --key" in captured.err


def test_no_server_is_said_with_a_way_out(capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("hello\n"))
    assert main(["chat", "--url", "http://127.0.0.1:9"]) == 1
    captured = capsys.readouterr()
    assert "No server answers at http://127.0.0.1:9/v1" in captured.err
    assert "python -m engine serve" in captured.err


@pytest.mark.parametrize(
    "address",
    ["ftp://x", "http://", "http:///v1", "http://[::1", "http://a:b", "http://me:pw@127.0.0.1"],
)
def test_an_address_that_is_none_is_refused(capsys, address):
    assert main(["chat", "--url", address]) == 2
    assert "is no address" in capsys.readouterr().err


def test_control_characters_of_a_model_are_not_printed():
    assert without_controls("a\x1b]0;title\x07b\r\n\tc\x9b1m") == "a]0;titleb\n\tc1m"


@pytest.fixture
def odd_server():
    """A function that serves one raw reply to each of some requests, and gives the address."""
    listeners = []

    def serve(reply):
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)

        def answer():
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    with connection, connection.makefile("rb") as lines:
                        length = 0
                        while (line := lines.readline()) not in (b"\r\n", b""):
                            if line.lower().startswith(b"content-length:"):
                                length = int(line.partition(b":")[2])
                        lines.read(length)
                        connection.sendall(reply)

        threading.Thread(target=answer, daemon=True).start()
        return f"http://127.0.0.1:{listener.getsockname()[1]}"

    yield serve
    for listener in listeners:
        listener.close()


HEAD = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: "
HTML = HEAD + b"text/html\r\n\r\n<html><body>welcome</body></html>"
STREAM = HEAD + b"text/event-stream\r\n\r\n"
HI = b'data: {"choices":[{"delta":{"content":"hi"}}]}\n\n'
MOVED = b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"
NO_CHUNKS = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n"


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (HTML, "not as ours does"),
        (HTML.replace(b"200 OK", b"404 Not Found"), "status 404"),
        (MOVED, "status 302"),
        (NO_CHUNKS, "not as ours does"),
        (b"SSH-2.0-OpenSSH_9\r\n", "No server answers"),
        (b"", "No server answers"),
        (STREAM, "without its end mark"),
        (STREAM + HI, "without its end mark"),
        (STREAM + HI + b"data: {nonsense\n\n", "no answer of a chat"),
        (STREAM + b"data: []\n\n", "no answer of a chat"),
        (STREAM + b'data: {"choices": null}\n\n', "no answer of a chat"),
        (STREAM + b'data: {"choices": [{"delta": 1}]}\n\n', "no answer of a chat"),
        (STREAM + b'data: {"error": "gone"}\n\n', "no answer of a chat"),
        (STREAM + b"data: " + b"[" * 100_000 + b"\n\n", "no answer of a chat"),
    ],
)
def test_a_server_of_another_kind_is_one_line(odd_server, capsys, monkeypatch, reply, words):
    monkeypatch.setattr(sys, "stdin", io.StringIO("hello\n"))
    assert main(["chat", "--url", odd_server(reply)]) == 1
    errors = capsys.readouterr().err
    assert words in errors
    assert errors.count("\n") == 1
    assert "internal error" not in errors


def test_events_of_other_servers_are_understood(odd_server, capsys, monkeypatch):
    events = HI.replace(b"data: ", b"data:") + b'data: {"choices": []}\n\n'
    half = b'data: {"choices":[{"delta":{"content":"\\ud800!","x":1}}]}\r\n\r\n'
    url = odd_server(STREAM + events + half + b"data:[DONE]\n\n")
    monkeypatch.setattr(sys, "stdin", io.StringIO("hello\n"))
    assert main(["chat", "--url", url]) == 0
    assert capsys.readouterr().out == "hi!\n"


def test_a_key_with_a_newline_is_refused(capsys):
    assert main(["chat", "--key", "0123456789abcdef\n"]) == 2
    assert "The key" in capsys.readouterr().err
