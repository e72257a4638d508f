"""`engine bench` on a tiny golden model."""

import json
from pathlib import Path

import pytest

from engine.cli import main
from engine.commands import bench

MODEL = Path(__file__).resolve().parents[2] / "golden" / "full.gguf"
WORDS = ("bench", "--model", str(MODEL), "--ops", "reference", "--repeat", "1")


def test_the_report_has_every_figure_and_they_are_plausible(capsys: pytest.CaptureFixture[str]):
    status = main([*WORDS, "--prompt-tokens", "20", "--gen-tokens", "4", "--json"])
    captured = capsys.readouterr()
    assert (status, captured.err) == (0, "")
    report = json.loads(captured.out)
    assert (report["model"], report["ops"], report["prompt_tokens"]) == ("full", "reference", 20)
    for key in (
        "load_s",
        "first_token_s",
        "prompt_tokens_per_s",
        "decode_tokens_per_s",
        "memory_bytes_per_s",
    ):
        assert report[key] > 0, key
    assert 0 < report["memory_share"] < 1
    assert report["peak_rss_bytes"] > report["private_bytes"] > 1 << 20
    low, high = report["memory_bytes_per_s_range"]
    assert low <= report["memory_bytes_per_s"] <= high
    assert report["fills"] == []
    assert report["first_token_s"] == pytest.approx(20 / report["prompt_tokens_per_s"], rel=0.1)


def test_people_get_lines(capsys: pytest.CaptureFixture[str]):
    assert main([*WORDS, "--prompt-tokens", "3", "--gen-tokens", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == [
        "full",
        "load",
        "first",
        "prompt",
        "decode",
        "memory",
        "resident",
    ]


def test_where_a_card_computes_ram_is_not_said_to_be_the_limit(capsys: pytest.CaptureFixture[str]):
    assert main([*WORDS, "--prompt-tokens", "3", "--gen-tokens", "2", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    bench._print(report | {"ops": "cuda", "isa": "sm_89"})
    lines = capsys.readouterr().out
    assert "at most" not in next(line for line in lines.splitlines() if line.startswith("memory"))
    assert "mostly from the card" in lines


def test_a_filled_context_is_measured_too(capsys: pytest.CaptureFixture[str]):
    words = (*WORDS, "--prompt-tokens", "3", "--gen-tokens", "2", "--fill", "40,70")
    assert main([*words, "--json"]) == 0
    fills = json.loads(capsys.readouterr().out)["fills"]
    assert [fill["prompt_tokens"] for fill in fills] == [40, 70]
    assert fills[1]["context_bytes_per_token"] > fills[0]["context_bytes_per_token"]
    assert main(words) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("filled")]
    assert [line.split("prompt of ")[1].split()[0] for line in lines] == ["40", "70"]


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--gen-tokens", "1"), "at least 2"),
        (("--prompt-tokens", "0"), "at least 1"),
        (("--prompt-tokens", "500", "--context", "100"), "context"),
        (("--prompt-tokens", "x"), "--prompt-tokens"),
        (("--fill", "40,0"), "--fill: '40,0' must be whole numbers of 1 or more"),
        (("--fill", "x"), "'x' must be whole numbers"),
        (("--fill", "500", "--context", "100"), "context"),
    ],
)
def test_wrong_sizes_are_status_2_and_one_line(
    capsys: pytest.CaptureFixture[str], flags: tuple[str, ...], words: str
):
    assert main([*WORDS, *flags]) == 2
    captured = capsys.readouterr()
    assert words in captured.err
    assert captured.err.count("\n") == 1
    assert captured.out == ""
