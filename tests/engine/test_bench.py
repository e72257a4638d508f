"""What `engine bench` measures: bytes that a token touches, bandwidth."""

from pathlib import Path

from engine.bench import TokenReader, context_bytes_per_token, measure_speed
from engine.core.config import BUNDLED_MODEL, KvType, RunConfig
from engine.core.gguf_header import read_model_header
from engine.core.model_sizes import model_config_of
from engine.worker.loading import load_model

MODEL = Path(__file__).resolve().parents[1] / "golden" / "full.gguf"


def test_the_share_of_the_floor_is_that_of_reads_between_tokens():
    loaded = load_model(RunConfig(model=BUNDLED_MODEL, context=512, threads=1), parallel=1)
    try:
        plain = measure_speed(loaded, 16, 8)
        small = measure_speed(loaded, 16, 8, TokenReader(loaded, 1 << 10))
        large = measure_speed(loaded, 16, 8, TokenReader(loaded, 64 << 20))
    finally:
        loaded.close()
    assert plain.floor_share == 0
    assert 0 < small.floor_share < large.floor_share
    assert plain.decode_per_s > 0


def test_context_bytes_grow_by_the_index_only_once_attention_is_sparse():
    model = model_config_of(read_model_header(MODEL))
    budget = model.top_blocks * model.block_ratio
    dense, sparse, longer = (
        context_bytes_per_token(model, KvType.F16, n) for n in (budget, 2 * budget, 3 * budget)
    )
    layers = sum(kind.value == "attention" for kind in model.layer_kinds)
    per_block = layers * model.index_dim * 2
    assert longer - sparse == budget // model.block_ratio * per_block
    assert sparse - dense == 2 * budget // model.block_ratio * per_block
    assert context_bytes_per_token(model, KvType.F32, 0) == context_bytes_per_token(
        model, KvType.F16, 0
    )
