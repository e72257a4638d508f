"""What of Stratum runs: the app is found by how it was started, and ended before its server."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from installer.errors import InstallError
from installer.launch import Started, stays
from installer.running import end_all, require_stopped, running_app

PATIENCE_S = 90.0


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("STRATUM_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def app(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A program that is started as the app is, in a folder like the program's."""
    (tmp_path / "program" / "app").mkdir(parents=True)
    code = "import time; time.sleep(600)"
    (tmp_path / "program" / "app" / "__main__.py").write_text(code)
    process = subprocess.Popen([sys.executable, "-m", "app"], cwd=tmp_path / "program")
    deadline = time.monotonic() + PATIENCE_S
    while running_app() != process.pid:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    yield process
    process.kill()
    process.wait()


def test_the_app_keeps_the_data_folder_until_it_is_ended(
    app: subprocess.Popen[bytes], tmp_path: Path
):
    with pytest.raises(InstallError, match=f"process {app.pid}"):
        require_stopped(tmp_path)
    end_all(tmp_path)
    app.wait(timeout=PATIENCE_S)
    require_stopped(tmp_path)


def test_the_app_of_other_settings_is_somebody_else_s(
    app: subprocess.Popen[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("STRATUM_HOME", str(tmp_path / "another"))
    require_stopped(tmp_path)
    end_all(tmp_path)
    assert app.poll() is None
    assert psutil.pid_exists(app.pid)


@pytest.mark.parametrize(
    ("code", "is_there"), [("import time; time.sleep(600)", True), ("", True), ("1/0", False)]
)
def test_an_app_that_ends_with_an_error_was_not_started(tmp_path: Path, code: str, is_there: bool):
    process = subprocess.Popen(
        [sys.executable, "-c", code], stderr=subprocess.DEVNULL, env={**os.environ}
    )
    try:
        seconds = 1.0 if "sleep" in code else PATIENCE_S
        assert stays(Started("", tmp_path / "log", process), seconds) is is_there
    finally:
        process.kill()
        process.wait()
