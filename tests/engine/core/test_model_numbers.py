"""What one token reads, counted from the file's tensors by hand."""

from pathlib import Path

import pytest

from engine.core.config import BUNDLED_MODEL, RunConfig
from engine.core.draft_head_file import read_draft_head
from engine.core.gguf_header import read_model_header
from engine.core.model_numbers import numbers_of_header
from engine.core.model_sizes import model_config_of

FULL = Path(__file__).resolve().parents[2] / "golden" / "full.gguf"


@pytest.mark.parametrize("path", [FULL, BUNDLED_MODEL])
def test_a_token_reads_the_used_experts_and_everything_but_tables_and_draft_layer(path):
    header = read_model_header(path)
    model = model_config_of(header)
    sizes = {name: info.num_bytes for name, (_, info) in header.tensors.items()}
    for table in ("token_embd.weight", "per_layer_token_embd.weight"):
        del sizes[table]
    draft = f"blk.{model.num_layers}."
    experts = sum(
        size for name, size in sizes.items() if "_exps." in name and not name.startswith(draft)
    )
    others = sum(
        size for name, size in sizes.items() if "_exps." not in name and not name.startswith(draft)
    )
    numbers = numbers_of_header(header)
    assert numbers.active_bytes == pytest.approx(
        others + experts * model.num_experts_used / model.num_experts, rel=0.001
    )


def test_a_draft_head_in_a_file_of_its_own_is_counted_like_one_in_the_models_file():
    header = read_model_header(FULL)
    config = RunConfig(model=FULL, mtp_file=FULL.with_name("full-mtp.gguf"))
    head = read_draft_head(config, header)
    assert head is not None
    without, beside = numbers_of_header(header, config), numbers_of_header(header, config, head)
    assert without.mtp_bytes == 0
    assert beside.mtp_bytes > 100_000
    assert beside.kv_token_bytes > without.kv_token_bytes
    assert beside.dense_bytes == without.dense_bytes
