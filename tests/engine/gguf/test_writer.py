"""The writer: what it writes is read back, by our reader and by the gguf package's."""

from __future__ import annotations

import gguf
import numpy as np
import pytest

from engine.core.ggml_types import GgmlType
from engine.core.gguf_header import find_shards, read_header
from engine.core.gguf_values import GgufValueType
from engine.gguf.quantise import QUANTISABLE, quantise
from engine.gguf.reader import GgufFile
from engine.gguf.writer import GgufWriter


def gaussian(*shape):
    return np.random.default_rng(4).standard_normal(shape).astype(np.float32)


VALUES = {
    "flag": True,
    "small": 3,
    "negative": -3,
    "large": 1 << 63,
    "largest negative": -(1 << 63),
    "third": 0.25,
    "text": "größe 量 🙂",
    "ints": [0, 4, -4],
    "unsigned": [0, 1 << 31],
    "multipliers": [23703573157769, (1 << 64) - 1],
    "flags": [True, False],
    "floats": [0.5, 2],
    "texts": ["", "a b", "Ġé"],
}


def test_metadata_is_read_back(tmp_path):
    writer = GgufWriter(tmp_path / "a b ü.gguf", "qwen4exp")
    for key, value in VALUES.items():
        writer.add_metadata(key, value)
    writer.add_metadata("empty", [], GgufValueType.STRING)
    writer.add_metadata("short", 7, GgufValueType.UINT16)
    (path,) = writer.write()
    metadata = read_header(path).metadata
    for key, value in VALUES.items():
        assert (list(metadata[key]) if isinstance(value, list) else metadata[key]) == value
    assert list(metadata["empty"]) == []
    assert metadata["general.architecture"] == "qwen4exp"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (3, GgufValueType.UINT32),
        (-3, GgufValueType.INT32),
        (1 << 40, GgufValueType.UINT64),
        (1.0, GgufValueType.FLOAT32),
        (True, GgufValueType.BOOL),
        ([3], GgufValueType.INT32),
        ([1 << 31], GgufValueType.UINT32),
        ([1 << 63], GgufValueType.UINT64),
    ],
)
def test_types_are_those_that_published_files_use(tmp_path, value, expected):
    writer = GgufWriter(tmp_path / "m.gguf", "qwen4exp")
    writer.add_metadata("key", value)
    field = gguf.GGUFReader(writer.write()[0]).fields["key"]
    assert field.types[-1] == int(expected)


def test_tensors_of_every_type_are_read_back_by_both_readers(tmp_path):
    values = gaussian(3, 2, 256)
    writer = GgufWriter(tmp_path / "m.gguf", "qwen4exp")
    for ggml_type in QUANTISABLE - {GgmlType.Q2_0}:
        writer.add_tensor(ggml_type.name, values, ggml_type)
    (path,) = writer.write()
    theirs = {tensor.name: tensor for tensor in gguf.GGUFReader(path).tensors}
    with GgufFile.open(path) as ours:
        assert list(ours.tensors) == list(theirs)
        for name, tensor in ours.tensors.items():
            assert tensor.shape == values.shape
            assert tuple(theirs[name].shape) == values.shape[::-1]
            expected = quantise(values, tensor.type).tobytes()
            assert tensor.data.tobytes() == theirs[name].data.tobytes() == expected


def test_raw_bytes_are_stored_as_they_are(tmp_path):
    raw = np.random.default_rng(1).integers(0, 256, (5, 2, 18), dtype=np.uint8)
    writer = GgufWriter(tmp_path / "m.gguf", "qwen4exp")
    writer.add_tensor("t", raw, GgmlType.Q2_0, shape=(5, 128))
    with GgufFile.open(writer.write()[0]) as model:
        assert model.tensors["t"].shape == (5, 128)
        assert model.tensors["t"].data.tobytes() == raw.tobytes()


def test_an_alignment_other_than_the_usual_is_kept(tmp_path):
    writer = GgufWriter(tmp_path / "m.gguf", "qwen4exp", alignment=4096)
    writer.add_tensor("a", gaussian(3), GgmlType.F32)
    writer.add_tensor("b", gaussian(5), GgmlType.F32)
    header = read_header(writer.write()[0])
    assert header.alignment == 4096
    assert [tensor.offset for tensor in header.tensors] == [0, 4096]
    assert header.data_start % 4096 == 0


def split_writer(tmp_path, **arguments):
    writer = GgufWriter(tmp_path / "m.gguf", "qwen4exp", **arguments)
    writer.add_metadata("key", 1)
    for i in range(6):
        writer.add_tensor(f"t{i}", gaussian(4, 32) + i, GgmlType.F32)  # 512 bytes
    return writer


@pytest.mark.parametrize(
    ("arguments", "tensors_per_file"),
    [
        ({"num_shards": 1}, [6]),
        ({"num_shards": 3}, [2, 2, 2]),
        ({"num_shards": 3, "first_shard_empty": True}, [0, 3, 3]),
        ({"num_shards": 8}, [1, 0, 1, 1, 1, 0, 1, 1]),
        ({"max_shard_bytes": 1100}, [2, 2, 2]),
        ({"max_shard_bytes": 1100, "first_shard_empty": True}, [0, 2, 2, 2]),
        ({"max_shard_bytes": 1}, [1] * 6),
    ],
)
def test_a_split_model_is_read_from_any_of_its_files(tmp_path, arguments, tensors_per_file):
    paths = split_writer(tmp_path, **arguments).write()
    assert [len(read_header(path).tensors) for path in paths] == tensors_per_file
    assert [len(gguf.GGUFReader(path).tensors) for path in paths] == tensors_per_file
    for path in paths:
        assert find_shards(path) == paths
    with GgufFile.open(paths[-1]) as model:
        assert model.metadata["key"] == 1
        for i in range(6):
            assert np.array_equal(model.tensors[f"t{i}"].dequantise(), gaussian(4, 32) + i)


def test_nothing_but_the_finished_files_is_left(tmp_path):
    paths = split_writer(tmp_path, num_shards=2).write()
    assert sorted(tmp_path.iterdir()) == paths


def test_a_failed_write_leaves_the_old_file_and_no_partial_one(tmp_path):
    path = tmp_path / "m-00001-of-00002.gguf"
    path.write_bytes(b"old")
    (tmp_path / "m-00002-of-00002.gguf.partial").mkdir()  # the second file cannot be written
    with pytest.raises(OSError):  # noqa: PT011  the kind of OSError depends on the system
        split_writer(tmp_path, num_shards=2).write()
    assert path.read_bytes() == b"old"
    assert not path.with_name(path.name + ".partial").exists()


def test_what_cannot_be_written_is_refused(tmp_path):
    writer = GgufWriter(tmp_path / "m.gguf", "qwen4exp")
    writer.add_tensor("t", gaussian(32), GgmlType.F32)
    raw = np.zeros(34, np.uint8)
    for call, words in [
        (lambda: writer.add_metadata("general.architecture", "x"), "added before"),
        (lambda: writer.add_tensor("t", gaussian(32), GgmlType.F32), "added before"),
        (lambda: writer.add_metadata("k", []), "needs a type"),
        (lambda: writer.add_metadata("k", [1, "a"]), "does not have"),
        (lambda: writer.add_metadata("k", 1 << 64), "64 bits"),
        (lambda: writer.add_metadata("k", 256, GgufValueType.UINT8), "does not fit"),
        (lambda: writer.add_metadata("k", [[1]], GgufValueType.ARRAY), "lists inside lists"),
        (lambda: writer.add_tensor("u", raw, GgmlType.Q8_0, shape=(64,)), "instead of 68"),
        (lambda: writer.add_tensor("u", raw.view(np.int8), GgmlType.Q8_0, shape=(32,)), "uint8"),
        (lambda: writer.add_tensor("u", gaussian(1, 1, 1, 1, 32), GgmlType.F32), "shape"),
        (lambda: writer.add_tensor("u", gaussian(0, 32), GgmlType.F32), "shape"),
        (lambda: GgufWriter(tmp_path, "x", alignment=48), "power of two"),
        (lambda: GgufWriter(tmp_path, "x", num_shards=0), "too few"),
        (lambda: GgufWriter(tmp_path, "x", num_shards=2, max_shard_bytes=2), "not both"),
    ]:
        with pytest.raises(ValueError, match=words):
            call()


def test_a_streamed_tensor_is_read_back_and_its_parts_are_made_when_written(tmp_path):
    rows = quantise(gaussian(6, 64), GgmlType.Q8_0)  # (6, 68)
    asked = []

    def parts():
        asked.append(True)
        return (rows[:4], rows[4:])

    writer = GgufWriter(tmp_path / "s.gguf", "qwen4exp", num_shards=2)
    writer.add_tensor("first", gaussian(2, 32), GgmlType.F32)
    writer.add_streamed_tensor("streamed", GgmlType.Q8_0, (3, 2, 64), parts)
    assert not asked
    paths = writer.write()
    assert asked == [True]
    with GgufFile.open(paths[0]) as file:
        tensor = file.tensors["streamed"]
        assert (tensor.type, tensor.shape) == (GgmlType.Q8_0, (3, 2, 64))
        assert tensor.data.tobytes() == rows.tobytes()
        del tensor


def test_parts_of_another_length_leave_no_file(tmp_path):
    writer = GgufWriter(tmp_path / "s.gguf", "qwen4exp")
    writer.add_streamed_tensor("short", GgmlType.F32, (2, 8), lambda: [np.zeros(60, np.uint8)])
    with pytest.raises(ValueError, match="short have 60 bytes instead of 64"):
        writer.write()
    assert list(tmp_path.iterdir()) == []


def test_a_streamed_tensor_is_checked_when_it_is_added(tmp_path):
    writer = GgufWriter(tmp_path / "s.gguf", "qwen4exp")
    writer.add_streamed_tensor("w", GgmlType.F32, (2, 8), list)
    for name, shape, words in (("w", (2, 8), "added before"), ("v", (2, 0), "cannot have")):
        with pytest.raises(ValueError, match=words):
            writer.add_streamed_tensor(name, GgmlType.F32, shape, list)
