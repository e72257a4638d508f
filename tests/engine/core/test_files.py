from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from engine.core.errors import ConfigError, InputError, ResourceError
from engine.core.files import (
    keep_backup,
    read_json,
    read_json_value,
    replacing,
    write_atomically,
    write_json,
)


def test_a_file_is_replaced_whole_and_leaves_no_temporary_behind(tmp_path: Path) -> None:
    path = tmp_path / "ünï 中文" / "settings.json"
    write_atomically(path, b"old")
    write_atomically(path, b"new")
    assert path.read_bytes() == b"new"
    assert [entry.name for entry in path.parent.iterdir()] == ["settings.json"]


def test_a_failed_write_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "history.json"
    write_atomically(path, b"precious")

    def full_disk(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(ResourceError, match=r"history\.json cannot be written \(No space left"):
        write_atomically(path, b"half")
    assert path.read_bytes() == b"precious"
    assert [entry.name for entry in tmp_path.iterdir()] == ["history.json"]


@pytest.mark.parametrize(("patience_s", "is_replaced"), [(60.0, True), (0.0, False)])
def test_a_rename_that_a_scanner_holds_up_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, patience_s: float, is_replaced: bool
) -> None:
    path, rename, refusals = tmp_path / "a.json", Path.replace, [1, 2]

    def held(self: Path, target: Path) -> Path:
        if refusals:
            refusals.pop()
            raise PermissionError(13, "The file is in use")
        return rename(self, target)

    monkeypatch.setattr(Path, "replace", held)
    monkeypatch.setattr("engine.core.files.RENAME_PATIENCE_S", patience_s)
    if is_replaced:
        write_atomically(path, b"new")
    else:
        with pytest.raises(ResourceError, match="in use"):
            write_atomically(path, b"new")
    assert path.exists() == is_replaced
    assert len(list(tmp_path.iterdir())) == is_replaced


def test_json_round_trip_keeps_letters_readable(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_json(path, {"format": 1, "name": "Größe 中"})
    assert "Größe 中" in path.read_text(encoding="utf-8")
    assert read_json(path, 1) == {"format": 1, "name": "Größe 中"}


def test_a_byte_order_mark_from_an_editor_is_accepted(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps({"format": 1}).encode())
    assert read_json(path, 1) == {"format": 1}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"{", "not valid JSON"),
        (b"[1]", "one JSON object"),
        (b"\xff\xfe\x00", "not UTF-8"),
        (b'{"format": 2}', "newer version of Stratum"),
        (b'{"format": "1"}', "whole number"),
        (b'{"format": true}', "whole number"),
        (b"[" * 100_000, "nested too deeply"),
        (b"[" + b"9" * 5000 + b"]", "too many digits"),
        (b'{"a": NaN}', "NaN is not a number"),
    ],
)
def test_unusable_content_gets_one_sentence(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=words) as caught:
        read_json(path, 1)
    assert "\n" not in str(caught.value)


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="there is no file without an end here")
def test_a_device_without_end_is_not_read_to_it() -> None:
    with pytest.raises(InputError, match="more than 64 MiB"):
        read_json_value(Path("/dev/zero"), "write a list")


def test_an_error_in_the_block_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    path.write_bytes(b"old")
    with pytest.raises(TypeError), replacing(path) as file:
        file.write(file)  # type: ignore[arg-type]
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere\.json cannot be read"):
        read_json(tmp_path / "nowhere.json", 1)


def test_a_backup_is_a_copy_beside_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(b"x")
    assert keep_backup(path).read_bytes() == b"x"
    assert path.exists()


@pytest.mark.skipif(sys.platform == "win32", reason="folder permissions work differently there")
@pytest.mark.skipif(getattr(os, "geteuid", lambda: 1)() == 0, reason="root may write anywhere")
def test_a_folder_without_permission_is_said_so(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(ResourceError):
        write_atomically(tmp_path / "a", b"x")
