"""Entries in menus: what is written on Linux and on Windows, and that it goes again."""

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from engine.core.login_start import exec_word
from installer.entries import (
    UNINSTALL_KEY,
    EntryKind,
    EntryPlan,
    add_entries,
    remove_entries,
)
from installer.entries_linux import LinuxEntries, desktop_entry
from installer.entries_windows import Folder, Link, RegistryValue, WindowsEntries

AWKWARD = '/home/Jürgen 測試/100 % "mine"/back\\slash $HOME `x`'


def read_exec(line: str) -> list[str]:
    """The words of an Exec line as the specification reads them: value, then quotes, then codes."""
    value = re.sub(r"\\(.)", r"\1", line.partition("=")[2])
    words = re.findall(r'"((?:[^"\\]|\\.)*)"|(\S+)', value)
    return [(re.sub(r"\\(.)", r"\1", quoted) or bare).replace("%%", "%") for quoted, bare in words]


@pytest.mark.parametrize("folder", ["/opt/stratum", AWKWARD])
def test_a_menu_entry_starts_the_program_whatever_its_folder_is_called(folder: str):
    lines = desktop_entry(Path(folder)).splitlines()
    starts = [line for line in lines if line.startswith("Exec=")]
    assert read_exec(starts[0]) == [f"{folder}/setup.sh"]
    assert read_exec(starts[1]) == [f"{folder}/setup.sh", "--care"]


def test_percent_and_quotes_are_written_by_the_rules_of_exec():
    assert exec_word('a "b" 5%') == '"a \\\\"b\\\\" 5%%"'


@pytest.fixture
def linux(tmp_path: Path) -> LinuxEntries:
    return LinuxEntries({"HOME": str(tmp_path)})


def test_linux_entries_come_and_go(linux: LinuxEntries, tmp_path: Path):
    desktop = tmp_path / "Schreibtisch"
    desktop.mkdir()
    config = tmp_path / ".config"
    config.mkdir()
    (config / "user-dirs.dirs").write_text('XDG_DESKTOP_DIR="$HOME/Schreibtisch"\n')
    plan = EntryPlan(Path("/opt/stratum"), "1.0", with_desktop=True)
    made = add_entries(linux, plan)
    assert {entry.place for entry in made} == {
        str(tmp_path / ".local/share/applications/stratum.desktop"),
        str(desktop / "stratum.desktop"),
    }
    assert (desktop / "stratum.desktop").stat().st_mode & 0o100
    assert add_entries(linux, plan) == made  # again: the same, not more
    assert remove_entries(linux, made) == ()
    assert remove_entries(linux, made) == ()  # nothing is left to do
    assert not list(desktop.iterdir())


def test_without_a_desktop_folder_there_is_no_icon(linux: LinuxEntries):
    plan = EntryPlan(Path("/opt/stratum"), "1.0", with_desktop=True)
    assert linux.kinds(plan) == (EntryKind.MENU,)


def test_an_entry_that_the_system_refuses_is_left_out(
    linux: LinuxEntries, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    (tmp_path / ".local").write_text("a file where a folder should be")
    assert add_entries(linux, EntryPlan(Path("/opt/stratum"), "1.0")) == ()
    assert "could be made" in caplog.text


class FakeRegistry:
    def __init__(self) -> None:
        self.keys: dict[str, dict[str, RegistryValue]] = {}

    def write(self, key: str, values: Mapping[str, RegistryValue]) -> None:
        self.keys[key] = dict(values)

    def delete(self, key: str) -> None:
        self.keys.pop(key, None)


def test_windows_entries_come_and_go(tmp_path: Path):
    registry, links = FakeRegistry(), dict[Path, Link]()

    def write_link(path: Path, link: Link) -> None:
        links[path] = link
        path.write_text("link")

    folders = {Folder.PROGRAMS: tmp_path / "Startmenü", Folder.DESKTOP: tmp_path / "OneDrive"}
    system = WindowsEntries(registry, folders.__getitem__, write_link)
    root = tmp_path / "Spiele & mehr"
    made = add_entries(system, EntryPlan(root, "1.2.3", 500 << 20, with_desktop=True))
    assert [entry.kind for entry in made] == [EntryKind.MENU, EntryKind.DESKTOP, EntryKind.APPS]

    link = links[tmp_path / "Startmenü" / "Stratum.lnk"]
    assert link.target == root / ".venv" / "Scripts" / "pythonw.exe"
    assert (link.arguments, link.folder) == ("-m installer", root)
    values = registry.keys[UNINSTALL_KEY]
    assert values["DisplayVersion"] == "1.2.3"
    assert values["EstimatedSize"] == 500 << 10
    batch = root / "START-HERE.bat"
    assert values["UninstallString"] == f'cmd.exe /c ""{batch}" --uninstall"'
    assert str(values["QuietUninstallString"]).endswith('--uninstall --yes"')

    assert remove_entries(system, made) == ()
    assert registry.keys == {}
    assert not list((tmp_path / "OneDrive").iterdir())
