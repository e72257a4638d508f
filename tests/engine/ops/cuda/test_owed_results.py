"""A layer's result is added to the streams where the next layer reads them: fewer launches, the same bits."""

from __future__ import annotations

import numpy as np
import pytest

from engine.device.emulated import EmulatedDevice
from engine.model.trunk import Model
from engine.ops.cuda import CudaOps
from engine.sequence.batch import Batch, BatchEntry, LogitsWanted
from tests.support.golden import arrays, golden_limits, model_file

CASE = "full"


def load(seed: int) -> Model:
    limits = golden_limits(max_rows=64)
    ops = CudaOps(limits.for_ops(), EmulatedDevice(1 << 29, seed=seed))
    return Model.load(model_file(CASE), ops, limits)


def computed(model: Model) -> list[np.ndarray]:
    """Logits and streams of a prompt that is left and begun anew, of windows and of a step."""
    tokens = arrays(CASE)["tokens"][:40].tolist()
    sequence = model.new_sequence()
    left = model.layers(Batch([BatchEntry(sequence, tokens[:30])]))
    next(left)
    next(left)
    left.close()
    found = []
    for count in (20, 7, 7, 1):
        first = sequence.length
        entry = BatchEntry(sequence, tokens[first : first + count], LogitsWanted.ALL)
        layers = model.layers(Batch([entry]))
        while True:
            try:
                next(layers)
            except StopIteration as end:
                result = end.value
                break
        found += [np.array(result.logits), np.asarray(result.streams).copy()]
        sequence.commit(count)
    sequence.release()
    return found


@pytest.mark.parametrize("step_s", [1.0, 1e-9])  # windows at once, and layer by layer
def test_results_are_added_by_the_next_layers_mix_with_the_same_bits(step_s, monkeypatch):
    monkeypatch.setattr("engine.model.passes.STEP_S", step_s)
    found, launched = [], []
    for adds in (True, False):
        monkeypatch.setattr(CudaOps, "adds_in_mix", adds)
        model = load(seed=int(adds))
        num_ple = sum(layer.ple is not None for layer in model.trunk_layers)
        assert isinstance(model.ops, CudaOps)
        names: list[str] = []
        launcher = model.ops._launcher
        launch = launcher.launch
        monkeypatch.setattr(
            launcher,
            "launch",
            lambda name, *a, n=names, f=launch, **k: (n.append(name), f(name, *a, **k)),
        )
        sequence = model.new_sequence()
        model.forward(Batch([BatchEntry(sequence, list(range(20)))]))  # called, not recorded
        sequence.commit(20)
        sequence.release()
        launched.append(names.count("hc_combine"))
        found.append(computed(model))
        model.ops.close()
    num_layers = len(model.trunk_layers)
    first_has = model.trunk_layers[0].ple is not None
    assert launched == [1 + num_ple - first_has, num_layers]
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)
