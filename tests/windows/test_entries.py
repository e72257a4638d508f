"""The real entries of Windows, by its own functions, under Wine."""

import json
import shutil
from pathlib import Path

import pytest

from tests.windows.wine import Wine

ROOT = Path(__file__).parents[2]
SCRIPT = Path(__file__).with_name("entries_check.py")
NEEDED = ("__init__.py", "entries.py", "entries_windows.py", "windows_links.py")


@pytest.mark.wine
def test_links_and_the_apps_entry_are_made_and_removed(wine: Wine, wine_folder: Path):
    program = wine_folder / "program"
    (program / "installer").mkdir(parents=True)
    for name in NEEDED:
        shutil.copy2(ROOT / "installer" / name, program / "installer")
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
    assert report["kinds"] == ["menu", "desktop", "apps"]
    assert report["location"] == wine.windows_path(wine_folder)
    assert report["size"] == [5 << 10, 4]  # a number, as Windows wants it
    assert report["is_link"]
    assert report["has_target"]
    assert report["has_arguments"]
    assert report["has_folder"]
    assert report["left"] == 0
