"""The card's check runs whole on the emulated card, needs numpy alone, and tells what is wrong."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.gpu_check import Check
from engine.core.errors import EngineError

ROOT = Path(__file__).resolve().parents[2]
_ALONE = """
import runpy, sys
for name in ("cupy", "pydantic", "psutil", "requests", "PySide6"):
    sys.modules[name] = None
sys.argv = ["bench/gpu_check.py", *sys.argv[1:]]
runpy.run_path("bench/gpu_check.py", run_name="__main__")
"""


def checked(folder: Path, *options: str) -> tuple[int, dict[str, Any], str]:
    done = subprocess.run(
        [sys.executable, "-c", _ALONE, "--emulated", *options],
        cwd=ROOT,
        env={"OUT": str(folder), "PATH": "/usr/bin:/bin", "HOME": str(Path.home())},
        capture_output=True,
        text=True,
        check=False,
    )
    written = folder / "gpu_check.json"
    assert written.exists(), done.stdout + done.stderr
    report = json.loads(written.read_text(encoding="utf-8"))
    return done.returncode, report, done.stdout + done.stderr


def test_card_memory_and_products_are_measured_where_only_numpy_is(tmp_path: Path) -> None:
    status, report, said = checked(tmp_path, "--stages", "card,memory,products,choice")
    assert status == 0, said
    assert report["card"]["name"] == "Emulated card"
    assert report["memory"]["card_per_s"] > 0
    assert {(r["format"], r["rows"]) for r in report["products"]} == {
        (name, rows) for name in ("Q8_0", "Q4_K") for rows in (1, 4)
    }
    assert all(r["floor_share"] > 0 for r in report["products"])
    assert [r["rows"] for r in report["choice"]] == [1, 3]
    assert all(r["candidates_ms"] > 0 and r["all_logits_ms"] > 0 for r in report["choice"])


@pytest.mark.slow
def test_every_stage_passes_on_the_emulated_card(tmp_path: Path) -> None:
    status, report, said = checked(tmp_path)
    assert status == 0, said
    assert report["wrong_operations"] == report["failed_stages"] == []
    assert len(report["operations"]) > 50
    (decoded,) = report["model"]
    assert decoded["window_ms"] > 0
    assert 0 < decoded["hit_rate"] < 1
    assert decoded["computed_on_cpu_ms"] > 0


def test_a_stage_that_fails_is_told_and_the_others_go_on(tmp_path: Path) -> None:
    def failing() -> None:
        raise EngineError("The card fell off the bus.")

    check = Check(tmp_path / "report.json", budget_s=60)
    check.stage("card", failing)
    between = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert "fell off" in between["card"]["error"]
    check.stage("operations", lambda: [{"name": "matmul", "ok": False}, {"name": "x", "ok": True}])
    assert check.finish() == 1
    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert report["failed_stages"] == ["card"]
    assert report["wrong_operations"] == ["matmul"]


def test_no_stage_begins_when_the_time_is_over(tmp_path: Path) -> None:
    check = Check(tmp_path / "report.json", budget_s=-1)
    check.stage("card", lambda: pytest.fail("it began"))
    assert "no time" in check.report["card"]["error"]
