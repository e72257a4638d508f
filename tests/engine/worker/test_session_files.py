"""The files of saved conversations: names and limits."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from engine.worker.session_files import SessionFile, session_key


def model_file(folder: Path, data: bytes = bytes(300_000)) -> Path:
    path = folder / "model.gguf"
    path.write_bytes(data)
    os.utime(path, (1000, 1000))
    return path


def test_the_key_changes_with_the_model_file_and_the_settings(tmp_path: Path):
    path = model_file(tmp_path)
    keys = {session_key("fp_1", 256, [path]), session_key("fp_2", 256, [path])}
    keys.add(session_key("fp_1", 128, [path]))
    assert session_key("fp_1", 256, [path]) in keys
    changed = bytearray(300_000)
    changed[150_000] = 1  # same size, same time: found by its bytes
    keys.add(session_key("fp_1", 256, [model_file(tmp_path, bytes(changed))]))
    os.utime(path, (2000, 2000))
    keys.add(session_key("fp_1", 256, [path]))
    assert len(keys) == 5
    with pytest.raises(OSError, match="none"):
        session_key("fp_1", 256, [tmp_path / "none"])


def test_other_models_files_make_room_the_oldest_first(tmp_path: Path):
    own = SessionFile(tmp_path, "own", most_bytes=250)
    own.path.parent.mkdir()
    for age, name in enumerate(["new", "old", "own"]):
        file = own.path.with_stem(name)
        file.write_bytes(bytes(100))
        os.utime(file, (1000 - age, 1000 - age))
    (own.path.parent / "else.txt").write_bytes(bytes(1000))
    own._keep_to_limit()
    assert sorted(f.name for f in own.path.parent.iterdir()) == [
        "else.txt",
        "new.sessions",
        "own.sessions",
    ]


def test_files_of_a_process_that_was_ended_while_it_wrote_are_deleted(tmp_path: Path):
    own = SessionFile(tmp_path, "own", most_bytes=250)
    own.path.parent.mkdir()
    now = time.time()
    for name, age in [("own.sessions.0a1b2c3d.tmp", 7200), ("b.sessions.0a1b2c3d.tmp", 7200),
                      ("own.sessions.4d5e6f70.tmp", 60), ("else.tmp", 7200)]:  # fmt: skip
        file = own.path.with_name(name)
        file.write_bytes(bytes(100))
        os.utime(file, (now - age, now - age))
    own.read(None, None)  # type: ignore[arg-type]  # there is no file that would need them
    left = sorted(f.name for f in own.path.parent.iterdir())
    assert left == ["else.tmp", "own.sessions.4d5e6f70.tmp"]
