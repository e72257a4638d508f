"""`engine bench` on a tiny golden model."""

import json
from pathlib import Path

import pytest

from engine.cli import main
from engine.commands.bench import bytes_per_token, measure_bandwidth
from engine.core.gguf_header import read_model_header
from engine.core.placement import model_config_of

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
    ]


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--gen-tokens", "1"), "at least 2"),
        (("--prompt-tokens", "0"), "at least 1"),
        (("--prompt-tokens", "500", "--context", "100"), "context"),
        (("--prompt-tokens", "x"), "--prompt-tokens"),
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


def test_bytes_per_token_count_used_experts_and_looked_up_rows_only():
    header = read_model_header(MODEL)
    model = model_config_of(header)
    sizes = {name: info.num_bytes for name, (_, info) in header.tensors.items()}
    embedding = sizes.pop("token_embd.weight")
    table = sizes.pop("per_layer_token_embd.weight")
    experts = sum(size for name, size in sizes.items() if "_exps." in name)
    draft = sum(size for name, size in sizes.items() if name.startswith(f"blk.{model.num_layers}."))
    others = sum(sizes.values()) - experts - draft
    counted = bytes_per_token(header, model)
    assert counted > others + experts * model.num_experts_used / model.num_experts
    assert counted < others + experts * model.num_experts_used / model.num_experts + 0.2 * (
        embedding + table
    )


def test_bandwidth_is_measured_with_any_number_of_threads():
    assert all(measure_bandwidth(threads, 8 << 20) > 1e8 for threads in (1, 2, 3))
