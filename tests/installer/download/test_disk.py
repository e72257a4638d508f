"""The drive below a download: full, short, read-only, formatted as FAT, or gone."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from installer.download import disk, part_file, planner
from installer.download.disk import disk_error, link
from installer.download.job import DownloadJob
from installer.download.part_file import part_path
from installer.errors import DiskError
from tests.fake_hub.catalogs import catalog_for
from tests.fake_hub.content import GeneratedContent

SIZE = 5 << 20
CONTENT = GeneratedContent(SIZE)


@pytest.fixture
def job(hub, make_options):
    return DownloadJob(catalog_for(hub, {"m": {"m.gguf": CONTENT}}), "m", make_options())


def test_a_drive_that_is_too_small_is_said_before_the_first_byte(hub, job, monkeypatch):
    monkeypatch.setattr(planner, "free_bytes", lambda _folder: 2 << 20)
    assert not job.plan().fits_on_disk
    with pytest.raises(DiskError) as caught:
        job.run()
    assert caught.value.code == "disk_short"
    assert caught.value.params["missing_bytes"] == job.plan().disk_bytes - (2 << 20)
    assert hub.byte_requests == []


def test_only_missing_bytes_are_counted(job, hub, monkeypatch):
    monkeypatch.setattr(part_file, "PIECE_BYTES", 1 << 20)
    room = iter([True, True, False])

    def full_after_three(_folder, _num_bytes):
        if not next(room):
            raise DiskError("full", code="disk_full")

    monkeypatch.setattr(part_file, "check_room", full_after_three)
    with pytest.raises(DiskError):
        job.run()
    assert job.plan().fetch_bytes == SIZE - (3 << 20)


def test_a_drive_that_fills_up_keeps_the_part_and_the_download_goes_on_later(hub, job, monkeypatch):
    monkeypatch.setattr(part_file, "PIECE_BYTES", 1 << 20)
    free = [50 << 30, 50 << 30, 1 << 20]
    monkeypatch.setattr(part_file, "free_bytes", lambda _folder: free.pop(0) if free else 50 << 30)
    with pytest.raises(DiskError) as caught:
        job.run()
    assert caught.value.code == "disk_full"
    part = part_path(job.options.models_dir / "m" / "m.gguf")
    assert part.stat().st_size == 3 << 20
    job.run()
    assert hub.byte_requests[-1].range == f"bytes={3 << 20}-{SIZE - 1}"


def test_an_error_while_writing_keeps_whole_bytes_only(hub, job, monkeypatch):
    monkeypatch.setattr(part_file, "PIECE_BYTES", 1 << 20)
    real = part_file.PartFile._write
    calls = 0

    def failing(self, data):
        nonlocal calls
        calls += 1
        if calls == 5:
            self._opened().write(data[:100])  # a part of it reached the drive
            error = OSError(errno.ENOSPC, "No space left on device")
            self._opened().truncate(self._length)
            self._opened().seek(self._length)
            raise disk_error(error, self.path)
        real(self, data)

    monkeypatch.setattr(part_file.PartFile, "_write", failing)
    with pytest.raises(DiskError) as caught:
        job.run()
    assert caught.value.code == "disk_full"
    job.run()


def test_a_folder_that_cannot_be_written_is_said_so(job, monkeypatch):
    def refuse(*_arguments, **_keywords):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "mkdir", refuse)  # root may write everywhere
    with pytest.raises(DiskError) as caught:
        job.run()
    assert caught.value.code == "folder_read_only"


def test_a_file_in_the_folders_place_is_said_so(job):
    job.options.data_dir.parent.mkdir(parents=True, exist_ok=True)
    job.options.data_dir.write_text("I am a file")
    with pytest.raises(DiskError):
        job.run()


def test_a_fat_drive_is_refused_for_large_files_only(tmp_path, monkeypatch):
    monkeypatch.setattr(disk, "file_system_of", lambda _folder: "vfat")
    disk.check_largest_file(tmp_path, "small.gguf", 3 << 30)
    with pytest.raises(DiskError) as caught:
        disk.check_largest_file(tmp_path, "large.gguf", 5 << 30)
    assert caught.value.code == "file_too_large_for_drive"


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (errno.ENOSPC, "disk_full"),
        (errno.EDQUOT, "disk_full"),
        (errno.EROFS, "folder_read_only"),
        (errno.EACCES, "folder_read_only"),
        (errno.EFBIG, "file_too_large_for_drive"),
        (errno.ENODEV, "drive_gone"),
        (errno.ENOENT, "drive_gone"),
        (errno.EBUSY, "file_held"),
        (errno.EIO, "disk_failed"),
    ],
)
def test_what_the_system_says_becomes_a_sentence(number, code):
    error = disk_error(OSError(number, os.strerror(number)), Path("/d/models/m.gguf"))
    assert error.code == code
    assert "models" in error.message
    assert error.message.endswith(".")


@pytest.mark.parametrize(("times", "patience_s"), [(2, 60), (10_000, 0.5)])
def test_a_virus_scanner_that_holds_a_finished_file_is_waited_for(
    tmp_path, monkeypatch, times, patience_s
):
    monkeypatch.setattr(
        "engine.core.files.RENAME_PATIENCE_S", patience_s
    )  # on Windows there is one
    real, calls = Path.replace, 0

    def held(self, target):
        nonlocal calls
        calls += 1
        if calls <= times:
            raise PermissionError(errno.EACCES, "Access is denied")
        return real(self, target)

    monkeypatch.setattr(Path, "replace", held)
    (tmp_path / "part").write_bytes(b"x")
    if times == 2:
        disk.rename(tmp_path / "part", tmp_path / "whole")
        assert (tmp_path / "whole").read_bytes() == b"x"
    else:
        with pytest.raises(DiskError) as caught:
            disk.rename(tmp_path / "part", tmp_path / "whole")
        assert caught.value.code == "file_held"


def test_a_drive_that_is_not_there_is_said_so(job, monkeypatch):
    def gone(_path):
        raise FileNotFoundError(errno.ENOENT, "No such file or directory")

    monkeypatch.setattr(disk.shutil, "disk_usage", gone)
    with pytest.raises(DiskError) as caught:
        job.plan()
    assert caught.value.code == "drive_gone"


def test_a_link_to_a_link_is_a_link_to_the_file(tmp_path):
    real = tmp_path / "blob"
    real.write_bytes(b"x")
    (tmp_path / "pointer").symlink_to(real)
    assert link(tmp_path / "pointer", tmp_path / "deep" / "target")
    assert (tmp_path / "deep" / "target").samefile(real)
    assert link(real, tmp_path / "deep" / "target")  # again: nothing to do
    assert sorted(p.name for p in (tmp_path / "deep").iterdir()) == ["target"]


def test_the_file_system_of_a_folder_that_is_not_there_yet_is_known(tmp_path):
    assert disk.file_system_of(tmp_path / "a" / "b") == disk.file_system_of(tmp_path)
    assert disk.free_bytes(tmp_path / "a" / "b") > 0
