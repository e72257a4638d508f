"""Reading ahead: what is asked for and not cached is read, once, in order."""

from pathlib import Path

import numpy as np
import pytest

from engine.core.errors import ModelFileError
from engine.core.ggml_types import GgmlType
from engine.core.gguf_header import ModelHeader, read_model_header
from engine.gguf import read_ahead as module
from engine.gguf.read_ahead import read_ahead
from engine.gguf.writer import GgufWriter

SIZES = {"first": 5 << 20, "table": 9 << 20, "last": 100}  # bytes


@pytest.fixture
def header(tmp_path) -> ModelHeader:
    writer = GgufWriter(tmp_path / "mödel.gguf", "qwen4exp", num_shards=2)
    for name, size in SIZES.items():
        writer.add_tensor(name, np.ones(size, np.uint8), GgmlType.F32, (size // 4,))
    return read_model_header(writer.write()[0])


@pytest.fixture
def nothing_is_cached(monkeypatch):
    monkeypatch.setattr(module, "_is_cached", lambda *_: False)


def test_the_tensors_that_were_asked_for_are_read_with_progress(header, nothing_is_cached):
    steps: list[tuple[int, int]] = []
    total = SIZES["first"] + SIZES["last"]
    assert read_ahead(header, {"first", "last"}, lambda *step: steps.append(step)) == total
    assert steps == [(4 << 20, total), (5 << 20, total), (total, total)]


def test_what_is_cached_is_not_read(header, monkeypatch):
    monkeypatch.setattr(module, "_is_cached", lambda _, piece: piece.num_bytes > 1000)
    steps: list[tuple[int, int]] = []
    assert read_ahead(header, SIZES, lambda *step: steps.append(step)) == SIZES["last"]
    assert len(steps) == 1


def test_a_file_that_was_just_read_counts_as_cached_or_is_read_again(header):
    assert read_ahead(header, SIZES, lambda *_: None) in (0, *np.cumsum([*SIZES.values()]))
    assert read_ahead(header, [], lambda *_: None) == 0


def test_a_file_that_has_become_shorter_is_left_to_the_reader(header, nothing_is_cached):
    with header.paths[0].open("r+b") as file:
        file.truncate(1 << 20)
    assert read_ahead(header, {"first"}, lambda *_: None) == SIZES["first"]


def test_a_disk_that_fails_is_one_sentence(header, nothing_is_cached, monkeypatch):
    def fail(*_args, **_keywords):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(Path, "open", fail)
    with pytest.raises(ModelFileError, match=r"mödel.* cannot be read at byte \d+ \(Input"):
        read_ahead(header, SIZES, lambda *_: None)
