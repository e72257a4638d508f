"""The comparison of servers: ours against itself, and peers that fail."""

import json
import shlex
import sys

import pytest

from bench.compare_peers import OURS, main
from engine.core.config import BUNDLED_MODEL

MODEL = ("--model", str(BUNDLED_MODEL), "--prompt-tokens", "40", "--gen-tokens", "96")


@pytest.mark.slow
def test_both_servers_answer_the_same_prompts_and_every_figure_is_there(tmp_path, capsys):
    report = tmp_path / "ü report.json"
    words = (*MODEL, "--peer", OURS, "--peer-name", "again", "--rounds", "2", "--threads", "1")
    assert main([*words, "--json", str(report)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "medians of 2 alternating runs"
    assert lines[2].split() == ["stratum", "again", "ratio"]
    assert len(lines) == 14
    for line in lines[3:]:
        ours, peer, ratio = map(float, line.split()[-3:])
        assert ratio == pytest.approx(ours / peer, rel=0.1, abs=0.05), line
        assert min(ours, peer) > 0, line
    ours, peer = json.loads(report.read_text(encoding="utf-8"))
    prompts = [[answer["prompt_tokens"] for answer in side["answers"]] for side in (ours, peer)]
    assert prompts[0] == prompts[1]
    assert all(36 <= length <= 44 for length in prompts[0])
    assert ours["answers"][0]["reported_decode_per_s"] > 0
    assert ours["memory"]["peak_resident"] > ours["memory"]["private"] > 1 << 20


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("there-is-no-such-server --port {port}", "peer cannot be started"),
        (f"{shlex.quote(sys.executable)} -c \"print('no disk')\"", "no disk"),
    ],
)
def test_a_peer_that_does_not_start_is_named_with_its_last_words(capsys, command, words):
    assert main([*MODEL, "--ours", command, "--peer", command]) == 1
    error = capsys.readouterr().err
    assert words.replace("peer", "stratum") in error


@pytest.mark.parametrize("flags", [("--gen-tokens", "1"), ("--rounds", "0")])
def test_senseless_counts_are_refused(capsys, flags):
    with pytest.raises(SystemExit):
        main([*MODEL, *flags])
    assert "at least 1, --gen-tokens at least 2" in capsys.readouterr().err
