"""Loading: the variants of files that hold the same model, and what loading tells."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from engine.core.config import KvType
from engine.core.errors import ResourceError
from engine.core.ggml_types import GgmlType
from engine.gguf.reader import Tensor
from engine.model.limits import ModelLimits
from engine.model.tensor_parts import column_range, row_range
from engine.model.trunk import Model
from engine.ops.base import Limits
from engine.ops.reference import ReferenceOps
from tests.support.golden import (
    OPS_NAMES,
    REFERENCE_BOUND,
    arrays,
    forward,
    golden_limits,
    load_golden,
    make_golden_ops,
    model_file,
    run_tokens,
)
from tests.support.model_fuzz import WildFile

NUM_TOKENS = 40  # past the point where attention becomes sparse


@dataclass
class FakeFile:
    metadata: dict[str, object]
    tensors: dict[str, Tensor]


def golden_copy(case: str = "full") -> FakeFile:
    file = model_file(case)
    return FakeFile(dict(file.metadata), dict(file.tensors))


def load(fake: FakeFile, ops_name: str) -> Model:
    limits = golden_limits()
    return Model.load(fake, make_golden_ops(ops_name, limits), limits)  # type: ignore[arg-type]


def logits_of(model: Model, case: str = "full") -> np.ndarray:
    return run_tokens(model, model.new_sequence(), arrays(case)["tokens"][:NUM_TOKENS])


def join(fake: FakeFile, names: list[str], name: str, axis: int) -> None:
    parts = [fake.tensors.pop(n) for n in names]
    rows = [p.data.reshape(*p.shape[:-1], -1) for p in parts]
    shape = list(parts[0].shape)
    shape[axis] = sum(p.shape[axis] for p in parts)
    data = np.concatenate(rows, axis=axis).reshape(-1)
    fake.tensors[name] = Tensor(name, parts[0].type, tuple(shape), data)


@pytest.mark.parametrize("ops_name", OPS_NAMES)
@pytest.mark.parametrize("case", ["full", "quant-Q4_K_M"])
def test_fused_attention_and_expert_tensors_give_the_same_bits(case, ops_name):
    wanted = logits_of(load_golden(case, ops_name), case)
    fake = golden_copy(case)
    num_fused = 0
    for name in list(fake.tensors):
        prefix = name.removesuffix("attn_q.weight")
        types = (
            {fake.tensors[f"{prefix}attn_{p}.weight"].type for p in "qkv"} if prefix != name else ()
        )
        if len(types) == 1:
            parts = [f"{prefix}attn_{p}.weight" for p in "qkv"]
            join(fake, parts, f"{prefix}attn_qkv.weight", axis=0)
            num_fused += 1
        prefix = name.removesuffix("ffn_gate_exps.weight")
        if prefix != name:
            parts = [f"{prefix}ffn_gate_exps.weight", f"{prefix}ffn_up_exps.weight"]
            join(fake, parts, f"{prefix}ffn_gate_up_exps.weight", axis=1)
            num_fused += 1
    assert num_fused >= 2
    np.testing.assert_array_equal(logits_of(load(fake, ops_name), case), wanted)


@pytest.mark.parametrize("ops_name", OPS_NAMES)
def test_norms_stored_by_stream_give_the_same_bits(ops_name):
    wanted = logits_of(load_golden("full", ops_name))
    fake = golden_copy()
    for name, tensor in fake.tensors.items():
        if tensor.shape == (512,):
            fake.tensors[name] = Tensor(name, tensor.type, (4, 128), tensor.data)
    np.testing.assert_array_equal(logits_of(load(fake, ops_name)), wanted)


def test_a_model_without_output_uses_its_embedding():
    fake = golden_copy()
    del fake.tensors["output.weight"]
    model = load(fake, "reference")
    fake.tensors["output.weight"] = fake.tensors["token_embd.weight"]
    np.testing.assert_array_equal(logits_of(load(fake, "reference")), logits_of(model))


def test_loading_tells_how_far_it_is():
    steps: list[tuple[int, int]] = []
    limits = golden_limits()
    ops = make_golden_ops("reference", limits)
    Model.load(model_file("full"), ops, limits, progress=lambda *step: steps.append(step))
    assert steps == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_a_cache_that_does_not_fit_into_memory_is_a_sentence():
    limits = golden_limits(kv_pages=1 << 50)
    ops = ReferenceOps(limits.for_ops())
    with pytest.raises(ResourceError, match="not enough memory for 3 conversations of 256"):
        Model.load(model_file("full"), ops, limits)


def test_a_budget_beyond_the_context_changes_nothing():
    short = load_golden("full", "reference", context=NUM_TOKENS)
    np.testing.assert_allclose(
        logits_of(short), arrays("full")["logits"][:NUM_TOKENS], atol=REFERENCE_BOUND, rtol=0
    )


@pytest.mark.parametrize("type_", [GgmlType.F32, GgmlType.F16, GgmlType.Q8_0])
def test_parts_of_tensors_hold_their_parts_of_the_values(type_):
    rng = np.random.default_rng(1)
    raw = rng.integers(0, 256, 6 * 64 // type_.block_values * type_.block_bytes, np.uint8)
    if type_ is GgmlType.F32:
        raw = rng.standard_normal(6 * 64).astype(np.float32).view(np.uint8)
    plain, stacked = Tensor("w", type_, (6, 64), raw), Tensor("w", type_, (2, 3, 64), raw)
    values = plain.dequantise()
    equal = np.testing.assert_array_equal
    equal(row_range(plain, 1, 4).dequantise(), values[1:4])
    equal(row_range(stacked, 1, 3).dequantise(), values.reshape(2, 3, 64)[:, 1:3])
    equal(column_range(plain, 32, 64).dequantise(), values[:, 32:64])
    equal(column_range(plain, 16, 48).dequantise(), values[:, 16:48])  # cuts blocks of 32


def test_limits_are_checked_and_rounded_to_the_models_blocks():
    with pytest.raises(ValueError, match="must be positive"):
        ModelLimits(context=0)
    with pytest.raises(ValueError, match="must be positive"):
        ModelLimits(kv_pages=0)
    with pytest.raises(ValueError, match="must be positive"):
        Limits(max_rows=0, max_window=1, num_slots=1, num_pages=1)
    limits = ModelLimits(context=1000, max_sequences=2, kv_type=KvType.F16)
    assert limits.page_size(3) == 258
    assert limits.num_pages(3) == 8
    assert limits.for_ops().num_pages == 8
    assert ModelLimits(kv_pages=5).for_ops().num_pages == ModelLimits(kv_pages=5).num_pages(4) == 5


@pytest.mark.parametrize("ops_name", OPS_NAMES)
@pytest.mark.parametrize("name", ["output_hc_norm.weight", "blk.0.hc_attn_norm.weight"])
def test_numbers_that_are_none_reach_the_logits(name: str, ops_name: str):
    file = model_file("full")
    good = file.tensors[name]
    broken = Tensor(name, good.type, good.shape, np.full_like(good.data, 0xFF))
    wild = WildFile(dict(file.metadata), dict(file.tensors) | {name: broken})
    limits = golden_limits(max_sequences=1)
    model = Model.load(wild, make_golden_ops(ops_name, limits), limits)  # type: ignore[arg-type]
    with np.errstate(all="ignore"):
        logits = forward(model, model.new_sequence(), [1, 2, 3]).logits
    assert np.isnan(logits).all()
