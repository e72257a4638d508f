"""A newer version takes over only when it works; else the former one is what starts."""

import json
import sys
from pathlib import Path

import pytest

from engine.core.login_start import python_of
from installer.entries_linux import LinuxEntries
from installer.program import program_files, read_record, record_path
from installer.update import (
    Outcome,
    adopt,
    former_version,
    restore,
    roll_back,
    run_self_test,
)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("STRATUM_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def program(folder: Path, version: str) -> Path:
    """A folder with a program and its environment."""
    for name, text in {
        "engine/__init__.py": f'__version__ = "{version}"\n',
        f"engine/only_in_{version.replace('.', '_')}.py": "",
        "setup.sh": "#!/bin/sh\n",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    python = python_of(folder)
    python.parent.mkdir(parents=True, exist_ok=True)
    python.touch()
    return folder


def works(_root: Path) -> str:
    return ""


def fails(_root: Path) -> str:
    return "the kernels disagree"


def not_asked(_root: Path) -> str:
    raise AssertionError("the self-test must not run")


def test_the_first_version_is_taken_and_then_nothing_is_tested_again(tmp_path: Path):
    root = program(tmp_path / "one", "1.0")
    assert adopt(root, self_test=works).outcome is Outcome.FIRST
    assert adopt(root, self_test=not_asked).outcome is Outcome.UNCHANGED


def test_a_newer_version_in_another_folder_takes_the_entries_over(tmp_path: Path):
    entries = LinuxEntries({"HOME": str(tmp_path / "person")})
    adopt(program(tmp_path / "one", "1.0"), entries, self_test=works)
    new = program(tmp_path / "two", "2.0")
    adoption = adopt(new, entries, self_test=works)
    assert (adoption.outcome, adoption.root, adoption.version) == (Outcome.UPDATED, new, "2.0")
    record = read_record()
    assert record is not None
    assert record.former is not None
    assert record.former.root == tmp_path / "one"
    assert str(new / "setup.sh") in Path(record.entries[0].place).read_text()
    back = roll_back(self_test=works)
    assert back is not None
    assert back.root == tmp_path / "one"


def test_a_newer_version_that_fails_leaves_the_former_one_installed(tmp_path: Path):
    entries = LinuxEntries({"HOME": str(tmp_path / "person")})
    old = program(tmp_path / "one", "1.0")
    adopt(old, entries, self_test=works)
    new = program(tmp_path / "two", "2.0")
    adoption = adopt(new, entries, self_test=fails)
    assert (adoption.outcome, adoption.root) == (Outcome.KEPT_FORMER, old)
    assert adoption.reason == "the kernels disagree"
    record = read_record()
    assert record is not None
    assert record.root == old
    assert str(old / "setup.sh") in Path(record.entries[0].place).read_text()
    # It is not tested at each start ...
    assert adopt(new, entries, self_test=not_asked).outcome is Outcome.KEPT_FORMER
    # ... but after a change it is.
    (new / "engine" / "fix.py").write_text("")
    assert adopt(new, entries, self_test=works).outcome is Outcome.UPDATED


def test_over_the_same_folder_the_former_files_are_put_back(tmp_path: Path):
    root = program(tmp_path / "one", "1.0")
    adopt(root, self_test=works)
    before = {name: (root / name).read_bytes() for name in program_files(root)}
    program(root, "2.0")
    adoption = adopt(root, self_test=fails)
    assert (adoption.outcome, adoption.version) == (Outcome.PUT_BACK, "1.0")
    assert {name: (root / name).read_bytes() for name in program_files(root)} == before
    assert adopt(root, self_test=not_asked).outcome is Outcome.UNCHANGED


def test_over_the_same_folder_a_working_version_keeps_a_copy_of_the_former(tmp_path: Path):
    root = program(tmp_path / "one", "1.0")
    adopt(root, self_test=works)
    for version in ("2.0", "3.0"):
        program(root, version)
        assert adopt(root, self_test=works).outcome is Outcome.UPDATED
    copies = sorted(path.name[:3] for path in (tmp_path / "home/data/program").iterdir())
    assert copies == ["2.0", "3.0"]  # the current and the former, no more
    back = roll_back()
    assert back is not None
    assert "2.0" in (root / "engine" / "__init__.py").read_text()


def test_a_person_can_go_back_and_forth_between_two_folders(tmp_path: Path):
    entries = LinuxEntries({"HOME": str(tmp_path / "person")})
    old, new = program(tmp_path / "one", "1.0"), program(tmp_path / "two", "2.0")
    adopt(old, entries, self_test=works)
    adopt(new, entries, self_test=works)
    back = roll_back(entries, self_test=works)
    assert back is not None
    assert (back.outcome, back.root, back.version) == (Outcome.KEPT_FORMER, old, "1.0")
    record = read_record()
    assert record is not None
    assert str(old / "setup.sh") in Path(record.entries[0].place).read_text()
    # The version that was left is not taken again by itself ...
    left = adopt(new, entries, self_test=not_asked)
    assert (left.outcome, left.root) == (Outcome.LEFT, old)
    assert adopt(old, entries, self_test=not_asked).outcome is Outcome.UNCHANGED
    # ... but when the person wants it.
    again = roll_back(entries, self_test=works)
    assert again is not None
    assert again.root == new
    assert adopt(new, entries, self_test=not_asked).outcome is Outcome.UNCHANGED


def test_going_back_in_one_folder_can_be_undone_too(tmp_path: Path):
    root = program(tmp_path / "one", "1.0")
    adopt(root, self_test=works)
    program(root, "2.0")
    adopt(root, self_test=works)
    for version in ("1.0", "2.0"):
        back = roll_back()
        assert back is not None
        assert (back.outcome, back.version) == (Outcome.PUT_BACK, version)
        assert version in (root / "engine" / "__init__.py").read_text()
        assert adopt(root, self_test=not_asked).outcome is Outcome.UNCHANGED


def test_a_former_version_that_no_longer_works_is_not_gone_back_to(tmp_path: Path):
    adopt(program(tmp_path / "one", "1.0"), self_test=works)
    new = program(tmp_path / "two", "2.0")
    adopt(new, self_test=works)
    back = roll_back(self_test=fails)
    assert back is not None
    assert (back.outcome, back.reason) == (Outcome.FAILED, "the kernels disagree")
    assert adopt(new, self_test=not_asked).outcome is Outcome.UNCHANGED


def test_without_a_former_version_there_is_no_way_back(tmp_path: Path):
    assert former_version() is None
    adopt(program(tmp_path / "one", "1.0"), self_test=works)
    assert former_version() is None
    assert roll_back() is None


def test_an_interrupted_restoration_is_finished_at_the_next_start(tmp_path: Path):
    root = program(tmp_path / "one", "1.0")
    adopt(root, self_test=works)
    record = read_record()
    assert record is not None
    assert record.archive is not None
    (root / "engine" / "__init__.py").write_text("half")
    (root / ".state").mkdir()
    (root / ".state" / "restoring.json").write_text(json.dumps({"archive": str(record.archive)}))
    adopt(root, self_test=works)
    assert "1.0" in (root / "engine" / "__init__.py").read_text()
    assert not (root / ".state" / "restoring.json").exists()


def test_a_checkout_of_git_is_left_alone(tmp_path: Path):
    root = program(tmp_path / "one", "1.0")
    (root / ".git").mkdir()
    adopt(root, self_test=works)
    program(root, "2.0")
    assert adopt(root, self_test=fails).outcome is Outcome.FAILED
    assert "2.0" in (root / "engine" / "__init__.py").read_text()


def test_a_broken_record_is_set_aside(tmp_path: Path):
    record_path().parent.mkdir(parents=True)
    record_path().write_text("{")
    root = program(tmp_path / "one", "1.0")
    assert adopt(root, self_test=works).outcome is Outcome.FIRST
    assert record_path().with_name("program.json.bak").read_text() == "{"


def test_a_foreign_archive_writes_nothing_outside_the_folder(tmp_path: Path):
    import zipfile  # noqa: PLC0415

    archive = tmp_path / "evil.zip"
    with zipfile.ZipFile(archive, "w") as made:
        made.writestr("../evil.txt", "x")
    root = program(tmp_path / "one", "1.0")
    with pytest.raises(OSError, match="no copy"):
        restore(root, archive)
    assert not (tmp_path / "evil.txt").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="needs a stand-in for python.exe")
@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("exit 0", ""),
        (
            """echo '{"checks": [{"subject": "CPU kernels", "health": "failed",
                                  "detail": "3 disagree"}]}'; exit 1""",
            "CPU kernels: 3 disagree",
        ),
        ("echo no module >&2; exit 1", "no module"),
        ("exit 3", "the self-test ended with 3"),
    ],
)
def test_the_self_test_says_what_is_wrong(tmp_path: Path, script: str, reason: str):
    root = program(tmp_path / "one", "1.0")
    python_of(root).write_text(f"#!/bin/sh\n{script}\n")
    python_of(root).chmod(0o755)
    assert run_self_test(root) == reason


def test_a_program_without_its_python_does_not_work(tmp_path: Path):
    assert "cannot be started" in run_self_test(tmp_path)
