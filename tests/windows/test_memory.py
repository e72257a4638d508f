"""What the engine asks Windows about memory, under Wine."""

from pathlib import Path

import pytest

from tests.windows.checks import copy_program, windows_report
from tests.windows.wine import Wine

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
    copy_program(NEEDED, program)
    report = windows_report(wine, wine_folder, SCRIPT, program, wine_folder)
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
