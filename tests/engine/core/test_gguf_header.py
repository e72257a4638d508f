"""A model over all its files: shards are found from any of them and checked to belong together."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from engine.core.errors import ModelFileError
from engine.core.gguf_header import find_shards, read_model_header
from tests.support.gguf_bytes import (
    BOOL,
    F32,
    STRING,
    U16,
    gguf,
    key,
    string,
    tensor,
    u32_key,
)


def shard(
    number: int,
    count: int,
    tensors: tuple[str, ...],
    *,
    total: int = 3,
    architecture: str | None = "qwen4exp",
    extra: tuple[bytes, ...] = (),
) -> bytes:
    keys = [
        key("split.no", U16, struct.pack("<H", number)),
        key("split.count", U16, struct.pack("<H", count)),
        u32_key("split.tensors.count", total),
        *extra,
    ]
    if architecture:
        keys.append(key("general.architecture", STRING, string(architecture)))
    infos = [tensor(name, [8], offset=32 * i) for i, name in enumerate(tensors)]
    return gguf(keys, infos, data_bytes=32 * len(tensors))


@pytest.fixture
def shards(tmp_path) -> list[Path]:
    """A model of three files, the first without tensors, in a folder with an awkward name."""
    folder = tmp_path / "Модель 1"
    folder.mkdir()
    paths = [folder / f"My Model-{i:05d}-of-00003.gguf" for i in (1, 2, 3)]
    paths[0].write_bytes(shard(0, 3, (), extra=(u32_key("first", 1),)))
    paths[1].write_bytes(shard(1, 3, ("a", "b"), architecture=None))
    paths[2].write_bytes(shard(2, 3, ("c",), architecture=None, extra=(u32_key("late", 2),)))
    return paths


def refusal(path: Path) -> ModelFileError:
    with pytest.raises(ModelFileError) as caught:
        find_shards(path)
    message = caught.value.message
    assert message.endswith(".")
    assert ". " not in message
    assert message.isprintable()
    return caught.value


def test_all_shards_are_found_from_any_of_them(shards):
    for path in shards:
        assert find_shards(path) == shards


def test_tensors_and_metadata_are_joined(shards):
    model = read_model_header(shards[2])
    assert {name: index for name, (index, _) in model.tensors.items()} == {"a": 1, "b": 1, "c": 2}
    assert model.tensors["b"][1].offset == 32
    assert model.metadata["first"] == 1
    assert model.metadata["late"] == 2
    assert model.metadata["split.no"] == 0
    assert len(model.shards) == len(model.paths) == 3


def test_a_single_file_is_a_model_of_one(tmp_path):
    path = tmp_path / "model.gguf"
    path.write_bytes(gguf([], [tensor("t", [1])], data_bytes=4))
    assert find_shards(path) == [path]


def test_part_one_of_one_needs_no_split_keys(tmp_path):
    path = tmp_path / "model-00001-of-00001.gguf"
    path.write_bytes(gguf([], [tensor("t", [1])], data_bytes=4))
    assert find_shards(path) == [path]


def test_a_missing_shard_is_named(shards):
    shards[1].unlink()
    error = refusal(shards[2])
    assert error.code == "shard_missing"
    assert "My Model-00002-of-00003.gguf" in error.message


def test_a_missing_shard_is_found_at_once_whatever_count_the_name_claims(tmp_path):
    path = tmp_path / "m-00001-of-99999.gguf"
    path.write_bytes(shard(0, 99_999 & 0xFFFF, ()))
    assert "m-00002-of-99999.gguf" in refusal(path).message


def test_the_file_asked_for_is_named_when_it_does_not_exist(shards):
    shards[1].unlink()
    assert refusal(shards[1]).code == "file_missing"


def test_swapped_shards_are_refused(shards):
    second, third = shards[1].read_bytes(), shards[2].read_bytes()
    shards[1].write_bytes(third)
    shards[2].write_bytes(second)
    for path in shards:
        error = refusal(path)
        assert error.code == "shard_swapped"
        assert "part 3 of 3" in error.message


def test_a_shard_that_was_renamed_is_refused(shards):
    renamed = shards[1].rename(shards[1].with_name("mine.gguf"))
    error = refusal(renamed)
    assert error.code == "shard_swapped"
    assert "part 2 of 3" in error.message


def test_a_shard_of_a_model_with_another_number_of_files_is_refused(shards):
    shards[1].write_bytes(shard(1, 4, ("a", "b")))
    assert refusal(shards[0]).code == "shard_swapped"


def test_a_file_that_is_no_shard_is_refused_in_the_place_of_one(shards):
    shards[1].write_bytes(gguf([], [tensor("a", [8])], data_bytes=32))
    assert refusal(shards[0]).code == "shard_foreign"


@pytest.mark.parametrize(
    "foreign",
    [
        shard(1, 3, ("a", "b"), architecture="llama"),
        shard(1, 3, ("a", "b"), total=9),
        shard(1, 3, ("a",)),
        shard(1, 3, ("a", "b", "d")),
        shard(1, 3, ("a", "c")),
    ],
)
def test_a_shard_of_another_model_is_refused(shards, foreign):
    shards[1].write_bytes(foreign)
    assert refusal(shards[0]).code == "shard_foreign"


def test_a_tensor_in_two_shards_is_named_with_both(shards):
    shards[1].write_bytes(shard(1, 3, ("a", "c")))
    message = refusal(shards[0]).message
    for word in ('tensor "c",', "00002-of", "00003-of"):
        assert word in message


def test_a_damaged_shard_is_named(shards):
    shards[2].write_bytes(shards[2].read_bytes()[:-1])
    error = refusal(shards[0])
    assert error.code == "file_truncated"
    assert "00003-of-00003" in error.message


@pytest.mark.parametrize(
    "value", [key("split.no", BOOL, b"\1"), key("split.no", F32, struct.pack("<f", 1))]
)
def test_a_shard_number_that_is_no_number_is_refused(tmp_path, value):
    path = tmp_path / "m-00001-of-00002.gguf"
    path.write_bytes(gguf([value, u32_key("split.count", 2)]))
    path.with_name("m-00002-of-00002.gguf").write_bytes(b"")
    assert "split.no is not a whole number" in refusal(path).message


@pytest.mark.parametrize("numbers", ["00000-of-00002", "00003-of-00002", "00000-of-00000"])
def test_a_file_name_with_an_impossible_part_is_refused(tmp_path, numbers):
    path = tmp_path / f"m-{numbers}.gguf"
    path.write_bytes(shard(0, 2, ()))
    assert refusal(path).code == "shard_name"


def test_a_shard_name_too_long_for_the_disk_is_refused(tmp_path):
    refusal(tmp_path / ("x" * 5000 + "-00001-of-00002.gguf"))
