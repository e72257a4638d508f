"""The whole model against the golden data: logits, and values along the way."""

from __future__ import annotations

import numpy as np
import pytest

from engine.core.errors import ConfigError
from engine.core.model_config import LayerKind
from engine.device.array import host_copy
from engine.model.trunk import Model
from engine.sequence.batch import Batch, BatchEntry, LogitsWanted
from engine.sequence.state import SequenceState
from tests.support.golden import (
    FLOAT_CASES,
    OPS_NAMES,
    QUANTISED_CASES,
    RecordingOps,
    arrays,
    assert_logits,
    bound,
    forward,
    load_golden,
    mean_kl,
    run_tokens,
)

ALL_CASES = FLOAT_CASES + QUANTISED_CASES


class ProbedRun:
    """One pass over a case's tokens, with everything that went through the operations."""

    def __init__(self, case: str, ops_name: str) -> None:
        self.golden = arrays(case)
        self.ops_name = ops_name
        self.model = load_golden(case, ops_name, record=True)
        assert isinstance(self.model.ops, RecordingOps)
        self.ops = self.model.ops
        self.tokens = self.golden["tokens"].tolist()
        entry = BatchEntry(self.model.new_sequence(), self.tokens, LogitsWanted.ALL)
        layers = self.model.layers(Batch([entry]))
        self.streams = []  # after each layer
        while True:
            try:
                next(layers)
            except StopIteration as end:
                self.logits = end.value.logits
                break
            self.streams.append(host_copy(self.model.workspace_rows(len(self.tokens)).streams))

    def assert_close(self, got: np.ndarray, name: str, index: int) -> None:
        wanted = self.golden[name][index]
        assert np.abs(got[self.golden["probe_positions"]] - wanted).max() < bound(self.ops_name)


@pytest.fixture(scope="module", params=[(c, o) for o in OPS_NAMES for c in FLOAT_CASES])
def probed(request) -> ProbedRun:
    return ProbedRun(*request.param)


def test_streams_are_the_golden_ones_after_every_layer(probed: ProbedRun):
    embedding = model_file_embedding(probed)
    probed.assert_close(np.repeat(embedding[:, None], probed.streams[0].shape[1], 1), "streams", 0)
    for layer_idx, streams in enumerate(probed.streams):
        probed.assert_close(streams, "streams", layer_idx + 1)


def model_file_embedding(probed: ProbedRun) -> np.ndarray:
    table = probed.model.weights.embedding
    out = probed.ops.zeros((len(probed.tokens), probed.model.config.hidden_size))
    probed.ops.gather_rows(table, np.array(probed.tokens, np.int64), out)
    return host_copy(out)


def test_inputs_and_outputs_of_every_mixer_and_of_the_experts_are_the_golden_ones(probed):
    for layer_idx in range(probed.model.config.num_layers):
        attn, ffn = 2 * layer_idx, 2 * layer_idx + 1
        probed.assert_close(probed.ops.mixes[attn][0], "probe_attn_in", layer_idx)
        probed.assert_close(probed.ops.mixes[attn][1], "probe_attn_inject", layer_idx)
        probed.assert_close(probed.ops.outputs[attn], "probe_attn_out", layer_idx)
        probed.assert_close(probed.ops.mixes[ffn][0], "probe_ffn_in", layer_idx)
        probed.assert_close(probed.ops.outputs[ffn], "probe_ffn_out", layer_idx)


def test_the_final_mixer_and_the_logits_are_the_golden_ones(probed: ProbedRun):
    mixed, inject = probed.ops.mixes[-1]
    assert inject is None
    probed.assert_close(mixed, "mixed", slice(None))
    assert_logits(probed.ops_name, "full", probed.logits, probed.golden["logits"])
    assert np.abs(probed.logits - probed.golden["logits"]).max() < bound(probed.ops_name)


def test_the_same_experts_are_chosen(probed: ProbedRun):
    for layer_idx, ids in enumerate(probed.ops.expert_ids):
        np.testing.assert_array_equal(np.sort(ids, axis=1), probed.golden["experts"][layer_idx])


def test_the_same_blocks_are_attended_to(probed: ProbedRun):
    kinds = probed.model.config.layer_kinds
    attention_layers = [i for i, kind in enumerate(kinds) if kind is LayerKind.ATTENTION]
    assert len(probed.ops.selected) == len(attention_layers) > 0
    for layer_idx, selected in zip(attention_layers, probed.ops.selected, strict=True):
        np.testing.assert_array_equal(selected, probed.golden[f"qsa_blocks_{layer_idx}"])


def test_the_same_table_rows_are_read(probed: ProbedRun):
    if "ple_rows" in probed.golden:
        np.testing.assert_array_equal(probed.ops.table_rows[0], probed.golden["ple_rows"])
    else:
        assert probed.ops.table_rows == []


@pytest.mark.parametrize("ops_name", OPS_NAMES)
@pytest.mark.parametrize("case", QUANTISED_CASES)
def test_quantised_models_give_the_golden_logits(case, ops_name):
    model = load_golden(case, ops_name)
    logits = run_tokens(model, model.new_sequence(), arrays(case)["tokens"])
    assert_logits(ops_name, case, logits, arrays(case)["logits"])


@pytest.mark.parametrize("ops_name", OPS_NAMES)
@pytest.mark.parametrize("chunk", [1, 7, 64])
@pytest.mark.parametrize("case", ALL_CASES)
def test_a_prompt_in_chunks_gives_the_golden_logits(case, chunk, ops_name):
    model = load_golden(case, ops_name, max_rows=64)
    logits = run_tokens(model, model.new_sequence(), arrays(case)["tokens"], chunk)
    assert_logits(ops_name, case, logits, arrays(case)["logits"])


@pytest.mark.parametrize("ops_name", OPS_NAMES)
@pytest.mark.parametrize("case", FLOAT_CASES)
def test_states_after_the_prompt_and_the_decoded_logits_are_the_golden_ones(case, ops_name):
    golden = arrays(case)
    num_prompt = int(golden["prefill_len"])
    model = load_golden(case, ops_name)
    sequence = model.new_sequence()
    run_tokens(model, sequence, golden["tokens"][:num_prompt])
    assert_states(model, sequence, golden, bound(ops_name))

    tokens = golden["tokens"][num_prompt : num_prompt + 16]
    logits = run_tokens(model, sequence, tokens, chunk=1)
    assert np.abs(logits - golden["decode_logits"]).max() < bound(ops_name)


def assert_states(
    model: Model, sequence: SequenceState, golden: dict[str, np.ndarray], limit: float
) -> None:
    """Compare all of a sequence's state with the stored one."""

    def close(got: np.ndarray, name: str) -> None:
        assert np.abs(got - golden[name]).max() < limit, name

    slot, half, store = sequence.slot, sequence.half, model.store
    delta, kv = iter(store.delta), iter(store.kv)
    for layer_idx, kind in enumerate(model.config.layer_kinds):
        if kind is LayerKind.DELTA:
            _, pool = next(delta)
            close(pool.state[slot, half], f"state_S_{layer_idx}")
            close(pool.conv[slot, half], f"state_conv_{layer_idx}")
            continue
        pages = next(kv)
        for name, cache in (("k", pages.keys), ("v", pages.values), ("ik", pages.index_raw)):
            stored = host_copy(cache)[sequence.pages.pages]  # (pages, page_tokens, ...)
            rows = stored.reshape(-1, *stored.shape[2:])[sequence.length - 8 : sequence.length]
            close(rows, f"state_{name}_{layer_idx}")
    if "state_ple_ctx" in golden:
        close(store.ple[0][1].conv[slot, half], "state_ple_conv")
        assert sequence.token_tail == tuple(golden["state_ple_ctx"].tolist())


@pytest.mark.parametrize("ops_name", OPS_NAMES)
@pytest.mark.parametrize("case", FLOAT_CASES)
def test_greedy_decoding_gives_the_golden_tokens(case, ops_name):
    golden = arrays(case)
    model = load_golden(case, ops_name)
    sequence = model.new_sequence()
    tokens = golden["tokens"][: int(golden["greedy_prompt_len"])].tolist()
    generated: list[int] = []
    while len(generated) < len(golden["greedy"]):
        result = forward(model, sequence, tokens, LogitsWanted.LAST)
        assert result.logits.shape[0] == 1
        sequence.commit(len(tokens))
        tokens = [int(result.logits[0].argmax())]
        generated += tokens
    assert generated == golden["greedy"].tolist()


@pytest.mark.parametrize("ops_name", OPS_NAMES)
@pytest.mark.parametrize("chunk", [96, 25])
def test_image_positions_give_the_golden_logits(chunk, ops_name):
    golden = arrays("full")
    model = load_golden("full", ops_name)
    sequence = model.new_sequence()
    tokens, positions = golden["mrope_tokens"].tolist(), golden["mrope_positions"].T
    logits = []
    for start in range(0, len(tokens), chunk):
        part = slice(start, start + chunk)
        # Text before and after the image needs no positions: it counts on by itself.
        given = positions[part] if start < 54 else None
        entry = BatchEntry(sequence, tokens[part], LogitsWanted.ALL, given)
        logits.append(model.forward(Batch([entry])).logits.copy())
        sequence.commit(len(tokens[part]))
    assert_logits(ops_name, "full", np.concatenate(logits), golden["mrope_logits"])
    assert np.abs(np.concatenate(logits) - golden["mrope_logits"]).max() < bound(ops_name)


@pytest.mark.parametrize("ops_name", OPS_NAMES)
def test_half_precision_caches_stay_close_to_the_golden_logits(ops_name):
    golden = arrays("full")
    model = load_golden("full", ops_name, kv_type="f16")
    logits = run_tokens(model, model.new_sequence(), golden["tokens"], chunk=64)
    # A rounded index key may flip a block, which moves single positions by up to 0.2.
    assert np.quantile(np.abs(logits - golden["logits"]).max(axis=1), 0.95) < 2e-2


@pytest.mark.parametrize("ops_name", ["reference", "plain"])
@pytest.mark.parametrize("case", FLOAT_CASES)
def test_int8_caches_stay_close_to_the_golden_logits(case, ops_name):
    golden = arrays(case)
    model = load_golden(case, ops_name, kv_type="i8")
    logits = run_tokens(model, model.new_sequence(), golden["tokens"], chunk=64)
    # Numbers move by up to 0.4 % of a head's largest, and what they move may move a block's choice.
    assert mean_kl(golden["logits"], logits) < 1e-3
    assert (logits.argmax(axis=1) == golden["logits"].argmax(axis=1)).mean() >= 0.95


def test_int8_caches_are_refused_by_operations_that_cannot_read_them():
    with pytest.raises(ConfigError, match="need a graphics card"):
        load_golden("full", "host", kv_type="i8")
