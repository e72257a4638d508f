"""The real entries of Windows, by its own functions, under Wine."""

from pathlib import Path

import pytest

from tests.windows.checks import copy_program, windows_report
from tests.windows.wine import Wine

SCRIPT = Path(__file__).with_name("entries_check.py")
NEEDED = (
    "installer/__init__.py",
    "installer/entries.py",
    "installer/entries_windows.py",
    "installer/windows_links.py",
)


@pytest.mark.wine
def test_links_and_the_apps_entry_are_made_and_removed(wine: Wine, wine_folder: Path):
    program = wine_folder / "program"
    copy_program(NEEDED, program)
    report = windows_report(wine, wine_folder, SCRIPT, program, wine_folder)
    assert report["kinds"] == ["menu", "desktop", "apps"]
    assert report["location"] == wine.windows_path(wine_folder)
    assert report["size"] == [5 << 10, 4]  # a number, as Windows wants it
    assert report["is_link"]
    assert report["has_target"]
    assert report["has_arguments"]
    assert report["has_folder"]
    assert report["left"] == 0
