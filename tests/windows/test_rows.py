"""The Windows reader of table rows, run by a Windows Python; and the same check on Linux."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.windows.wine import Wine

ROOT = Path(__file__).parents[2]
PREBUILT = ROOT / "engine" / "kernels" / "prebuilt"
SCRIPT = Path(__file__).with_name("rows_check.py")


@pytest.mark.wine
def test_rows_come_through_a_completion_port_on_windows(wine: Wine, wine_folder: Path):
    shutil.copy2(PREBUILT / "stratum_host.dll", wine_folder)
    shutil.copy2(SCRIPT, wine_folder)
    words = [
        wine.windows_path(wine.python / "python.exe"),
        SCRIPT.name,
        wine.windows_path(wine_folder / "stratum_host.dll"),
        wine.windows_path(wine_folder),
    ]
    done = wine.run(*words, cwd=wine_folder)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"wrong": [], "kinds": [0, 2]}


@pytest.mark.skipif(sys.platform != "linux", reason="the other library is for Linux")
def test_the_check_itself_is_right_with_the_library_of_linux(tmp_path: Path):
    done = subprocess.run(
        [sys.executable, SCRIPT, PREBUILT / "libstratum_host.so", tmp_path],
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=True,
    )
    report = json.loads(done.stdout)
    assert report["wrong"] == []
    assert report["kinds"][1] in {2, 3}
