"""The real program in a real window of X11, driven by keys alone, in both languages."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine.core.config_file import load_config

pytestmark = [pytest.mark.desktop, pytest.mark.slow, pytest.mark.timeout(170)]

ROOT = Path(__file__).resolve().parents[3]
NEEDED = ("Xvfb", "xdotool")
PATIENCE_S = 60.0
# What leads from each step to the next: its first control has the focus when it is shown.
KEYS = {
    "welcome": "Return",
    "pc": "Return",
    "model": "Return",
    "options": "Return",
    "download": "Return",
    "tune": "alt+k",
}


@pytest.fixture
def display(tmp_path: Path) -> Iterator[str]:
    """A screen of its own, with a window manager where there is one."""
    missing = [name for name in NEEDED if shutil.which(name) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} not installed")
    number = tmp_path / "display"
    with contextlib.ExitStack() as stack:
        with number.open("wb") as file:
            xvfb = subprocess.Popen(
                ["Xvfb", "-displayfd", "1", "-screen", "0", "1600x1200x24"],
                stdout=file,
                stderr=subprocess.DEVNULL,
            )
        stack.callback(end, xvfb)
        wait_until(lambda: number.read_text().strip() != "")
        name = f":{number.read_text().strip()}"
        if shutil.which("openbox") is not None:
            manager = subprocess.Popen(
                ["openbox"],
                env={**os.environ, "DISPLAY": name},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            stack.callback(end, manager)
        yield name


def end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    process.wait(timeout=20)


def wait_until(is_true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_true():
        assert time.monotonic() < deadline, "it took too long"
        time.sleep(0.1)


@pytest.mark.parametrize(("language", "scale"), [("en", "1"), ("zh", "2")])
def test_the_wizard_is_walked_through_by_keys_alone(display, tmp_path, language, scale):
    home = tmp_path / "Jürgen 測試"
    environment = {
        **os.environ,
        "DISPLAY": display,
        "QT_QPA_PLATFORM": "xcb",
        "QT_SCALE_FACTOR": scale,
        "STRATUM_HOME": str(home),
        "HF_ENDPOINT": "http://127.0.0.1:9",  # the bundled model needs nobody
        "PYTHONUTF8": "1",
    }
    record = home / "installation.json"

    def step() -> str:
        if not record.exists():
            return "welcome"
        return str(json.loads(record.read_text("utf-8"))["step"])

    def press(keys: str) -> None:
        subprocess.run(["xdotool", "key", keys], env=environment, check=True)

    began = time.monotonic()
    program = subprocess.Popen(
        [sys.executable, "-m", "installer", "--model", "tiny", "--language", language],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.DEVNULL,
    )
    try:
        find = ["xdotool", "search", "--sync", "--onlyvisible", "--name", "Stratum"]
        subprocess.run(find, env=environment, check=True, timeout=60, stdout=subprocess.DEVNULL)
        assert time.monotonic() - began < 20  # two seconds on a PC that does nothing else
        for current, keys in KEYS.items():
            wait_until(lambda current=current: step() == current)
            deadline = time.monotonic() + PATIENCE_S
            while step() == current:
                assert time.monotonic() < deadline, f"{keys} does not lead on from {current}"
                press(keys)
                time.sleep(0.7)
        wait_until(lambda: step() == "done")
        press("Escape")
        assert program.wait(timeout=30) == 0
    finally:
        if program.poll() is None:
            end(program)
    assert load_config(home / "data" / "configs" / "tiny.json").model_id == "tiny"
