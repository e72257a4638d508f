"""Draft heads made from a checkpoint's tensors."""

from __future__ import annotations

import json

import numpy as np
import pytest

from engine.cli import main
from engine.core.errors import InputError, ModelFileError
from engine.core.ggml_types import GgmlType
from engine.core.gguf_header import read_model_header
from engine.gguf.reader import GgufFile
from engine.model.mtp import DraftEntry
from engine.model.mtp_import import CheckpointTensors, HeadFormats, import_draft_head
from engine.model.trunk import Model
from engine.sequence.batch import LogitsWanted
from tests.support.golden import (
    GOLDEN,
    arrays,
    assert_logits,
    golden_limits,
    make_golden_ops,
    mean_kl,
    model_file,
)
from tests.support.mtp_checkpoint import golden_checkpoint, write_tensor_list

EXACT = HeadFormats(experts=GgmlType.F32, dense=GgmlType.F32)


def import_golden(tmp_path, formats, checkpoint=None, trunk="full"):
    tensors = CheckpointTensors(write_tensor_list(tmp_path, checkpoint or golden_checkpoint()))
    out = tmp_path / "head.gguf"
    import_draft_head(tensors, read_model_header(GOLDEN / f"{trunk}.gguf"), out, formats)
    return out


def head_logits(path, ops_name="reference"):
    golden = arrays("full-mtp")
    limits = golden_limits()
    ops = make_golden_ops(ops_name, limits)
    model = Model.load(model_file("full"), ops, limits, mtp_file=GgufFile.open(path))
    tokens = golden["next_tokens"].tolist()
    entry = DraftEntry(model.new_sequence(), golden["in_streams"], tokens, LogitsWanted.ALL)
    assert model.mtp is not None
    return model.mtp.forward([entry]).logits


def test_an_imported_head_gives_the_golden_logits(tmp_path):
    logits = head_logits(import_golden(tmp_path, EXACT))
    assert_logits("reference", "full", logits, arrays("full-mtp")["mtp_logits"])


def test_an_imported_head_has_the_golden_tensors(tmp_path):
    with GgufFile.open(import_golden(tmp_path, EXACT)) as head:
        wanted = model_file("full-mtp").tensors
        assert set(head.tensors) == set(wanted)
        for name, tensor in head.tensors.items():
            np.testing.assert_allclose(tensor.dequantise(), wanted[name].dequantise(), atol=1e-7)
        assert head.metadata["qwen4exp.block_count"] == 5
        assert not any(".ple." in key for key in head.metadata)


def test_a_quantised_head_is_near_the_exact_one(tmp_path):
    # Rows of 16 values are no whole number of blocks: those experts stay BF16.
    logits = head_logits(import_golden(tmp_path, HeadFormats(GgmlType.Q8_0, GgmlType.Q8_0)))
    assert mean_kl(arrays("full-mtp")["mtp_logits"], logits) < 1e-3


def test_bf16_tensors_are_read_as_what_they_are(tmp_path):
    values = np.array([[1.0, -2.5], [0.15625, 3e38]], np.float32)
    (tmp_path / "t.bin").write_bytes((values.view(np.uint32) >> 16).astype("<u2").tobytes())
    entry = {"name": "t", "dtype": "BF16", "shape": [2, 2], "file": "t.bin"}
    (tmp_path / "tensors.json").write_text(json.dumps({"format": 1, "tensors": [entry]}))
    read = CheckpointTensors(tmp_path / "tensors.json").read("t")
    np.testing.assert_allclose(read, values, rtol=4e-3)
    assert read[0].tolist() == [1.0, -2.5]


def test_the_head_of_another_model_is_refused_before_it_is_made(tmp_path):
    with pytest.raises(ModelFileError):
        import_golden(tmp_path, EXACT, trunk="odd")
    assert not (tmp_path / "head.gguf").exists()


def test_a_missing_tensor_is_named(tmp_path):
    checkpoint = golden_checkpoint()
    del checkpoint["mtp.fc_hidden.weight"]
    with pytest.raises(InputError, match=r"mtp\.fc_hidden\.weight"):
        import_golden(tmp_path, EXACT, checkpoint)


@pytest.mark.parametrize("change", [-4, 4])
def test_a_tensor_file_of_another_length_is_refused(tmp_path, change):
    path = write_tensor_list(tmp_path, golden_checkpoint())
    file = tmp_path / "mtp.fc_hidden.weight.bin"
    raw = file.read_bytes()
    file.write_bytes(raw[:change] if change < 0 else raw + bytes(change))
    with pytest.raises(InputError, match="download it again"):
        CheckpointTensors(path)


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        '{"tensors": [3]}',
        '{"tensors": [{"name": "x", "dtype": "F32", "shape": [-1], "file": "x"}]}',
        '{"tensors": [{"name": "x", "dtype": "F32", "shape": [1], "file": "../x"}]}',
        '{"tensors": [{"name": "x", "dtype": "I8", "shape": [1], "file": "x"}]}',
    ],
)
def test_a_list_that_names_no_tensors_is_refused(tmp_path, text):
    (tmp_path / "tensors.json").write_text(text)
    with pytest.raises(InputError):
        CheckpointTensors(tmp_path / "tensors.json")


def test_the_command_makes_the_file_and_reports_each_part(tmp_path, capsys):
    path = write_tensor_list(tmp_path, golden_checkpoint())
    out = tmp_path / "head.gguf"
    words = ["mtp-import", "--tensors", str(path), "--model", str(GOLDEN / "full.gguf")]
    assert main([*words, "--out", str(out), "--experts", "Q8_0", "--progress"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines[-1]["done"] == lines[-1]["total"] == len(lines)
    assert out.is_file()
