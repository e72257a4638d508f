"""The Windows reader of table rows, run by a Windows Python; and the same check on Linux."""

import shutil
import sys
from pathlib import Path

import pytest

from tests.windows.checks import PREBUILT, own_report, windows_report
from tests.windows.wine import Wine

SCRIPT = Path(__file__).with_name("rows_check.py")


@pytest.mark.wine
def test_rows_come_through_a_completion_port_on_windows(wine: Wine, wine_folder: Path):
    library = wine_folder / "stratum_host.dll"
    shutil.copy2(PREBUILT / library.name, wine_folder)
    report = windows_report(wine, wine_folder, SCRIPT, library, wine_folder)
    assert report == {"wrong": [], "kinds": [0, 2]}


@pytest.mark.skipif(sys.platform != "linux", reason="the other library is for Linux")
def test_the_check_itself_is_right_with_the_library_of_linux(tmp_path: Path):
    report = own_report(SCRIPT, PREBUILT / "libstratum_host.so", tmp_path)
    assert report["wrong"] == []
    assert report["kinds"][1] in {2, 3}
