"""Stream projections held as Q8_0: which ones, how exactly, and what it does to the output."""

import numpy as np
import pytest

from engine.core.config import BUNDLED_MODEL, RunConfig
from engine.core.ggml_types import GgmlType
from engine.core.gguf_header import read_model_header
from engine.core.machine import probe_machine
from engine.core.placement import place_on_cpu
from engine.core.requant import is_requantised, requantised_bytes
from engine.core.weight_groups import Tier
from engine.gguf.quantise import quantise
from engine.gguf.reader import GgufFile, Tensor
from engine.model.tensor_parts import requantised
from engine.model.trunk import Model
from tests.support.golden import (
    FLOAT_CASES,
    OPS_NAMES,
    arrays,
    golden_limits,
    make_golden_ops,
    mean_kl,
    model_file,
    run_tokens,
)

# Measured 2026-11-30: 2.0e-5 to 2.1e-4 with the reference, 4.9e-5 to 5.7e-4 with the host operations
# (which round activations as well); 2e-13 without requant.
MEAN_KL_BOUND = 1e-3


@pytest.mark.parametrize(
    ("name", "ggml_type", "shape", "wanted"),
    [
        ("blk.0.hc_attn_down.weight", GgmlType.BF16, (320, 10240), True),
        ("blk.47.hc_ffn_up.weight", GgmlType.F16, (10240, 320), True),
        ("output_hc_down.weight", GgmlType.F32, (320, 10240), True),
        ("blk.0.hc_attn_up.weight", GgmlType.BF16, (10240, 20), False),  # no whole blocks
        ("blk.0.hc_attn_down.weight", GgmlType.Q4_K, (320, 10240), False),
        ("blk.0.hc_attn_inject.weight", GgmlType.F32, (4, 10240), False),
        ("blk.0.attn_qkv.weight", GgmlType.BF16, (10240, 2560), False),
        ("my.blk.0.hc_attn_down.weight", GgmlType.BF16, (320, 10240), False),
    ],
)
def test_the_setting_means_stream_projections_in_floats(name, ggml_type, shape, wanted):
    assert is_requantised(name, ggml_type, shape) is wanted


@pytest.mark.parametrize("ggml_type", [GgmlType.F32, GgmlType.F16, GgmlType.BF16])
@pytest.mark.parametrize("shape", [(1, 32), (33, 320), (300, 1024)])
def test_values_move_by_half_a_step_at_most(ggml_type, shape):
    values = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    values[0, :32] = 0
    raw = quantise(values, ggml_type)
    before = Tensor("t", ggml_type, shape, raw.reshape(-1))
    after = requantised(before)
    assert (after.type, after.shape) == (GgmlType.Q8_0, shape)
    assert after.data.nbytes == requantised_bytes(shape)
    exact, got = (t.dequantise().reshape(-1, 32) for t in (before, after))
    step = np.abs(exact).max(axis=1, keepdims=True) / 127
    assert (np.abs(got - exact) <= step * 0.51).all()
    assert not got[0].any()


@pytest.mark.parametrize("ops_name", OPS_NAMES)
@pytest.mark.parametrize("case", FLOAT_CASES)
def test_the_output_of_golden_models_hardly_changes(case, ops_name):
    limits = golden_limits()
    ops = make_golden_ops(ops_name, limits)
    model = Model.load(model_file(case), ops, limits, requant=True)
    mix = model.weights.layers[0].attn_mix
    assert mix.down.type is GgmlType.Q8_0
    logits = run_tokens(model, model.new_sequence(), arrays(case)["tokens"])
    divergence = mean_kl(arrays(case)["logits"], logits)
    assert 1e-7 < divergence < MEAN_KL_BOUND


def test_the_bundled_model_is_held_in_eight_bits_and_says_nearly_the_same():
    limits = golden_limits()
    logits = []
    with GgufFile.open(BUNDLED_MODEL) as file:
        for requant in (False, True):
            ops = make_golden_ops("reference", limits)
            model = Model.load(file, ops, limits, requant=requant)
            wanted = GgmlType.Q8_0 if requant else GgmlType.BF16
            for mix in (model.weights.layers[0].ffn_mix, model.weights.final_mix):
                assert mix.down.type is mix.up.type is wanted
            assert model.weights.layers[0].mixer.out.type is GgmlType.Q8_0  # as in the file
            logits.append(run_tokens(model, model.new_sequence(), range(300, 400)))
    assert 0 < mean_kl(*logits) < 1e-4


def test_the_placement_counts_both_copies_where_they_are():
    header = read_model_header(BUNDLED_MODEL)
    machine = probe_machine()
    plain = place_on_cpu(machine, header, RunConfig())
    again = place_on_cpu(machine, header, RunConfig(requant=True))
    parts = {part.name: part for part in again.parts}
    held = parts["Stream projections as Q8_0"]
    read = parts["Stream projections"]
    assert (held.tier, read.tier) == (Tier.RAM, Tier.DISK)
    assert held.num_bytes * 64 == read.num_bytes * 34
    assert again.private_bytes - plain.private_bytes == held.num_bytes
    assert plain.needed_bytes - again.needed_bytes == read.num_bytes - held.num_bytes
