from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parents[2] / "golden"
ROOT = Path(__file__).parents[3]


def inspect(
    *arguments: str, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "engine", "inspect", *arguments],
        capture_output=True,
        text=True,
        encoding="utf-8",
        cwd=ROOT,
        env={**os.environ, **(environment or {})},
        check=False,
        timeout=300,
    )


def test_the_report_names_sizes_formats_and_the_verdict() -> None:
    done = inspect(str(GOLDEN / "full.gguf"))
    assert done.returncode == 0, done.stderr
    for words in ("3 DeltaNet, 1 attention", "hidden 128", "F16", "KV pages", "It fits"):
        assert words in done.stdout


def test_json_is_one_object_and_nothing_else() -> None:
    done = inspect(str(GOLDEN / "quant-Q2_0.gguf"), "--json", "--context", "64")
    report = json.loads(done.stdout)
    assert report["placement"]["context"] == 64
    assert {"Q2_0", "F32"} <= {entry["type"] for entry in report["formats"]}
    assert done.stderr == ""


@pytest.mark.parametrize(
    "content", [b"", b"GGUF", b"GGML" + bytes(100), b"GGUF\x03\0\0\0" + b"\xff" * 16]
)
def test_an_unusable_file_gets_one_line_and_status_2(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "ünusable model.gguf"
    path.write_bytes(content)
    done = inspect(str(path))
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.strip().splitlines()) == 1
    assert "Traceback" not in done.stderr


def test_a_missing_file_is_named() -> None:
    done = inspect("no such model.gguf")
    assert done.returncode == 2
    assert "no such model.gguf" in done.stderr


def test_without_a_file_the_model_of_the_settings_is_inspected(tmp_path: Path) -> None:
    config = tmp_path / "settings.json"
    config.write_text(json.dumps({"model": str(GOLDEN / "full.gguf")}), encoding="utf-8")
    done = inspect("--config", str(config))
    assert done.returncode == 0, done.stderr
    assert "hidden 128" in done.stdout
    assert "hidden 256" in inspect().stdout  # the bundled model


def test_the_parts_stand_in_columns() -> None:
    lines = inspect(str(GOLDEN / "full.gguf"), "--context", "64").stdout.splitlines()
    begin = next(number for number, line in enumerate(lines) if "placement on" in line) + 1
    parts = [line for line in lines[begin:] if line.startswith("    ")]
    assert len(parts) > 5
    assert len({re.search(" (ram|ram_mapped|disk) ", line).start() for line in parts}) == 1


CARDS = {"STRATUM_EMULATED_CARDS": "3000,1500"}


def test_what_lies_on_which_card_is_told_for_each(tmp_path: Path) -> None:
    environment = {**CARDS, "STRATUM_HOME": str(tmp_path)}
    flags = (str(GOLDEN / "full.gguf"), "--context", "64", "--vram-reserve-mib", "0")
    lines = inspect(*flags, "--gpus", "0,1", environment=environment).stdout.splitlines()
    assert "  placement on this machine (CPU and graphics cards)" in lines
    assert any(re.search("Other +vram", line) for line in lines)
    at = lines.index("  graphics cards")
    cards = lines[at + 1 :]
    assert [line.split(":")[0] for line in cards] == [
        "    0 Emulated card 0, 2.9 GiB free",
        "    1 Emulated card 1, 1.5 GiB free",
    ]
    layers = [re.search(r": layers? (\d)(?: to (\d))?", line) for line in cards]
    ends = [int(found[2] or found[1]) - int(found[1]) + 1 for found in layers if found]
    assert sum(ends) == 4
    assert [("head" in line) for line in cards].count(True) == 1
    assert all(
        "of their experts" in line and "checked before its first use" in line for line in cards
    )

    report = json.loads(inspect(*flags, "--gpus", "1", "--json", environment=environment).stdout)
    first, second = report["cards"]
    assert (first["layers"], second["layers"]) == (None, [0, 3])
    assert first["reason"] == "the setting gpus does not name it"
    assert second["has_head"]
    assert 0 < second["expert_bytes"] < second["used_bytes"] < second["free_bytes"]


def test_a_card_that_is_left_out_is_told_with_the_reason(tmp_path: Path) -> None:
    environment = {"STRATUM_EMULATED_CARDS": "3000,900", "STRATUM_HOME": str(tmp_path)}
    done = inspect(str(GOLDEN / "full.gguf"), "--context", "64", environment=environment)
    assert "1 Emulated card 1, 900.0 MiB free: not used, it has no room for a layer" in done.stdout
    assert (
        "card" not in inspect(str(GOLDEN / "full.gguf"), "--ops", "host", environment=CARDS).stdout
    )
    wrong = inspect("--gpus", "2", environment=environment)
    assert wrong.returncode == 2
    assert "The setting gpus names the card 2, which this PC does not have" in wrong.stderr
