"""Parts on the drive: resumed, cut where they are damaged, dropped when they are of another file."""

from __future__ import annotations

import hashlib
import json

import pytest

from installer.download import part_file
from installer.download.control import Control
from installer.download.part_file import PartFile, PartIdentity, part_length, part_path, state_path
from installer.errors import StoppedError

PIECE = 1000
DATA = bytes(range(256)) * 20  # 5120 bytes: five pieces and a bit
IDENTITY = PartIdentity(len(DATA), hashlib.sha256(DATA).hexdigest(), "maker/m/m.gguf@1")


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch):
    monkeypatch.setattr(part_file, "PIECE_BYTES", PIECE)


def make(tmp_path, identity=IDENTITY):
    part = PartFile(tmp_path / "m.gguf", identity, Control())
    part.open()
    return part


def leave(tmp_path, num_bytes):
    """A part as a killed process leaves it."""
    part = make(tmp_path)
    for start in range(0, num_bytes, 300):
        part.append(DATA[start : min(start + 300, num_bytes)])
    part.close()
    return part_path(tmp_path / "m.gguf")


@pytest.mark.parametrize("num_bytes", [0, 1, 999, 1000, 1001, 4999, 5120])
def test_a_part_goes_on_where_it_was(tmp_path, num_bytes):
    leave(tmp_path, num_bytes)
    assert part_length(tmp_path / "m.gguf", IDENTITY.bytes, IDENTITY.sha256) == num_bytes
    part = make(tmp_path)
    assert part.length == num_bytes
    part.append(DATA[num_bytes:])
    assert part.is_complete
    assert part.matches()
    part.finish()
    assert (tmp_path / "m.gguf").read_bytes() == DATA
    assert [p.name for p in tmp_path.iterdir()] == ["m.gguf"]


def test_a_damaged_piece_cuts_the_part_there(tmp_path):
    path = leave(tmp_path, 4500)
    raw = bytearray(path.read_bytes())
    raw[2500] ^= 1
    path.write_bytes(raw)
    part = make(tmp_path)
    assert part.length == 2000
    part.append(DATA[2000:])
    assert part.matches()
    part.close()


def test_bytes_that_were_lost_by_a_power_failure_are_noticed(tmp_path):
    path = leave(tmp_path, 3000)
    raw = path.read_bytes()
    path.write_bytes(raw[:2000] + bytes(1000))  # the length is there, the content is not
    part = make(tmp_path)
    assert part.length == 2000
    part.close()


def test_a_part_of_another_file_is_dropped(tmp_path):
    leave(tmp_path, 3000)
    other = PartIdentity(IDENTITY.bytes, "0" * 64, "other")
    assert part_length(tmp_path / "m.gguf", other.bytes, other.sha256) == 0
    part = make(tmp_path, other)
    assert part.length == 0
    part.close()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 99}', '{"format": 1}', "\x00"])
def test_a_part_whose_description_is_broken_is_dropped(tmp_path, text):
    leave(tmp_path, 3000)
    state_path(tmp_path / "m.gguf").write_text(text)
    part = make(tmp_path)
    assert part.length == 0
    part.close()


def test_a_part_that_is_longer_than_the_file_is_cut(tmp_path):
    path = leave(tmp_path, 5120)
    path.write_bytes(path.read_bytes() + b"more")
    part = make(tmp_path)
    assert part.length == 5120
    assert part.matches()
    part.close()


def test_a_part_that_vanished_begins_anew(tmp_path):
    leave(tmp_path, 3000).unlink()
    part = make(tmp_path)
    assert part.length == 0
    part.append(DATA)
    assert part.matches()
    part.close()


def test_reading_back_can_be_stopped(tmp_path):
    leave(tmp_path, 3000)
    control = Control()
    control.stop()
    part = PartFile(tmp_path / "m.gguf", IDENTITY, control)
    with pytest.raises(StoppedError):
        part.open()
    assert part_path(tmp_path / "m.gguf").stat().st_size == 3000


def test_the_description_says_what_is_fetched(tmp_path):
    leave(tmp_path, 2500)
    state = json.loads(state_path(tmp_path / "m.gguf").read_text())
    assert (state["format"], state["bytes"], state["source"]) == (1, 5120, "maker/m/m.gguf@1")
    assert len(state["crc32"]) == 2
