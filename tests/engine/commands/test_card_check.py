"""`engine card-check`, and what other commands say while a card is checked for the first time."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.cli import main
from engine.core.emulated_cards import EMULATED_VARIABLE
from engine.core.gpu import GpuReport

ANSWER = (
    *("run", "--prompt", "Hello", "--reasoning-effort", "none", "--temperature", "0"),
    *("--max-tokens", "2", "--context", "256", "--vram-reserve-mib", "0"),
)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STRATUM_HOME", str(tmp_path))


@pytest.fixture
def one_card(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(EMULATED_VARIABLE, "1500")


@pytest.mark.usefixtures("one_card")
def test_an_answer_in_the_terminal_says_once_that_the_card_is_checked(capsys) -> None:
    assert main(list(ANSWER)) == 0
    first = capsys.readouterr()
    assert first.err.startswith("Checking the graphics card, once; ")
    assert first.err.count("\n") == 1
    assert main(list(ANSWER)) == 0
    second = capsys.readouterr()
    assert (second.out, second.err) == (first.out, "")


@pytest.mark.usefixtures("one_card")
def test_a_card_is_checked_again_only_when_that_is_asked_for(capsys) -> None:
    said = []
    for words in (["--json"], ["--json"], ["--json", "--again"], []):
        assert main(["card-check", *words]) == 0
        captured = capsys.readouterr()
        said.append(captured.err.count("\n"))
        if words:
            (card,) = json.loads(captured.out)["cards"]
            assert (card["index"], card["passed"]) == (0, True)
            assert card["note"]["code"] == "card_passed"
        else:
            assert "agree with the reference" in captured.out
    assert said[0] > 50
    assert said[1] == said[3] == 0
    assert said[2] > 50


def test_without_a_card_that_is_said_and_nothing_else(
    capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.commands.card_check.probe_gpus", GpuReport)
    assert main(["card-check"]) == 0
    assert capsys.readouterr().out == "There is no NVIDIA card whose driver answers.\n"
    assert main(["card-check", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"cards": []}
