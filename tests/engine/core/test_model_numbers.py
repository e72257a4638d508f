"""What one token reads, counted from the file's tensors by hand."""

from pathlib import Path

import pytest

from engine.core.config import BUNDLED_MODEL
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
