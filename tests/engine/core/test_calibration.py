"""What calibration keeps, and what it writes into a run config."""

import dataclasses
import json
import logging
from pathlib import Path

import pytest

from engine.core.calibration import (
    Calibration,
    apply_calibration,
    calibration_key,
    calibration_path,
    read_calibrations,
    save_calibration,
    write_settings,
)
from engine.core.config import RunConfig
from engine.core.errors import ConfigError
from engine.core.machine import probe_machine


def config_file(folder: Path, **content: object) -> Path:
    path = folder / "run.json"
    path.write_text(json.dumps({"format": 1, **content}), encoding="utf-8")
    return path


def content_of(path: Path) -> dict[str, object]:
    return json.loads(path.read_text(encoding="utf-8"))


def calibration(**settings: int) -> Calibration:
    return Calibration(measured_at="2026-11-30T10:00:00+00:00", settings=settings)


def test_only_the_named_keys_of_a_config_change(tmp_path: Path):
    path = config_file(tmp_path, port=8081, their_key={"a": 1}, threads=3)
    write_settings(path, {"threads": None, "parallel": 2})
    assert content_of(path) == {
        "format": 1,
        "port": 8081,
        "their_key": {"a": 1},
        "parallel": 2,
    }


def test_an_unusable_value_is_refused_and_the_file_stays(tmp_path: Path):
    path = config_file(tmp_path, port=8081)
    with pytest.raises(ConfigError, match="threads"):
        write_settings(path, {"threads": -1})
    assert content_of(path) == {"format": 1, "port": 8081}


def test_the_key_changes_with_machine_model_and_context_only():
    machine = probe_machine()
    key = calibration_key(RunConfig(), machine)
    assert calibration_key(RunConfig(port=9000, threads=3), machine) == key
    ram = machine.ram_total_bytes
    a_bit = dataclasses.replace(machine, ram_total_bytes=ram // (1 << 30) * (1 << 30) + (1 << 20))
    rounded = dataclasses.replace(machine, ram_total_bytes=ram // (1 << 30) * (1 << 30))
    assert calibration_key(RunConfig(), a_bit) == calibration_key(RunConfig(), rounded)
    others = {
        calibration_key(RunConfig(context=4096), machine),
        calibration_key(RunConfig(model_id="another"), machine),
        calibration_key(RunConfig(), dataclasses.replace(machine, cpu_name="Z80")),
        calibration_key(RunConfig(), dataclasses.replace(machine, ram_total_bytes=ram * 2)),
        calibration_key(RunConfig(), machine, ("RTX 5070, 12 GiB",)),
        calibration_key(RunConfig(gpus=[1]), machine),
    }
    assert len(others | {key}) == 7


def test_a_known_calibration_is_applied_to_a_new_config(tmp_path: Path):
    save_calibration(tmp_path, "this", calibration(threads=5))
    path = config_file(tmp_path, port=8081)
    assert apply_calibration(path, tmp_path, "this") == {"threads": 5}
    assert content_of(path)["threads"] == 5


def test_the_persons_own_value_is_not_touched(tmp_path: Path):
    save_calibration(tmp_path, "this", calibration(threads=5))
    path = config_file(tmp_path, threads=3)
    assert apply_calibration(path, tmp_path, "this") == {}
    assert content_of(path)["threads"] == 3


def test_what_another_machine_left_is_taken_out(tmp_path: Path):
    save_calibration(tmp_path, "the old machine", calibration(threads=5))
    path = config_file(tmp_path, threads=5)
    assert apply_calibration(path, tmp_path, "the new machine") == {}
    assert "threads" not in content_of(path)


def test_a_broken_file_is_set_aside_and_a_newer_one_is_refused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    path = calibration_path(tmp_path)
    path.write_text("{", encoding="utf-8")
    with caplog.at_level(logging.WARNING):
        assert read_calibrations(tmp_path) == {}
    assert "earlier calibrations are not used" in caplog.text
    save_calibration(tmp_path, "this", calibration())
    assert path.with_name(path.name + ".bak").read_text(encoding="utf-8") == "{"
    assert list(read_calibrations(tmp_path)) == ["this"]
    path.write_text('{"format": 2}', encoding="utf-8")
    with pytest.raises(ConfigError, match="newer version"):
        read_calibrations(tmp_path)
