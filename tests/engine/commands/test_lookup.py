"""`engine lookup`: a corpus becomes a cache, a text is played."""

import json

import pytest

from engine.cli import main
from engine.core.config import BUNDLED_MODEL

LINE = "The quick brown fox jumps over the lazy dog, and the dog sleeps.\n"


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text ü.txt"
    path.write_text(LINE * 40 + "Something else is said once.\n" + LINE * 5, encoding="utf-8")
    return path


@pytest.fixture
def cache(tmp_path, text, capsys):
    path = tmp_path / "cache"
    words = ["lookup", "build", "--model", str(BUNDLED_MODEL), "--text", str(text)]
    assert main([*words, "--out", str(path)]) == 0
    assert "tokens" in capsys.readouterr().out
    return path


def stats(text, *more):
    return main(["lookup", "stats", "--model", str(BUNDLED_MODEL), "--text", str(text), *more])


@pytest.mark.parametrize("drafter", ["ngram", "lookup"])
def test_a_text_that_repeats_is_drafted_well(text, drafter, capsys):
    assert stats(text, "--drafter", drafter, "--json", "--context", "300") == 0
    report = json.loads(capsys.readouterr().out)
    assert report["n_drafted"] >= report["n_accept"] > 0.5 * report["tokens"]
    assert report["n_predict"] == pytest.approx(report["tokens"], abs=report["tokens"] // 300 + 1)
    assert report["median_us_per_drafted_token"] > 0


def test_a_cache_of_the_text_drafts_from_the_first_tokens_on(text, cache, capsys):
    few = "--context", "20"
    stats(text, "--json", *few)
    without = json.loads(capsys.readouterr().out)
    stats(text, "--json", "--cache", str(cache), *few)
    with_cache = json.loads(capsys.readouterr().out)
    assert with_cache["n_accept"] >= without["n_accept"]
    assert with_cache["t_draft_flat_ms"] > 0


def test_the_report_has_the_lines_of_the_peers_tool(text, capsys):
    assert stats(text) == 0
    lines = [line.split("=")[0].strip() for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        "n_draft",
        "n_predict",
        "n_drafted",
        "t_draft_flat",
        "t_draft",
        "n_accept",
        "accept",
    ]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--draft", "0"), "--draft"),
        (("--context", "0"), "--context"),
        (("--cache", "no-such-file"), "no-such-file"),
        (("--cache", str(BUNDLED_MODEL)), "no n-gram file"),
    ],
)
def test_wrong_words_are_one_line_and_status_2(text, more, said, capsys):
    assert stats(text, *more) == 2
    error = capsys.readouterr().err.strip()
    assert said in error
    assert len(error.splitlines()) == 1


def test_a_text_that_is_no_utf8_is_refused(tmp_path, capsys):
    path = tmp_path / "bad"
    path.write_bytes(b"\xff\xfe\xfa")
    assert stats(path) == 2
    assert "UTF-8" in capsys.readouterr().err
