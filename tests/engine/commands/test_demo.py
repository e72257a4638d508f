"""`engine demo` with the bundled model: a meaning, a copy, a tool call and its answer."""

import json

import pytest

from engine.cli import main
from engine.commands.demo import COPY, MEANING, TOOL_RESULT, WEATHER


def test_the_demo_shows_a_meaning_a_copy_and_a_tool_call(capsys: pytest.CaptureFixture[str]):
    assert main(["demo", "--context", "1024"]) == 0
    out = capsys.readouterr().out
    meaning, copy, tool = out.split("Question: ")[1:]
    assert meaning.startswith(MEANING)
    assert "teaching" in meaning
    question, answer = copy.split("\n")[:2]
    assert question == COPY
    assert answer == COPY.partition(": ")[2]
    asked, called, *rest = tool.splitlines()
    assert asked == WEATHER
    call = json.loads(called)
    assert call["name"] == "get_weather"
    assert json.loads(call["arguments"]) == {"city": "Lisbon"}
    assert any(TOOL_RESULT in line for line in rest if "played" not in line)


def test_a_wrong_setting_ends_the_demo_with_one_sentence(capsys: pytest.CaptureFixture[str]):
    assert main(["demo", "--context", "1"]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1
