"""The real program in a real window of X11, driven by keys alone, in both languages."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from engine.core.config_file import load_config
from engine.core.settings import load_settings
from installer.running import end_all, running_app
from tests.support.desktop import PATIENCE_S, end, wait_until

pytestmark = [pytest.mark.desktop, pytest.mark.slow, pytest.mark.timeout(600)]

ROOT = Path(__file__).resolve().parents[3]
# What leads from each step to the next: its first control has the focus when it is shown.
KEYS = {
    "welcome": "Return",
    "pc": "Return",
    "model": "Return",
    "options": "Return",
    "download": "Return",
    "tune": "alt+k",
}


@pytest.mark.parametrize(("language", "scale"), [("en", "1"), ("zh", "2")])
def test_the_wizard_is_walked_through_by_keys_alone(desktop, tmp_path, language, scale):
    home = tmp_path / "Jürgen 測試"
    environment = {
        "QT_SCALE_FACTOR": scale,
        "STRATUM_HOME": str(home),
        "HF_ENDPOINT": "http://127.0.0.1:9",  # the bundled model needs nobody
    }
    record = home / "installation.json"

    def step() -> str:
        if not record.exists():
            return "welcome"
        return str(json.loads(record.read_text("utf-8"))["step"])

    program = desktop.start(
        [sys.executable, "-m", "installer", "--model", "tiny", "--language", language],
        cwd=ROOT,
        environment=environment,
    )
    try:
        desktop.window("Stratum")
        for current, keys in KEYS.items():
            wait_until(lambda current=current: step() == current, f"the step {current}")
            deadline = time.monotonic() + PATIENCE_S
            while step() == current:
                assert time.monotonic() < deadline, f"{keys} does not lead on from {current}"
                desktop.press(keys)
                time.sleep(0.7)
        wait_until(lambda: step() == "done", "the last step")
        desktop.press("Escape")
        assert program.wait(timeout=90) == 0
    finally:
        if program.poll() is None:
            end(program)
    assert load_config(home / "data" / "configs" / "tiny.json").model_id == "tiny"


def test_a_second_start_opens_the_app_which_a_removal_ends(desktop, tmp_path, monkeypatch):
    home = tmp_path / "Jürgen 測試"
    monkeypatch.setenv("STRATUM_HOME", str(home))
    install = [sys.executable, "-m", "installer", "--headless", "--yes", "--model", "tiny"]
    subprocess.run([*install, "--no-start"], cwd=ROOT, check=True, timeout=300)
    config = home / "data" / "configs" / "tiny.json"
    content = {**json.loads(config.read_text("utf-8")), "port": 0}
    config.write_text(json.dumps(content), "utf-8")
    program = desktop.start([sys.executable, "-m", "installer"], cwd=ROOT)
    try:
        desktop.window("Stratum")
        assert program.wait(timeout=90) == 0
        assert running_app() is not None
    finally:
        end_all(load_settings().data_dir)
    assert running_app() is None
