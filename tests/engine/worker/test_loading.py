"""Loading by config, and the fingerprint of what was loaded."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from engine.core.config import KvType, RunConfig
from engine.core.errors import ModelFileError
from engine.core.gguf_header import read_model_header
from engine.worker.loading import fingerprint, load_model

GOLDEN = Path(__file__).resolve().parents[2] / "golden"


def test_a_fingerprint_changes_with_file_operations_and_number_format_and_needs_no_file(
    tmp_path: Path,
):
    first, second = (tmp_path / f"{case}.gguf" for case in ("nople", "odd"))
    for path in (first, second):
        shutil.copy(GOLDEN / path.name, path)
    headers = [read_model_header(path) for path in (first, second)]
    first.unlink()
    second.unlink()
    config = RunConfig()
    prints = [
        fingerprint(headers[0], config, "host avx2"),
        fingerprint(headers[0], config, "host avx512"),
        fingerprint(headers[0], config.model_copy(update={"kv_type": KvType.F32}), "host avx2"),
        fingerprint(headers[0], config.model_copy(update={"requant": True}), "host avx2"),
        fingerprint(headers[1], config, "host avx2"),
    ]
    assert len(set(prints)) == 5
    assert fingerprint(headers[0], config, "host avx2") == prints[0]


def test_a_file_that_vanishes_after_its_header_was_read_is_one_sentence(tmp_path: Path):
    path = tmp_path / "mödel.gguf"
    shutil.copy(GOLDEN / "nople.gguf", path)
    header = read_model_header(path)
    path.unlink()
    config = RunConfig(model=path, context=64)
    with pytest.raises(ModelFileError, match=r"mödel\.gguf cannot be mapped"):
        load_model(config, header=header)
