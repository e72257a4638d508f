"""Removing Stratum: what is listed, what is asked, what is left."""

import hashlib
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from engine.core.catalog import FileKind
from engine.core.errors import InputError
from engine.core.language import Language
from engine.core.settings import (
    EngineRecord,
    Settings,
    save_settings,
    settings_path,
    write_engine_record,
)
from installer import uninstall
from installer.care import CareOptions, inventory_lines, uninstall_here
from installer.download.installed import (
    InstalledFile,
    InstalledModel,
    installed_models,
    write_manifest,
)
from installer.entries_linux import LinuxEntries
from installer.i18n.texts import Texts
from installer.running import end_all
from installer.uninstall import Inventory, Keep, Part, remove, take_inventory
from installer.update import adopt

TEXTS = Texts(Language.ENGLISH)


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Inventory:
    """A release with a model, chats, settings, entries, and a file of the person's."""
    monkeypatch.setenv("STRATUM_HOME", str(tmp_path / "home"))
    root, data = tmp_path / "Stratum", tmp_path / "big drive" / "data"
    files = {"engine/__init__.py": '__version__ = "1.0"\n', "README.md": "", "setup.sh": ""}
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    hashes = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in files.items()}
    (root / "release.json").write_text(json.dumps({"files": hashes}))
    (root / ".venv").mkdir()
    (root / ".venv" / "big").write_bytes(bytes(5000))
    folder = data / "models" / "tiny"
    folder.mkdir(parents=True)
    (folder / "model.gguf").write_bytes(bytes(70_000))
    file = InstalledFile(
        kind=FileKind.MODEL, path=Path("model.gguf"), bytes=70_000, sha256="0" * 64
    )
    write_manifest(
        InstalledModel(id="tiny", title="Tiny", revision="", files=(file,), folder=folder)
    )
    (data / "models" / "half").mkdir()
    (data / "models" / "half" / "x.part").write_bytes(bytes(100))
    for name in ("configs/tiny.json", "chats/a.json", "logs/start.log", "calibration.json"):
        (data / name).parent.mkdir(exist_ok=True)
        (data / name).write_text("{}")
    save_settings(Settings(data_dir=data))
    adopt(root, LinuxEntries({"HOME": str(tmp_path / "person")}), self_test=lambda _: "")
    (data / "my thesis.odt").write_text("mine")
    (root / "my notes.txt").write_text("mine")
    return take_inventory(root, data)


def names_below(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def test_everything_is_listed_with_its_size(installed: Inventory):
    assert installed.num_bytes(Part.PROGRAM) >= 5000
    assert 70_000 < installed.num_bytes(Part.MODELS) < 72_000
    assert {part for part in Part if installed.has(part)} == set(Part)
    assert [path.name for path in installed.strangers] == ["my thesis.odt"]
    lines = inventory_lines(installed, TEXTS)
    assert any("Tiny" in line for line in lines)


def test_what_is_kept_stays_and_a_later_installation_finds_it(installed: Inventory, tmp_path: Path):
    entries = LinuxEntries({"HOME": str(tmp_path / "person")})
    assert remove(installed, Keep(), entries) == ()
    left = names_below(installed.data_dir)
    assert "models/tiny/model.gguf" in left
    assert {"chats/a.json", "configs/tiny.json", "my thesis.odt"} <= left
    assert not {"calibration.json", "logs/start.log"} & left
    assert settings_path().exists()  # names the data folder
    assert [model.id for model in installed_models(installed.data_dir / "models")] == ["tiny"]
    assert not names_below(tmp_path / "person")
    # The script that runs, the list and the environment are removed by the script itself.
    program = names_below(installed.root)
    assert program == {
        "setup.sh",
        "release.json",
        ".venv/big",
        ".state/uninstalled",
        "my notes.txt",
    }


def test_without_keeping_anything_only_the_persons_own_files_are_left(
    installed: Inventory, tmp_path: Path
):
    assert remove(installed, Keep(models=False, chats=False)) == ()
    assert names_below(installed.data_dir) == {"my thesis.odt"}
    assert not settings_path().parent.exists()


def test_what_the_app_keeps_is_known(installed: Inventory):
    """Chats with their journals and copies, the person's presets, and the app's own switches."""
    names = ("history.db", "history.db-wal", "history.copy.db", "chat_presets.json")
    for name in names:
        (installed.data_dir / name).write_bytes(b"chats")
    app = settings_path().with_name("app.json")
    app.write_text('{"format": 1}')
    inventory = take_inventory(installed.root, installed.data_dir)
    parts = {item.path.name: item.part for item in inventory.items if item.path is not None}
    assert {parts[name] for name in names} == {Part.CHATS}
    assert parts["app.json"] is Part.SETTINGS
    remove(inventory, Keep(models=False, chats=True))
    assert set(names) <= names_below(installed.data_dir)
    assert not app.exists()


def test_caches_outside_the_data_folder_go_too(
    installed: Inventory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    cache, plain = tmp_path / "cache" / "stratum", tmp_path / "plain" / "Stratum" / "somebody"
    for folder in (cache / "kernels", plain / "cupy"):
        folder.mkdir(parents=True)
    monkeypatch.setattr(uninstall, "is_portable", lambda: False)
    monkeypatch.setattr(uninstall.platformdirs, "user_cache_dir", lambda *_, **__: str(cache))
    monkeypatch.setattr(uninstall, "cache_folders_of_this_person", lambda: [plain])
    monkeypatch.setattr(uninstall, "set_login_start", lambda *_, **__: None)
    remove(take_inventory(installed.root, installed.data_dir), Keep())
    assert not cache.exists()
    assert not plain.exists()


def test_yes_keeps_models_and_chats_and_asks_nothing(
    installed: Inventory, capsys: pytest.CaptureFixture[str]
):
    options = CareOptions(
        is_agreed=True, as_json=True, data_dir=installed.data_dir, root=installed.root
    )
    assert uninstall_here(options, TEXTS, LinuxEntries({"HOME": "/nowhere"})) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["kept"] == ["models", "chats"]
    assert report["problems"] == []
    assert (installed.data_dir / "models" / "tiny" / "model.gguf").exists()


def test_nobody_who_can_be_asked_is_no_consent(
    installed: Inventory, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("sys.stdin", io.StringIO())
    before = names_below(installed.root)
    options = CareOptions(data_dir=installed.data_dir, root=installed.root)
    with pytest.raises(InputError, match="--yes"):
        uninstall_here(options, TEXTS)
    assert names_below(installed.root) == before


@pytest.mark.skipif(sys.platform == "win32", reason="starts a stand-in by sh")
def test_a_running_server_is_ended_first(tmp_path: Path):
    process = subprocess.Popen(["sleep", "60"])
    try:
        write_engine_record(tmp_path, EngineRecord(pid=process.pid, port=1))
        end_all(tmp_path)
        process.wait(timeout=60)
    finally:
        process.kill()


def test_a_checkout_keeps_its_files(installed: Inventory):
    (installed.root / "release.json").unlink()
    remove(take_inventory(installed.root, installed.data_dir), Keep())
    assert (installed.root / "engine" / "__init__.py").exists()
