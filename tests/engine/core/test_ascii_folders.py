"""Caches and temporary files of compilers get plain paths, whatever the person is called."""

from pathlib import Path

import pytest

from engine.core import ascii_folders
from engine.core.ascii_folders import ascii_folder, use_ascii_folders

NAME = ascii_folders._TEMPORARY[0]


@pytest.fixture
def common(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "common"
    folder.mkdir()
    monkeypatch.setattr(ascii_folders, "_common_folders", lambda: [folder])
    return folder


def test_a_plain_folder_is_taken_as_it_is(tmp_path: Path, common: Path):
    assert ascii_folder(tmp_path / "cache") == tmp_path / "cache"


def test_letters_of_other_scripts_lead_to_a_common_folder(tmp_path: Path, common: Path):
    found = ascii_folder(tmp_path / "Željko 測試" / "cache")
    assert found is not None
    assert str(found).isascii()
    assert found.is_relative_to(common)


def test_the_environment_is_changed_only_where_it_must(tmp_path: Path, common: Path):
    environment = {
        NAME: str(tmp_path / "Željko"),
        "CUPY_CACHE_DIR": str(tmp_path / "Željko" / ".cupy"),
    }
    folder = use_ascii_folders(tmp_path / "Željko" / "cache", environment)
    assert folder is not None
    assert environment[NAME] == str(folder / "temp")
    assert (folder / "temp").is_dir()
    assert environment["CUPY_CACHE_DIR"] == str(folder / "cupy")

    own = {NAME: str(tmp_path), "CUPY_CACHE_DIR": str(tmp_path / "mine")}
    assert use_ascii_folders(tmp_path / "Željko", dict(own)) is None


def test_where_nothing_can_be_made_nothing_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(ascii_folders, "_common_folders", lambda: [tmp_path / "file"])
    environment = {NAME: str(tmp_path / "Željko")}
    assert use_ascii_folders(tmp_path / "Željko", environment) is None
    assert environment == {NAME: str(tmp_path / "Željko")}
