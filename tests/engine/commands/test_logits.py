"""The logits command: from files to a file."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from engine.cli import main
from tests.support.golden import GOLDEN, arrays, assert_logits


def run(tmp_path: Path, content: str, case: str = "full", ops: str = "reference") -> int:
    tokens = tmp_path / "tökens of mine.json"
    tokens.write_text(content, encoding="utf-8")
    words = ["--model", GOLDEN / f"{case}.gguf", "--tokens", tokens, "--out", tmp_path / "out.npz"]
    return main(["logits", "--ops", ops, *map(str, words)])


@pytest.mark.parametrize("as_object", [False, True])
@pytest.mark.parametrize("case", ["nople", "quant-Q2_0"])
def test_the_file_holds_a_row_of_logits_for_every_token(tmp_path, case, as_object):
    tokens = arrays(case)["tokens"].tolist()
    content = json.dumps({"tokens": tokens} if as_object else tokens)
    assert run(tmp_path, content, case) == 0
    with np.load(tmp_path / "out.npz") as result:
        assert result.files == ["logits"]
        logits = result["logits"]
    assert logits.dtype == np.float32
    assert_logits("reference", case, logits, arrays(case)["logits"])
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out.npz", "tökens of mine.json"]


def test_more_tokens_than_one_pass_holds_are_computed_in_parts(tmp_path):
    tokens = (arrays("nople")["tokens"].tolist() * 2)[:300]
    assert run(tmp_path, json.dumps(tokens), "nople") == 0
    with np.load(tmp_path / "out.npz") as result:
        logits = result["logits"]
    assert logits.shape == (300, 320)
    assert_logits("reference", "nople", logits[:160], arrays("nople")["logits"])


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("[1, 2", "is not valid JSON"),
        ("[" * 100_000, "is not valid JSON"),
        ("{}", "holds no list of token ids"),
        ("[]", "holds no list of token ids"),
        ("3", "holds no list of token ids"),
        ("[1, true]", "something else than token ids"),
        ('[1, "2"]', "something else than token ids"),
        ("[1, 384]", "token id 384 is not in the model's vocabulary of 384"),
        ("[-1]", "token id -1"),
        (json.dumps([1] * 4097), "4097 tokens, but the model's context is 4096"),
    ],
)
def test_unusable_tokens_are_one_line_and_exit_status_2(tmp_path, capsys, content, reason):
    assert run(tmp_path, content) == 2
    error = capsys.readouterr().err
    assert reason in error
    assert error.count("\n") == 1
    assert not (tmp_path / "out.npz").exists()


def test_missing_files_and_folders_are_one_line_each(tmp_path, capsys):
    missing = str(tmp_path / "missing")
    good = str(GOLDEN / "nople.gguf")
    tokens = tmp_path / "tokens.json"
    tokens.write_text("[1]", encoding="utf-8")
    out = str(tmp_path / "out.npz")
    words = ["logits", "--ops", "reference", "--model"]
    assert main([*words, good, "--tokens", missing, "--out", out]) == 2
    assert main([*words, missing, "--tokens", str(tokens), "--out", out]) == 2
    assert main([*words, good, "--tokens", str(tokens), "--out", f"{missing}/out.npz"]) == 1
    assert main([*words, good, "--tokens", str(tokens), "--out", out, "--threads", "-1"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 4
    assert "Traceback" not in error


def test_a_result_larger_than_the_memory_is_said_in_one_sentence(tmp_path, capsys, monkeypatch):
    def refuse(*_arguments: object) -> None:
        raise MemoryError

    numpy = SimpleNamespace(empty=refuse, errstate=np.errstate, float32=np.float32)
    monkeypatch.setattr("engine.commands.logits.np", numpy)
    assert run(tmp_path, "[1, 2]") == 1
    assert "not enough memory for the logits of 2 tokens" in capsys.readouterr().err
