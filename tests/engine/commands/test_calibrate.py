"""`engine calibrate` with the scripted worker, in processes of its own where it is stopped."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from engine.cli import main
from engine.core.calibration import Calibration, read_calibrations, save_calibration
from engine.core.topology import Core

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder of its own, and four equal cores whatever this machine has."""
    monkeypatch.setenv("STRATUM_HOME", str(tmp_path / "home"))
    cores = [Core((i,)) for i in range(4)]
    monkeypatch.setattr("engine.commands.calibrate.read_cores", lambda: cores)
    monkeypatch.setattr("engine.commands.calibrate.cpu_limit", lambda: None)
    monkeypatch.setattr("engine.calibrate_worker.SHORTEST_ROUND_S", 0.0)
    return tmp_path / "home"


def write_config(folder: Path, **settings: object) -> Path:
    path = folder / "läuft.json"
    path.write_text(json.dumps({"format": 1, **settings}), encoding="utf-8")
    return path


def write_script(folder: Path, *answers: dict[str, object], **more: object) -> Path:
    path = folder / "script.json"
    ids = list(range(20, 60))
    entries = [{"token_ids": ids, "times": 0, **answer} for answer in answers]
    content = {"format": 1, "answers": entries, **more}
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def calibrate(config: Path, script: Path, *flags: str) -> int:
    return main(["calibrate", "--config", str(config), "--script", str(script), "--json", *flags])


def content_of(path: Path) -> dict[str, object]:
    return json.loads(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize(("faster", "is_kept"), [(1.029, False), (1.031, True)])
def test_two_point_nine_percent_are_not_kept_and_three_point_one_are(
    tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str], faster: float, is_kept: bool
):
    config = write_config(tmp_path, port=8090)
    script = write_script(
        tmp_path,
        {"settings": {"threads": 3}, "generated_ms": 1000 / faster},
        {"generated_ms": 1000},
    )
    assert calibrate(config, script) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["settings"] == ({"threads": 3} if is_kept else {})
    expected: dict[str, object] = {"format": 1, "port": 8090}
    assert content_of(config) == expected | report["settings"]
    (kept,) = read_calibrations(home / "data").values()
    assert kept.settings == report["settings"]
    assert kept.findings[0].gain == pytest.approx(faster - 1, abs=1e-6)


def test_progress_comes_as_lines_and_ends_complete(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    script = write_script(tmp_path, {"generated_ms": 1000})
    assert calibrate(write_config(tmp_path), script) == 0
    captured = capsys.readouterr()
    events = [json.loads(line) for line in captured.err.splitlines() if line.startswith('{"event"')]
    kinds = {event["event"] for event in events}
    assert kinds == {"plan", "load", "round", "step"}
    rounds = [event for event in events if event["event"] == "round"]
    assert (events[0]["done"], events[0]["total"]) == (
        0,
        (8 + 6) + (8 + 6),
    )  # threads, and the least probability of a draft
    assert [event["done"] for event in rounds] == list(range(1, len(rounds) + 1))
    assert all({"done", "total", "name", "line"} <= event.keys() for event in events)
    assert len(captured.out.splitlines()) == 1


def test_a_loser_of_a_new_calibration_does_not_linger(tmp_path: Path, home: Path):
    save_calibration(home / "data", "before", Calibration(measured_at="", settings={"threads": 3}))
    config = write_config(tmp_path, threads=3)
    assert calibrate(config, write_script(tmp_path, {"generated_ms": 1000})) == 0
    assert "threads" not in content_of(config)


def test_a_value_of_the_persons_own_is_neither_measured_nor_changed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    config = write_config(tmp_path, threads=3, spec_mtp=0)
    assert calibrate(config, write_script(tmp_path)) == 0
    report = json.loads(capsys.readouterr().out)
    assert "chosen by hand" in report["skipped"][0]["reason"]
    assert content_of(config)["threads"] == 3


def test_a_least_probability_of_drafts_that_is_faster_is_written_into_the_config(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    config = write_config(tmp_path, threads=3)
    script = write_script(
        tmp_path, {"settings": {"spec_min_p": 0.5}, "generated_ms": 500}, {"generated_ms": 1000}
    )
    assert calibrate(config, script) == 0
    assert json.loads(capsys.readouterr().out)["settings"] == {"spec_min_p": 0.5}
    assert content_of(config)["spec_min_p"] == 0.5


def test_a_dry_run_changes_nothing(tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str]):
    script = write_script(
        tmp_path, {"settings": {"threads": 3}, "generated_ms": 500}, {"generated_ms": 1000}
    )
    config = write_config(tmp_path)
    assert calibrate(config, script, "--dry-run") == 0
    assert json.loads(capsys.readouterr().out)["settings"] == {"threads": 3}
    assert "threads" not in content_of(config)
    assert read_calibrations(home / "data") == {}


def test_a_count_that_kills_the_worker_has_lost(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    script = write_script(
        tmp_path,
        {"settings": {"threads": 3}, "fault": {"kind": "crash", "after": 1}},
        {"settings": {"threads": 2}, "generated_ms": 500},
        {"generated_ms": 1000},
    )
    assert calibrate(write_config(tmp_path), script) == 0
    assert json.loads(capsys.readouterr().out)["settings"] == {"threads": 2}


def test_a_failure_leaves_the_defaults_and_says_so(
    tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str]
):
    config = write_config(tmp_path)
    load = {"fail_code": "no_memory", "fail_message": "There is not enough memory."}
    assert calibrate(config, write_script(tmp_path, load=load)) == 1
    error = capsys.readouterr().err
    assert "There is not enough memory. The default settings stay." in error
    assert content_of(config) == {"format": 1}
    assert read_calibrations(home / "data") == {}


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no signals to send")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stopping_it_leaves_the_defaults_says_so_and_ends_the_worker(
    tmp_path: Path, home: Path, number: signal.Signals
):
    config = write_config(tmp_path)
    script = write_script(tmp_path, {"delay_ms": 200})
    code = (
        "import signal, sys, engine.commands.calibrate as c, engine.cli as cli\n"
        "from engine.core.topology import Core\n"
        # Ignored by whoever runs the tests in the background, it would be ignored here too.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "c.read_cores = lambda: [Core((i,)) for i in range(4)]\n"
        "sys.exit(cli.main(sys.argv[1:]))\n"
    )
    words = ["calibrate", "--config", str(config), "--script", str(script), "--json"]
    process = subprocess.Popen(
        [sys.executable, "-c", code, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        cwd=ROOT,
        env={**os.environ, "PYTHONUTF8": "1"},
    )
    assert process.stderr is not None
    for line in process.stderr:
        if '"load"' in line:
            break
    time.sleep(0.5)
    process.send_signal(number)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 130, err
    report = json.loads(out)
    assert report["message"] == "Calibration was stopped. The default settings stay."
    assert "Traceback" not in err
    assert content_of(config) == {"format": 1}
