"""Synthetic models: blocks that decode to what was wanted, files that the engine computes with."""

import numpy as np
import pytest

from bench.make_synthetic import PRESETS, main
from bench.synthetic_blocks import RANDOM_TYPES, random_parts
from bench.synthetic_model import Formats, Sizes, write_model
from engine.core.config import BUNDLED_MODEL
from engine.core.ggml_types import GgmlType
from engine.core.gguf_header import read_model_header
from engine.core.model_config import LayerKind
from engine.core.placement import model_config_of
from engine.gguf.blocks import dequantise
from engine.gguf.reader import GgufFile
from engine.model.limits import ModelLimits
from engine.model.trunk import Model
from engine.ops.select import make_ops
from engine.sequence.batch import Batch, BatchEntry

Q2_0 = GgmlType.Q2_0
SMALL = Sizes(num_layers=4, num_experts=10, vocab_size=4160, table_rows_per_head=50)


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    path = tmp_path_factory.mktemp("synthetic") / "small.gguf"
    formats = Formats(
        streams=Q2_0,
        dense=(Q2_0,),
        shared_down=Q2_0,
        embedding=Q2_0,
        head=Q2_0,
        experts=((Q2_0, Q2_0), (Q2_0, GgmlType.Q4_0)),
    )
    write_model(path, SMALL, formats, BUNDLED_MODEL, seed=3)
    yield path
    path.unlink()


@pytest.mark.parametrize("ggml_type", sorted(RANDOM_TYPES), ids=lambda t: t.name)
def test_random_blocks_have_the_wanted_spread_no_mean_and_no_infinity(ggml_type):
    rng = np.random.default_rng(2)
    num_values = 1 << 17
    raw = np.concatenate(list(random_parts(rng, ggml_type, num_values, 0.02)))
    assert raw.dtype == np.uint8
    values = dequantise(np.ascontiguousarray(raw), ggml_type, (num_values,))
    assert np.isfinite(values).all()
    assert values.std() == pytest.approx(0.02, rel=0.12)
    assert abs(values.mean()) < 0.002
    assert np.abs(values).max() < 0.2
    assert len(np.unique(raw[: len(raw) // 2], axis=0)) > 100


def test_blocks_that_need_a_quantiser_are_not_made():
    with pytest.raises(ValueError, match="NVFP4"):
        next(random_parts(np.random.default_rng(0), GgmlType.NVFP4, 64, 1.0))


def test_the_file_has_the_real_shapes_and_the_chosen_formats(small):
    header = read_model_header(small)
    config = model_config_of(header)  # checks every tensor's shape
    assert (config.num_layers, config.num_experts, config.vocab_size) == (4, 10, 4160)
    assert config.layer_kinds[-1] is LayerKind.ATTENTION
    assert (config.hidden_size, config.num_streams, config.expert_width) == (2560, 4, 640)
    assert config.ple is not None
    assert config.ple.head_sizes[:2] == (53, 59)
    types = {name: info.type for name, (_, info) in header.tensors.items()}
    assert types["blk.1.ffn_down_exps.weight"] is GgmlType.Q4_0
    assert types["blk.2.ffn_down_exps.weight"] is Q2_0
    assert types["per_layer_token_embd.weight"] is GgmlType.IQ4_NL


def test_the_engine_computes_ordinary_logits_and_never_prefers_a_special_token(small):
    limits = ModelLimits(max_rows=8, max_sequences=1, context=64)
    with GgufFile.open(small) as file:
        ops = make_ops("host", limits.for_ops())
        try:
            model = Model.load(file, ops, limits)
            sequence = model.new_sequence()
            result = model.forward(Batch([BatchEntry(sequence, [5, 900, 4100, 7])]))
            logits = result.logits[-1].copy()
        finally:
            ops.close()
    assert np.isfinite(logits).all()
    assert 0.1 < logits.std() < 10
    special = file.metadata["tokenizer.ggml.eos_token_id"]
    assert logits[special] == 0
    assert logits.max() > 0
    assert np.argmax(logits) < 4160


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--experts", "9"), "uses 10 experts"),
        (("--vocab-size", "100"), "4096 tokens at least"),
        (("--down-format", "IQ3_S"), "no whole number of IQ3_S blocks"),
        (("--layers", "0"), "at least one layer"),
    ],
)
def test_impossible_models_are_refused_and_leave_no_file(tmp_path, capsys, flags, words):
    with pytest.raises(SystemExit):
        main(["--out", str(tmp_path / "x.gguf"), *flags])
    assert words in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_every_preset_fits_the_rows_that_it_is_used_for():
    for name, formats in PRESETS.items():
        for gate, down in formats.experts:
            assert 2560 % gate.block_values == 0, name
            assert 640 % down.block_values == 0, name
        assert all(2560 % dense.block_values == 0 for dense in formats.dense), name
        assert 320 % formats.streams.block_values == 0, name
