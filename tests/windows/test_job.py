"""The engine's processes on Windows: one Job object, and no orphans, under Wine."""

from pathlib import Path

import pytest

from tests.windows.checks import ROOT, copy_program, windows_report
from tests.windows.wine import Wine

SCRIPT = Path(__file__).with_name("job_check.py")
NEEDED = (
    "engine/__init__.py",
    "engine/core/__init__.py",
    "engine/core/lasting_none.py",
    "engine/core/errors.py",
    "engine/core/error_lines.py",
)


@pytest.mark.wine
@pytest.mark.timeout(400)
def test_the_engine_ends_with_whoever_started_it(wine: Wine, wine_folder: Path):
    program = wine_folder / "program"
    copy_program([*NEEDED, *_files_of("app"), *_files_of("app/supervisor")], program)
    report = windows_report(wine, wine_folder, SCRIPT, program, wine_folder)
    assert report == {
        "is_its_child": True,
        "lives": True,
        "priorities": [True, True],
        "asking_is_no_force": True,
        "killed": True,
        "exit_status": 1,
        "family_lives": False,
        "log": True,
        "lived_before": True,
        "orphans": False,
        "log_lines": ["x", "y", "z"],
        "phases": ["loading", "starting"],
        "reason": "out_of_memory",
        "effects": ["Prepare"],
    }


def _files_of(folder: str) -> list[str]:
    return [f"{folder}/{path.name}" for path in sorted((ROOT / folder).glob("*.py"))]
