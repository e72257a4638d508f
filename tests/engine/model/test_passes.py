"""Recorded passes give the bits that calling each operation gives."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from engine.core.config import BUNDLED_MODEL
from engine.gguf.reader import GgufFile
from engine.model import passes
from engine.model.limits import ModelLimits
from engine.model.passes import RECORDED_ROWS, RECORDING_VARIABLE
from engine.model.trunk import Model
from engine.ops.select import make_ops
from engine.sequence.batch import Batch, BatchEntry, LogitsWanted
from tests.support.golden import OPS_NAMES, arrays, load_golden, run_tokens
from tests.support.mixed_life import a_mixed_life, finish


def called(monkeypatch: pytest.MonkeyPatch, case: str, ops_name: str, **changes: int) -> Model:
    """A model that calls every operation."""
    with monkeypatch.context() as patch:
        patch.setenv(RECORDING_VARIABLE, "off")
        return load_golden(case, ops_name, **changes)


@pytest.mark.parametrize("ops_name", OPS_NAMES)
@pytest.mark.parametrize("case", ["full", "nople", "quant-Q4_K_M"])
def test_recorded_windows_of_several_sequences_have_the_same_bits(case, ops_name, monkeypatch):
    tokens = arrays(case)["tokens"].tolist()
    wanted = a_mixed_life(called(monkeypatch, case, ops_name), tokens, 1)
    got = a_mixed_life(load_golden(case, ops_name), tokens, 1)
    for a, b in zip(got, wanted, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("case", ["full", "odd"])
def test_layer_by_layer_at_once_and_called_are_the_same(case, monkeypatch):
    tokens = arrays(case)["tokens"].tolist()[:40]
    model = load_golden(case, "host")
    other = called(monkeypatch, case, "host")
    whole = run_tokens(other, other.new_sequence(), tokens, 4)
    at_once = run_tokens(model, model.new_sequence(), tokens, 4)
    sequence, stepped = model.new_sequence(), []
    for start in range(0, len(tokens), 4):
        part = tokens[start : start + 4]
        layers = model.layers(Batch([BatchEntry(sequence, part, LogitsWanted.ALL)]))
        stepped.append(finish(layers).logits.copy())
        sequence.commit(len(part))
    assert at_once.tobytes() == whole.tobytes()
    assert np.concatenate(stepped).tobytes() == whole.tobytes()


def test_the_bundled_model_answers_alike_with_and_without_recordings(monkeypatch):
    limits = ModelLimits(max_rows=64, context=256)
    answers = []
    for setting in ("off", ""):
        monkeypatch.setenv(RECORDING_VARIABLE, setting)
        ops = make_ops("host", limits.for_ops())
        with GgufFile.open(BUNDLED_MODEL) as file:
            model = Model.load(file, ops, limits)
            logits = run_tokens(model, model.new_sequence(), list(range(5, 105)), 1)
            ops.close()
        answers.append(logits.tobytes())
    assert answers[0] == answers[1]


def test_small_passes_are_recorded_once_for_their_shape_and_long_ones_not():
    model = load_golden("full", "host")
    made = []
    record = model.ops.record

    def counted(parts, keep):
        made.append(len(parts))
        return record(parts, keep)

    model.ops.record = counted
    tokens = arrays("full")["tokens"].tolist()
    for _ in range(2):
        sequence = model.new_sequence()
        run_tokens(model, sequence, tokens[: RECORDED_ROWS + 1])
        run_tokens(model, sequence, tokens[17:49], 1)
        run_tokens(model, sequence, tokens[49:97], RECORDED_ROWS)
        sequence.release()
    assert made == [model.config.num_layers + 2] * 2  # one row, sixteen rows


def test_a_recording_survives_larger_logits_buffers_and_the_loss_of_all_other_references():
    model = load_golden("full", "host")
    tokens = arrays("full")["tokens"].tolist()
    wanted = run_tokens(model, model.new_sequence(), tokens[:30], 1)
    many = model.new_sequence()
    run_tokens(model, many, tokens[:90])  # the head's buffers are replaced by larger ones
    many.release()
    gc.collect()
    assert run_tokens(model, model.new_sequence(), tokens[:30], 1).tobytes() == wanted.tobytes()


def test_buffers_of_another_pass_in_flight_have_recordings_of_their_own():
    tokens = arrays("full")["tokens"].tolist()
    model = load_golden("full", "host")
    wanted = run_tokens(model, model.new_sequence(), tokens[:6])
    open_one, other = model.new_sequence(), model.new_sequence()
    batch = Batch([BatchEntry(open_one, tokens[:6], LogitsWanted.ALL)])
    layers = model.layers(batch, model.new_buffers())
    next(layers)
    assert run_tokens(model, other, tokens[:6]).tobytes() == wanted.tobytes()
    assert finish(layers).logits.tobytes() == wanted.tobytes()


def test_a_small_pass_of_slow_layers_stops_after_each_and_of_fast_ones_after_several(monkeypatch):
    tokens = arrays("full")["tokens"].tolist()
    model = load_golden("full", "host")
    sequence = model.new_sequence()
    num_layers = model.config.num_layers
    every = list(range(num_layers))
    monkeypatch.setattr(passes, "STEP_S", 1e-9)
    for _ in range(2):
        assert list(model.layers(Batch([BatchEntry(sequence, tokens[:3])]))) == every
    monkeypatch.setattr(passes, "STEP_S", 10.0)
    assert list(model.layers(Batch([BatchEntry(sequence, tokens[:2])]))) == [0, num_layers - 1]
    for _ in range(2):  # known to be quick: not left at all
        assert list(model.layers(Batch([BatchEntry(sequence, tokens[:2])]))) == []
    many = list(model.layers(Batch([BatchEntry(sequence, tokens[: RECORDED_ROWS + 1])])))
    assert many == every
