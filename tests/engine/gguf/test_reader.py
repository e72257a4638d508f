"""The reader: golden files by their checksums, rows, mapping and closing, bad files."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

import engine.gguf.reader as reader_module
from engine.core.errors import ModelFileError
from engine.core.ggml_types import GgmlType
from engine.core.gguf_header import read_model_header
from engine.gguf.quantise import QUANTISABLE
from engine.gguf.reader import GgufFile
from engine.gguf.writer import GgufWriter

GOLDEN = Path(__file__).parents[2] / "golden"


@pytest.mark.parametrize("kind", ["Q4_K_M", "Q2_0", "IQ2_XS"])
def test_tensors_of_the_quantised_golden_files_have_the_recorded_checksums(kind):
    recorded = json.loads((GOLDEN / f"quant-{kind}.tensors.json").read_text("utf-8"))
    with GgufFile.open(GOLDEN / f"quant-{kind}.gguf") as model:
        assert set(model.tensors) == set(recorded)
        for name, tensor in model.tensors.items():
            expected = recorded[name]
            assert tensor.type.name == expected["type"]
            assert list(tensor.shape) == expected["ne"][::-1]
            assert hashlib.sha256(tensor.data).hexdigest() == expected["sha256_raw"]
            assert hashlib.sha256(tensor.dequantise()).hexdigest() == expected["sha256_f32"]


@pytest.mark.parametrize("name", ["full", "full-mtp", "nople", "odd"])
def test_the_float_golden_files_open(name):
    with GgufFile.open(GOLDEN / f"{name}.gguf") as model:
        assert model.metadata["general.architecture"] == "qwen4exp"
        for tensor in model.tensors.values():
            assert np.isfinite(tensor.dequantise()).all()


@pytest.fixture
def model_path(tmp_path) -> Path:
    values = np.random.default_rng(0).standard_normal((7, 256)).astype(np.float32)
    writer = GgufWriter(tmp_path / "m.gguf", "qwen4exp", num_shards=3, first_shard_empty=True)
    for ggml_type in sorted(QUANTISABLE):
        writer.add_tensor(ggml_type.name, values, ggml_type)
    writer.add_tensor("vector", values[0], GgmlType.F32)
    return writer.write()[0]


def test_rows_are_those_of_the_whole_tensor(model_path):
    with GgufFile.open(model_path) as model:
        for ggml_type in QUANTISABLE:
            tensor = model.tensors[ggml_type.name]
            whole = tensor.dequantise()
            for indices in ([6, 0, 6], np.array([3]), []):
                rows = tensor.rows(indices)
                assert rows.shape == (len(indices), 256)
                assert np.array_equal(rows, whole[np.asarray(indices, int)])


@pytest.mark.parametrize("indices", [[7], [-1], [0, 1 << 40]])
def test_a_row_that_does_not_exist_is_refused(model_path, indices):
    with GgufFile.open(model_path) as model, pytest.raises(IndexError, match="7 rows"):
        model.tensors["Q8_0"].rows(indices)


def test_rows_are_of_matrices_only(model_path):
    with GgufFile.open(model_path) as model, pytest.raises(ValueError, match="1 dimensions"):
        model.tensors["vector"].rows([0])


def test_bytes_are_a_view_that_cannot_be_written(model_path):
    with GgufFile.open(model_path) as model:
        data = model.tensors["F32"].data
        assert not data.flags.owndata
        assert not data.flags.writeable
        with pytest.raises(ValueError, match="read-only"):
            data[0] = 1


def test_an_array_outlives_the_closed_file(model_path):
    with GgufFile.open(model_path) as model:
        data = model.tensors["F32"].data
        before = data.tobytes()
    assert data.tobytes() == before
    assert not model.tensors


def test_a_closed_file_can_be_replaced_and_deleted(model_path):
    with GgufFile.open(model_path):
        pass
    for path in model_path.parent.iterdir():
        path.unlink()


def test_a_file_cut_off_is_refused(model_path):
    last = sorted(model_path.parent.iterdir())[-1]
    last.write_bytes(last.read_bytes()[:-64])
    with pytest.raises(ModelFileError, match=r"00003-of-00003\.gguf is cut off"):
        GgufFile.open(model_path)


def test_a_file_that_shrinks_while_it_is_opened_is_refused(model_path, monkeypatch):
    last = sorted(model_path.parent.iterdir())[-1]

    def read_and_shrink(path):
        header = read_model_header(path)
        last.write_bytes(last.read_bytes()[:1000])
        return header

    monkeypatch.setattr(reader_module, "read_model_header", read_and_shrink)
    with pytest.raises(ModelFileError, match="shorter"):
        GgufFile.open(model_path)


def test_a_file_that_vanishes_while_it_is_opened_is_refused(model_path, monkeypatch):
    def read_and_delete(path):
        header = read_model_header(path)
        for shard in header.paths:
            shard.unlink()
        return header

    monkeypatch.setattr(reader_module, "read_model_header", read_and_delete)
    with pytest.raises(ModelFileError, match="cannot be mapped"):
        GgufFile.open(model_path)
