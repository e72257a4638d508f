"""Passes of the draft head on a card: recorded, and done again when memory runs out."""

from __future__ import annotations

import numpy as np
import pytest

from engine.device.base import DeviceMemoryError
from engine.model.mtp import DraftEntry
from engine.model.trunk import Model
from engine.ops.cuda_settings import CudaSettings
from tests.engine.ops.cuda.test_shared_experts import load, num_slots
from tests.support.golden import forward


def drafts(model: Model, chains: int = 3) -> list[np.ndarray]:
    """Logits of the draft head, fed with a few tokens and drafting on by itself, twice."""
    assert model.mtp is not None
    logits = []
    for first in (1, 5):
        sequence = model.new_sequence()
        tokens = [first, 2, 3, 4, 5]
        result = forward(model, sequence, tokens[:4])
        sequence.commit(4)
        streams, following = np.asarray(result.streams).copy(), tokens[1:]
        for _ in range(chains):
            result = model.mtp.forward([DraftEntry(sequence, streams, following)])
            logits.append(result.logits.copy())
            streams = np.asarray(result.streams).copy()[-1:]
            following = [int(logits[-1][0].argmax())]
        sequence.release()
    return logits


def test_passes_of_the_draft_head_are_recorded_and_give_the_same_bits(monkeypatch):
    model = load(CudaSettings(pcie_frac=1.0, cache_bytes=0), mtp="full-mtp")
    made = []
    record = model.ops.record
    monkeypatch.setattr(model.ops, "record", lambda *a: made.append(1) or record(*a))
    recorded = drafts(model)
    num_made = len(made)
    again = drafts(model)
    assert len(made) == num_made  # the same recordings, run again
    monkeypatch.setenv("STRATUM_RECORDING", "off")
    called = drafts(load(CudaSettings(pcie_frac=1.0, cache_bytes=0), mtp="full-mtp"))
    for wanted, *others in zip(called, recorded, again, strict=True):
        for other in others:
            np.testing.assert_array_equal(other, wanted)


def test_a_pass_of_the_draft_head_that_lacks_memory_is_done_again_with_fewer_experts(
    monkeypatch, caplog
):
    wanted = drafts(load(CudaSettings(pcie_frac=1.0), mtp="full-mtp"))
    model = load(CudaSettings(pcie_frac=1.0), mtp="full-mtp")
    assert model.mtp is not None
    layer, lacking = model.mtp._layer, [1, 1]
    run = type(layer).run

    def runs_out(self, *arguments):
        run(self, *arguments)
        if self is layer and lacking:
            lacking.pop()
            raise DeviceMemoryError("The card has no room.")

    monkeypatch.setattr(type(layer), "run", runs_out)
    slots = sum(num_slots(model))
    got = drafts(model)
    assert not lacking
    assert caplog.text.count("fewer experts are kept on the card") == 2
    assert sum(num_slots(model)) < slots
    for logits, others in zip(got, wanted, strict=True):
        np.testing.assert_array_equal(logits, others)


def test_a_draft_head_without_experts_on_the_card_has_nothing_to_give_up(monkeypatch):
    model = load(CudaSettings(pcie_frac=1.0, cache_bytes=0), mtp="full-mtp")
    assert model.mtp is not None
    layer = model.mtp._layer

    def runs_out(self, *_arguments):
        raise DeviceMemoryError("The card has no room.")

    sequence = model.new_sequence()
    result = forward(model, sequence, [1, 2])
    sequence.commit(2)
    monkeypatch.setattr(type(layer), "run", runs_out)
    with pytest.raises(DeviceMemoryError):
        model.mtp.forward([DraftEntry(sequence, result.streams.copy(), [2, 3])])
    assert sequence.mtp_length == 0
