"""Moving the data folder: nothing is lost, everything follows, and a move can be interrupted anywhere."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from engine.core.catalog import FileKind
from engine.core.config_file import load_config
from engine.core.errors import InputError
from engine.core.language import Language
from engine.core.settings import (
    EngineRecord,
    Settings,
    load_settings,
    save_settings,
    settings_path,
    write_engine_record,
)
from installer import file_copy, move_data
from installer.care import CareOptions, move_here
from installer.download.installed import (
    InstalledFile,
    InstalledModel,
    read_manifest,
    write_manifest,
)
from installer.download.lock import download_lock
from installer.download.progress import DownloadProgress, Phase
from installer.download.verified import VerifiedFiles
from installer.errors import BusyError, DiskError, InstallError, StoppedError
from installer.i18n.texts import Texts
from installer.move_data import DataMove, MoveError, pending_move, require_no_pending_move

SHARD = bytes(range(256)) * 400
SHARED = b"n-gram table" * 5000


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("STRATUM_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Two models that share a file, their configs, chats, and a file of the person's."""
    data = tmp_path / "small drive" / "Stratum Jürgen 測試"
    for model_id in ("one", "two"):
        folder = data / "models" / model_id
        folder.mkdir(parents=True)
        (folder / "m-00001-of-00002.gguf").write_bytes(SHARD)
        config = data / "configs" / f"{model_id}.json"
        config.parent.mkdir(exist_ok=True)
        content = {"format": 1, "model": str(folder / "m-00001-of-00002.gguf"), "port": 9090}
        config.write_text(json.dumps(content), "utf-8")
    shared = data / "models" / "one" / "m-00002-of-00002.gguf"
    shared.write_bytes(SHARED)
    os.link(shared, data / "models" / "two" / "m-00002-of-00002.gguf")
    verified = VerifiedFiles(data / "models")
    for model_id in ("one", "two"):
        folder = data / "models" / model_id
        files = []
        for path in sorted(folder.glob("*.gguf")):
            sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
            verified.remember(path, sha256)
            size = path.stat().st_size
            files.append(
                InstalledFile(kind=FileKind.MODEL, path=Path(path.name), bytes=size, sha256=sha256)
            )
        model = InstalledModel(
            id=model_id, title=model_id, revision="", files=tuple(files), folder=folder
        )
        write_manifest(model)
    (data / "logs").mkdir()
    (data / "logs" / "start.log").write_text("hello")
    (data / "history.db").write_bytes(b"chats")
    (data / "empty").mkdir()
    (data / "my thesis.odt").write_text("mine")
    save_settings(Settings(data_dir=data, active_config=data / "configs" / "one.json"))
    installation = {
        "format": 1,
        "step": "done",
        "choices": {"data_dir": str(data), "search": [str(data / "my thesis.odt")]},
        "config": str(data / "configs" / "one.json"),
    }
    settings_path().with_name("installation.json").write_text(json.dumps(installation), "utf-8")
    return data


@pytest.fixture
def other_drive(monkeypatch: pytest.MonkeyPatch) -> None:
    """Renaming between folders is refused as between drives."""
    devices: dict[str, int] = {}

    def refuse(_source: Path, _target: Path) -> bool:
        return False

    monkeypatch.setattr(move_data, "_rename", refuse)
    monkeypatch.setattr(
        move_data,
        "_device",
        lambda folder: devices.setdefault(folder.anchor + folder.name, len(devices)),
    )


def contents(data: Path) -> dict[str, bytes]:
    return {
        path.relative_to(data).as_posix(): path.read_bytes()
        for path in sorted(data.rglob("*"))
        if path.is_file() and path.suffix != ".json" and path.name != ".download.lock"
    }


def is_all_there(before: dict[str, bytes], target: Path) -> None:
    """All files, settings and configs are in the new folder, and work there."""
    assert contents(target) == {k: v for k, v in before.items() if k != "my thesis.odt"}
    settings = load_settings()
    assert settings.data_dir == target
    assert settings.active_config == target / "configs" / "one.json"
    config = load_config(target / "configs" / "one.json")
    assert config.model == target / "models" / "one" / "m-00001-of-00002.gguf"
    assert config.port == 9090
    manifest = read_manifest(target / "models" / "two")
    assert manifest is not None
    verified = VerifiedFiles(target / "models")
    for file in manifest.files:  # they need not be read again
        assert verified.sha256_of(manifest.path_of(file)) == file.sha256
    one, two = (target / "models" / name / "m-00002-of-00002.gguf" for name in ("one", "two"))
    assert one.samefile(two)
    record = json.loads(settings_path().with_name("installation.json").read_text("utf-8"))
    assert record["config"] == str(target / "configs" / "one.json")
    assert record["choices"]["data_dir"] == str(target)
    assert pending_move() is None


@pytest.mark.parametrize("is_far", [False, True])
def test_everything_is_in_the_new_folder_and_the_person_s_own_file_in_the_old(
    data: Path, tmp_path: Path, is_far: bool, request: pytest.FixtureRequest
):
    if is_far:
        request.getfixturevalue("other_drive")
    before = contents(data)
    target = tmp_path / "big drive" / "數據"
    report = DataMove(data, target).run()
    is_all_there(before, target)
    assert report.strangers == ("empty", "my thesis.odt")
    assert sorted(path.name for path in data.iterdir()) == ["empty", "my thesis.odt"]
    record = json.loads(settings_path().with_name("installation.json").read_text("utf-8"))
    assert record["choices"]["search"] == [str(data / "my thesis.odt")]


def test_a_folder_that_holds_nothing_else_goes(data: Path, tmp_path: Path):
    (data / "my thesis.odt").unlink()
    (data / "empty").rmdir()
    DataMove(data, tmp_path / "new").run()
    assert not data.exists()


def stop_at(move: DataMove, phase: Phase, count: int) -> Callable[[DownloadProgress], None]:
    """Stops when so many reports of a phase have come."""
    seen = 0

    def look(progress: DownloadProgress) -> None:
        nonlocal seen
        seen += progress.phase is phase
        if seen >= count:
            move.stop()

    return look


@pytest.mark.parametrize("count", range(1, 9))
@pytest.mark.parametrize("phase", [Phase.MOVING, Phase.VERIFYING])
def test_a_copy_that_was_stopped_anywhere_goes_on(
    data: Path, tmp_path: Path, other_drive: None, phase: Phase, count: int
):
    before, target = contents(data), tmp_path / "new"
    move = DataMove(data, target)
    with pytest.raises(StoppedError, match="Nothing is lost"):
        move.run(stop_at(move, phase, count))
    assert contents(data) == before  # the originals are whole until all is there
    assert load_settings().data_dir == data
    DataMove(load_settings().data_dir, target).run()
    is_all_there(before, target)


def test_a_file_is_not_copied_twice_from_its_beginning(
    data: Path, tmp_path: Path, other_drive: None, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(file_copy, "_READ_BYTES", 1000)
    target = tmp_path / "new"
    part = target / "models" / "one" / "m-00001-of-00002.gguf.moving"
    part.parent.mkdir(parents=True)
    pending = {"format": 1, "source": str(data), "target": str(target)}
    move_data.pending_path().write_text(json.dumps(pending), "utf-8")
    part.write_bytes(SHARD[:70_000])
    inode = part.stat().st_ino
    DataMove(data, target).run()
    assert part.with_suffix("").read_bytes() == SHARD
    assert part.with_suffix("").stat().st_ino == inode


def test_a_part_that_is_not_what_it_should_be_is_copied_anew(
    data: Path, tmp_path: Path, other_drive: None
):
    target = tmp_path / "new"
    part = target / "models" / "one" / "m-00001-of-00002.gguf.moving"
    part.parent.mkdir(parents=True)
    pending = {"format": 1, "source": str(data), "target": str(target)}
    move_data.pending_path().write_text(json.dumps(pending), "utf-8")
    part.write_bytes(bytes(70_000))
    before = contents(data)
    DataMove(data, target).run()
    is_all_there(before, target)


def test_a_drive_that_returns_something_else_keeps_the_originals(
    data: Path, tmp_path: Path, other_drive: None, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(file_copy, "hash_file", lambda *_arguments: "0" * 64)
    before = contents(data)
    with pytest.raises(DiskError, match="original is kept"):
        DataMove(data, tmp_path / "new").run()
    assert contents(data) == before
    assert load_settings().data_dir == data


def test_a_drive_that_is_full_half_way_is_a_sentence_and_the_move_goes_on(
    data: Path, tmp_path: Path, other_drive: None, monkeypatch: pytest.MonkeyPatch
):
    before, target = contents(data), tmp_path / "new"
    with monkeypatch.context() as patch:
        real = file_copy._copy

        def full(source: Path, part: Path, *rest: object) -> str:
            if part.parent.name == "two":
                raise OSError(errno.ENOSPC, "No space left on device")
            return real(source, part, *rest)

        patch.setattr(file_copy, "_copy", full)
        with pytest.raises(DiskError, match="is full"):
            DataMove(data, target).run()
    assert contents(data) == before
    with pytest.raises(MoveError, match="--move-data"):
        require_no_pending_move()
    DataMove(data, target).run()
    is_all_there(before, target)


def test_too_little_room_is_said_before_the_first_byte(
    data: Path, tmp_path: Path, other_drive: None, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(move_data, "free_bytes", lambda _folder: 1000)
    with pytest.raises(DiskError, match="moving needs"):
        DataMove(data, tmp_path / "new").run()
    assert pending_move() is None


def test_an_interruption_after_the_switch_only_removes_the_old_files(
    data: Path, tmp_path: Path, other_drive: None, monkeypatch: pytest.MonkeyPatch
):
    before, target = contents(data), tmp_path / "new"

    def crash(*_arguments: object) -> list[str]:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(DataMove, "_remove_old", crash)
        with pytest.raises(KeyboardInterrupt):
            DataMove(data, target).run()
    # The new folder is in use already: what was changed there stays.
    config = target / "configs" / "two.json"
    config.write_text(config.read_text("utf-8").replace("9090", "7070"), "utf-8")
    DataMove(load_settings().data_dir, target).run()
    is_all_there(before, target)
    assert load_config(config).port == 7070
    assert sorted(path.name for path in data.iterdir()) == ["empty", "my thesis.odt"]


def test_a_way_around_through_other_folders_is_not_kept(data: Path, tmp_path: Path):
    DataMove(data, tmp_path / "somewhere" / ".." / "new").run()
    assert load_settings().data_dir == tmp_path / "new"


def test_another_folder_cannot_be_chosen_before_the_move_is_finished(
    data: Path, tmp_path: Path, other_drive: None
):
    move = DataMove(data, tmp_path / "new")
    with pytest.raises(StoppedError):
        move.run(stop_at(move, Phase.MOVING, 1))
    with pytest.raises(MoveError, match="was interrupted"):
        DataMove(data, tmp_path / "third").run()


@pytest.mark.parametrize(
    ("where", "sentence"),
    [
        ("{data}", "already"),
        ("{data}/models/new", "in each other"),
        ("{data}/..", "in each other"),
        ("{data}/my thesis.odt", "in each other"),
        ("{tmp}/file", "is a file"),
        ("{tmp}/other", "has files of Stratum"),
    ],
)
def test_folders_that_cannot_be_the_new_one_are_refused(
    data: Path, tmp_path: Path, where: str, sentence: str
):
    (tmp_path / "file").write_text("")
    (tmp_path / "other" / "models").mkdir(parents=True)
    before = contents(data)
    with pytest.raises(MoveError, match=sentence):
        DataMove(data, Path(where.format(data=data, tmp=tmp_path))).run()
    assert contents(data) == before
    assert pending_move() is None


def test_a_running_server_keeps_its_folder(data: Path, tmp_path: Path):
    own = psutil.Process()
    write_engine_record(data, EngineRecord(pid=own.pid, port=1))
    with pytest.raises(InstallError, match=f"process {own.pid}"):
        DataMove(data, tmp_path / "new").run()


def test_a_download_keeps_its_folder(data: Path, tmp_path: Path):
    with download_lock(data / "models"), pytest.raises(BusyError):
        DataMove(data, tmp_path / "new").run()


@pytest.mark.skipif("sys.platform == 'win32'", reason="links want a right there")
def test_links_follow(data: Path, tmp_path: Path):
    far = tmp_path / "far.gguf"
    far.write_bytes(b"far")
    folder = data / "models" / "one"
    (folder / "far.gguf").symlink_to(far)
    (folder / "near.gguf").symlink_to(folder / "m-00001-of-00002.gguf")
    target = tmp_path / "new"
    DataMove(data, target).run()
    assert (target / "models" / "one" / "far.gguf").read_bytes() == b"far"
    near = target / "models" / "one" / "near.gguf"
    assert near.readlink() == target / "models" / "one" / "m-00001-of-00002.gguf"


def test_nothing_is_moved_without_being_asked(data: Path, tmp_path: Path, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO())
    with pytest.raises(InputError, match="--yes"):
        move_here(CareOptions(), tmp_path / "new", Texts(Language.ENGLISH))
    assert load_settings().data_dir == data


def test_the_command_says_where_everything_is(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    target = tmp_path / "new"
    assert move_here(CareOptions(is_agreed=True), target, Texts(Language.ENGLISH)) == 0
    said = capsys.readouterr().out
    assert f"Everything is in {target} now" in said
    assert "my thesis.odt" in said
    back = CareOptions(is_agreed=True, as_json=True)
    assert move_here(back, tmp_path / "third", Texts(Language.ENGLISH)) == 0
    assert json.loads(capsys.readouterr().out)["target"] == str(tmp_path / "third")
