"""Scripts that check something on Windows and print what they saw as one JSON object."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.windows.wine import Wine

ROOT = Path(__file__).parents[2]
PREBUILT = ROOT / "engine" / "kernels" / "prebuilt"


def copy_program(names: Iterable[str], program: Path) -> None:
    """Files of ours, by their paths in the repository, below another folder."""
    for name in names:
        (program / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, program / name)


def windows_report(wine: Wine, folder: Path, script: Path, *paths: Path) -> Any:
    """What a script prints that Windows' Python runs in a folder, with paths as Windows sees them."""
    shutil.copy2(script, folder)
    words = [wine.windows_path(path) for path in paths]
    python = wine.windows_path(wine.python / "python.exe")
    done = wine.run(python, "-X", "utf8", script.name, *words, cwd=folder)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def own_report(script: Path, *paths: Path) -> Any:
    """What the same script prints here."""
    done = subprocess.run(
        [sys.executable, script, *paths],
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=True,
    )
    return json.loads(done.stdout)
