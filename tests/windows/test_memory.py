"""What the engine asks Windows about memory, under Wine."""

import json
import shutil
from pathlib import Path

import pytest

from tests.windows.wine import Wine

ROOT = Path(__file__).parents[2]
SCRIPT = Path(__file__).with_name("memory_check.py")
NEEDED = (
    "engine/__init__.py",
    "engine/core/__init__.py",
    "engine/core/cgroup.py",
    "engine/core/memory_pressure.py",
    "engine/gguf/__init__.py",
    "engine/gguf/file_pages.py",
    "engine/memory/__init__.py",
    "engine/memory/idle_pages.py",
)


@pytest.mark.wine
def test_pages_are_asked_for_given_back_and_watched(wine: Wine, wine_folder: Path):
    program = wine_folder / "program"
    for name in NEEDED:
        (program / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, program / name)
    shutil.copy2(SCRIPT, wine_folder)
    done = wine.run(
        wine.windows_path(wine.python / "python.exe"),
        "-X",
        "utf8",
        SCRIPT.name,
        wine.windows_path(program),
        wine.windows_path(wine_folder),
        cwd=wine_folder,
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report == {
        "pages": True,
        "contents": True,
        "missing": None,
        "waits": False,
        "forgotten": 2 * 65536,
        "others": True,
        "watch": True,
        "is_low": report["is_low"],
    }
    assert report["is_low"] in {True, False}
