"""Which file a draft head lies in, and what placement counts of it."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

from engine.core.config import BUNDLED_MODEL, RunConfig
from engine.core.draft_head_file import (
    draft_head_path,
    heads_beside,
    read_draft_head,
    tensors_with_head,
)
from engine.core.gguf_header import read_model_header

GOLDEN = Path(__file__).resolve().parents[2] / "golden"


def test_one_head_beside_the_model_is_found_and_of_several_none(tmp_path: Path):
    model = tmp_path / "full.gguf"
    shutil.copy(GOLDEN / "full.gguf", model)
    header, config = read_model_header(model), RunConfig()
    assert draft_head_path(config, header) is None
    first, second = tmp_path / "mtp.gguf", tmp_path / "full-mtp.gguf"
    shutil.copy(GOLDEN / "full-mtp.gguf", first)
    assert draft_head_path(config, header) == first
    assert draft_head_path(RunConfig(spec_mtp=0), header) is None
    shutil.copy(first, second)
    assert heads_beside(config, header) == [second, first]
    assert draft_head_path(config, header) is None
    assert draft_head_path(RunConfig(mtp_file=second), header) == second


def test_a_model_with_a_head_of_its_own_looks_for_no_other():
    assert draft_head_path(RunConfig(), read_model_header(BUNDLED_MODEL)) is None


def test_a_head_that_cannot_be_read_counts_nothing(tmp_path: Path):
    header = read_model_header(GOLDEN / "full.gguf")
    assert read_draft_head(RunConfig(mtp_file=tmp_path / "nö.gguf"), header) is None
    (tmp_path / "cut.gguf").write_bytes(b"GGUF")
    assert read_draft_head(RunConfig(mtp_file=tmp_path / "cut.gguf"), header) is None


def test_tensors_of_the_head_become_the_block_behind_the_trunk():
    header = read_model_header(GOLDEN / "full.gguf")
    head = read_model_header(GOLDEN / "full-mtp.gguf")
    one = next(iter(head.tensors.values()))
    more = {"output.weight": one, "token_embd.weight": one}
    head = dataclasses.replace(head, tensors={**head.tensors, **more})
    merged = tensors_with_head(header, head, 4)
    assert set(merged) - set(header.tensors) == {
        "blk.4.output.weight",
        *(name for name in head.tensors if name.startswith("blk.4.")),
    }
    assert merged["output.weight"] == header.tensors["output.weight"]
    assert tensors_with_head(header, None, 4) == header.tensors
