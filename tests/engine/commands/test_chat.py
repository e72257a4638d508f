"""`engine chat` against a real server with a scripted worker."""

import io
import json
import os
import re
import subprocess
import sys
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
        requests.post(f"{found[0]}/shutdown", json={}, headers=headers, timeout=10)
        assert process.wait(timeout=20) == 0


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
    assert "API key is missing or wrong" in captured.err


def test_no_server_is_said_with_a_way_out(capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("hello\n"))
    assert main(["chat", "--url", "http://127.0.0.1:9"]) == 1
    captured = capsys.readouterr()
    assert "No server answers at http://127.0.0.1:9/v1" in captured.err
    assert "python -m engine serve" in captured.err


@pytest.mark.parametrize("address", ["ftp://x", "http://", "http:///v1"])
def test_an_address_that_is_none_is_refused(capsys, address):
    assert main(["chat", "--url", address]) == 2
    assert "is no address" in capsys.readouterr().err


def test_control_characters_of_a_model_are_not_printed():
    assert without_controls("a\x1b]0;title\x07b\r\n\tc\x9b1m") == "a]0;titleb\n\tc1m"
