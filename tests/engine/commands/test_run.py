"""`engine run` with the bundled model, through the command line's own entry."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from engine.cli import main
from engine.core.config import BUNDLED_MODEL
from engine.core.gguf_header import read_model_header

ROOT = Path(__file__).resolve().parents[3]
GOLDEN_MODEL = ROOT / "tests" / "golden" / "nople.gguf"
BASE = ("--ops", "reference", "--context", "256")
SHORT = (*BASE, "--max-tokens", "8")


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    status = main(["run", *words])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def run_json(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, object]:
    status, out, _ = run(capsys, "--json", *words)
    assert status == 0
    assert out.count("\n") == 1
    report = json.loads(out)
    assert isinstance(report, dict)
    return report


def test_an_answer_is_text_with_a_line_end_and_the_same_as_in_json(
    capsys: pytest.CaptureFixture[str],
):
    words = ("--prompt", "Hello", "--reasoning-effort", "none", "--temperature", "0", *SHORT)
    status, out, err = run(capsys, *words)
    assert status == 0
    assert err == ""
    report = run_json(capsys, *words)
    assert out.rstrip("\n") == str(report["content"]).rstrip("\n")
    assert out.endswith("\n")
    assert report["reasoning"] == ""
    assert report["tool_calls"] == []
    assert report["finish_reason"] in {"stop", "length"}
    usage, timings = report["usage"], report["timings"]
    assert isinstance(usage, dict)
    assert isinstance(timings, dict)
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    assert timings["prompt_n"] == usage["prompt_tokens"]
    assert timings["predicted_n"] == usage["completion_tokens"] <= 8
    num_steps = timings["predicted_n"] - 1  # the first token comes with the prompt
    assert timings["predicted_per_second"] == pytest.approx(
        num_steps / timings["predicted_ms"] * 1000, rel=0.01, abs=0.01
    )


def test_thinking_is_shown_on_standard_error_only_when_asked_for(
    capsys: pytest.CaptureFixture[str],
):
    words = ("--prompt", "Hello", "--temperature", "0", *SHORT)
    report = run_json(capsys, *words)
    reasoning = str(report["reasoning"])
    assert reasoning
    assert reasoning.strip() not in run(capsys, *words)[2]
    _, out, err = run(capsys, *words, "--show-thinking")
    assert reasoning.strip() in err
    assert reasoning.strip() not in out


def test_an_answer_that_is_all_thinking_says_so_on_standard_error(
    capsys: pytest.CaptureFixture[str],
):
    status, out, err = run(capsys, "--prompt", "Hello", *BASE, "--max-tokens", "2")
    assert status == 0
    assert out == ""
    assert "thinking took all of the 2 tokens" in err
    assert "--max-tokens" in err


def test_a_seed_reproduces_the_answer_and_another_one_does_not(
    capsys: pytest.CaptureFixture[str],
):
    words = ("--prompt", "Hello", "--temperature", "2", "--top-k", "0", "--top-p", "1", *SHORT)
    first, again, other = (
        run_json(capsys, *words, "--seed", seed)["reasoning"] for seed in ("7", "7", "8")
    )
    assert first == again != other


def test_a_thinking_budget_closes_the_thinking(capsys: pytest.CaptureFixture[str]):
    report = run_json(
        capsys,
        *("--prompt", "Hello", "--max-tokens", "60", "--reasoning-budget-tokens", "4", *BASE),
    )
    assert "long enough and will answer now" in str(report["reasoning"])


def test_a_stop_text_is_not_part_of_the_answer(capsys: pytest.CaptureFixture[str]):
    words = ("--prompt", "Hello", "--reasoning-effort", "none", "--temperature", "0", *SHORT)
    content = str(run_json(capsys, *words)["content"])
    stop = content[2:4]
    report = run_json(capsys, *words, "--stop", stop)
    assert report["content"] == content[: content.index(stop)]
    assert report["finish_reason"] == "stop"


def test_a_file_of_messages_or_a_whole_request_is_answered_and_flags_win(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    messages = [{"role": "user", "content": "Hällo"}]
    path = tmp_path / "meine nachrichten.json"
    path.write_text(json.dumps(messages), encoding="utf-8-sig")
    alone = run_json(capsys, "--messages", str(path), "--temperature", "0", *SHORT)
    request = {"messages": messages, "temperature": 2, "max_completion_tokens": 2, "tools": []}
    path.write_text(json.dumps(request), encoding="utf-8")
    assert (
        run_json(capsys, "--messages", str(path), "--temperature", "0", *SHORT)["reasoning"]
        == alone["reasoning"]
    )
    usage = run_json(capsys, "--messages", str(path), *BASE)["usage"]
    assert isinstance(usage, dict)
    assert usage["completion_tokens"] <= 2


def test_a_request_s_form_and_forced_tool_hold_here_too(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    path = tmp_path / "request.json"
    request: dict[str, object] = {
        "messages": [{"role": "user", "content": "A colour!"}],
        "reasoning_effort": "none",
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "colour", "schema": {"enum": ["red", "blue"]}},
        },
    }
    path.write_text(json.dumps(request), encoding="utf-8")
    answer = run_json(capsys, "--messages", str(path), "--context", "1024")
    assert json.loads(str(answer["content"])) in ("red", "blue")
    del request["response_format"]
    request["tools"] = [{"type": "function", "function": {"name": "ring"}}]
    request |= {"tool_choice": "required", "parallel_tool_calls": False}
    path.write_text(json.dumps(request), encoding="utf-8")
    answer = run_json(capsys, "--messages", str(path), "--context", "1024")
    (call,) = answer["tool_calls"]
    assert call["function"] == {"name": "ring", "arguments": "{}"}
    assert answer["finish_reason"] == "tool_calls"


def test_the_prompt_can_come_from_standard_input(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    path = tmp_path / "in.txt"
    path.write_text("Hello", encoding="utf-8")
    with path.open(encoding="utf-8") as stream:
        monkeypatch.setattr(sys, "stdin", stream)
        piped = run_json(capsys, "--prompt", "-", "--temperature", "0", *SHORT)
    direct = run_json(capsys, "--prompt", "Hello", "--temperature", "0", *SHORT)
    assert piped["reasoning"] == direct["reasoning"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "not valid JSON"),
        ("3", "neither a list of messages"),
        ("[]", "messages"),
        ('[{"role": "pirate", "content": "Arr"}]', "role"),
        ('[{"role": "user"}, 7]', "messages[1]"),
        ('{"messages": [{"role": "user", "content": "a"}], "temperature": 3}', "temperature"),
        ('[{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]', "continuing"),
        ('{"messages": [{"role": "user", "content": "a"}], "n": 2}', "one answer"),
        (
            '{"messages": [{"role": "user", "content": "a"}], "response_format": {"type": '
            '"json_schema", "json_schema": {"schema": {"$ref": "http://example.com/x"}}}}',
            "references",
        ),
    ],
)
def test_a_conversation_that_cannot_be_used_is_refused_in_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, content: str, words: str
):
    path = tmp_path / "m.json"
    path.write_text(content, encoding="utf-8")
    status, out, err = run(capsys, "--messages", str(path), *SHORT)
    assert status == 2
    assert out == ""
    assert words in err
    assert err.count("\n") == 1
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--prompt", "word " * 400), "the context is 256"),
        (("--prompt", "Hello", "--temperature", "7"), "temperature"),
        (("--prompt", "Hello", "--model", "/nowhere/no model.gguf"), "no model.gguf"),
        (("--prompt", "Hello", "--model", str(GOLDEN_MODEL)), "no chat template"),
        (("--prompt", "Hello", "--messages", "x.json"), "not allowed with"),
        ((), "--prompt"),
        (("--messages", "/nowhere/m.json"), "cannot be read"),
        (("--prompt", "a", "--temperature", "nan"), "--temperature"),
        (("--prompt", "a", "--min-p", "inf"), "--min-p"),
    ],
)
def test_wrong_use_is_status_2_and_one_line(
    capsys: pytest.CaptureFixture[str], flags: tuple[str, ...], words: str
):
    status, out, err = run(capsys, *SHORT, *flags)
    assert (status, out) == (2, "")
    assert words in err
    assert err.count("\n") == 1


def test_a_file_whose_weights_are_no_numbers_is_one_line(tmp_path: Path):
    header = read_model_header(BUNDLED_MODEL)
    damaged = bytearray(BUNDLED_MODEL.read_bytes())
    info = header.tensors["output_hc_norm.weight"][1]
    start = header.shards[0].data_start + info.offset
    damaged[start : start + info.num_bytes] = b"\x7e" * info.num_bytes  # near 1e38
    path = tmp_path / "damaged.gguf"
    path.write_bytes(damaged)
    result = subprocess.run(
        [sys.executable, "-m", "engine", "run", "--prompt", "Hi", "--model", str(path), *SHORT],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 1
    assert result.stderr.count("\n") == 1
    assert "computed no usable numbers" in result.stderr


def test_help_is_shown_without_loading_numpy():
    code = (
        "import sys\n"
        "from engine.cli import main\n"
        "status = main(['run', '--help'])\n"
        "sys.exit(status or 'numpy' in sys.modules)\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=False, timeout=300
    )
    assert result.returncode == 0, result.stderr
    assert b"--show-thinking" in result.stdout
