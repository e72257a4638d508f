"""Recordings of a card's work with host steps between."""

from __future__ import annotations

import numpy as np
import pytest

from engine.device.base import DeviceMemoryError
from engine.device.emulated import EmulatedDevice
from engine.model.trunk import Model
from engine.ops.cuda import CudaOps
from engine.ops.cuda_recording import CudaRecording, GraphMemory, Steps
from engine.ops.cuda_settings import CudaSettings
from engine.sequence.batch import Batch, BatchEntry, LogitsWanted
from tests.engine.ops.cuda.test_shared_experts import load, ops_of
from tests.support.golden import arrays, forward, golden_limits, model_file, run_tokens
from tests.support.plain_device import PlainDevice, PlainGraph, PlainStream


class Log:
    """Parts that write down what is done, on the card (`c`) and on the host (`h`)."""

    def __init__(self) -> None:
        self.stream = PlainStream()
        self.steps = Steps(self.stream)
        self.memory = GraphMemory(PlainDevice(), 1 << 20)
        self.done: list[str] = []
        self.generation = 0

    def part(self, name: str, *, has_host: bool) -> None:
        self.stream.call(lambda: self.done.append(f"c{name}"))
        if has_host:
            self.steps.host(lambda: self.done.append(f"h{name}"))
            self.stream.call(lambda: self.done.append(f"C{name}"))

    def record(self) -> CudaRecording:
        parts = [
            lambda: self.part("0", has_host=True),
            lambda: self.part("1", has_host=False),
            lambda: self.part("2", has_host=True),
        ]
        return CudaRecording(self.steps, parts, (), lambda: self.generation, self.memory)


def test_host_steps_keep_their_place_between_what_the_card_does():
    log = Log()
    recording = log.record()
    recording.run(0, 3)
    log.done.clear()  # the first run was done twice: once to make it
    recording.run(0, 3)
    assert log.done == ["c0", "h0", "C0", "c1", "c2", "h2", "C2"]


def test_parts_can_be_run_one_after_the_other():
    log = Log()
    recording = log.record()
    recording.run(0, 1)
    log.done.clear()
    recording.run(1, 2)
    assert log.done == ["c1"]
    recording.run(2, 3)
    assert log.done == ["c1", "c2", "h2", "C2"]


def test_what_has_moved_amid_a_pass_is_called_and_made_again_with_the_next_pass():
    log = Log()
    recording = log.record()
    recording.run(0, 1)
    log.done.clear()
    log.generation += 1
    recording.run(1, 3)
    assert log.done == ["c1", "c2", "h2", "C2"]
    log.done.clear()
    recording.run(0, 3)
    assert log.done == ["c0", "h0", "C0", "c1", "c2", "h2", "C2"] * 2


def test_a_part_that_fails_while_it_is_recorded_leaves_the_stream_usable():
    log = Log()

    def fails() -> None:
        log.part("0", has_host=False)
        if log.steps.are_kept:
            raise ValueError("no")

    recording = CudaRecording(log.steps, [fails], (), lambda: 0, log.memory)
    with pytest.raises(ValueError, match="no"):
        recording.run(0, 1)
    log.done.clear()
    log.part("1", has_host=True)
    assert log.done == ["c1", "h1", "C1"]


def test_a_card_without_room_for_a_graph_says_so_and_leaves_the_stream_usable(monkeypatch):
    log = Log()
    end = log.stream.end_capture

    def full():
        end()
        raise DeviceMemoryError("no room")

    monkeypatch.setattr(log.stream, "end_capture", full)
    with pytest.raises(DeviceMemoryError, match="no room"):
        log.record().run(0, 3)
    monkeypatch.undo()
    log.done.clear()
    log.part("1", has_host=True)
    assert log.done == ["c1", "h1", "C1"]


def test_graphs_go_with_the_recording_that_has_them(monkeypatch):
    alive: set[int] = set()

    class CountedGraph(PlainGraph):
        def __init__(self, calls) -> None:
            super().__init__(calls)
            alive.add(id(self))
            kept.append(self)

        def free(self) -> None:
            alive.discard(id(self))

    kept: list[CountedGraph] = []  # so that no two have the same id
    monkeypatch.setattr("tests.support.plain_device.PlainGraph", CountedGraph)
    log = Log()
    recording = log.record()
    recording.run(0, 3)
    assert len(alive) == 5
    del recording
    assert not alive

    def fails() -> None:
        log.part("0", has_host=True)
        if log.steps.are_kept:
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        CudaRecording(log.steps, [fails], (), lambda: 0, log.memory).run(0, 1)
    assert len(kept) > 5
    assert not alive


def test_memory_that_is_given_back_while_a_window_is_left_open_changes_nothing(monkeypatch):
    monkeypatch.setattr("engine.model.passes.STEP_S", 0.0)  # windows stop after each layer
    model = load(CudaSettings(pcie_frac=1.0))
    tokens = arrays("full")["tokens"][:8].tolist()

    def run(*, disturbed: bool) -> np.ndarray:
        sequence = model.new_sequence()
        entry = BatchEntry(sequence, tokens, LogitsWanted.ALL)
        layers = model.layers(Batch([entry]))
        for layer in range(4):
            assert next(layers) == layer
            if disturbed and layer == 1:
                ops_of(model).moe_work.resize(0)
        with pytest.raises(StopIteration) as end:
            next(layers)
        logits: np.ndarray = end.value.value.logits.copy()
        sequence.release()
        return logits

    run(disturbed=False)  # records
    wanted = run(disturbed=False)
    np.testing.assert_array_equal(run(disturbed=True), wanted)


# -- what graphs take of a card --------------------------------------------------------------------


def emulated(graph_bytes: int, most_bytes: int, monkeypatch: pytest.MonkeyPatch) -> Model:
    """A model on a card whose graphs take so much, and may take so much together."""
    monkeypatch.setattr("engine.ops.cuda.GRAPH_BYTES", most_bytes)
    monkeypatch.setattr("engine.ops.cuda_recording._IDLE_TURNS", 0)
    limits = golden_limits(max_rows=64)
    device = EmulatedDevice(1 << 29, seed=1)
    ops = CudaOps(limits.for_ops(), device, CudaSettings(cache_bytes=1 << 20, pcie_frac=1.0))
    device.graph_bytes = graph_bytes
    return Model.load(model_file("quant-IQ2_XS"), ops, limits)


def windows(model: Model) -> list[np.ndarray]:
    """Logits of windows of several sizes, each of them twice."""
    logits = []
    for count in (1, 2, 3, 4, 2, 1, 4, 3):
        sequence = model.new_sequence()
        logits.append(forward(model, sequence, [5, 6, 7, 8][:count]).logits.copy())
        sequence.release()
    return logits


def test_graphs_take_no_more_of_a_card_than_is_planned_for_them(monkeypatch) -> None:
    free = emulated(0, 1 << 30, monkeypatch)
    wanted = windows(free)
    ops = ops_of(free)
    num_graphs = sum(len(recording._graphs) for recording in ops._graphs._made)
    each = num_graphs // 4  # of a window's recording
    assert each > 3
    model = emulated(1 << 16, 2 * each << 16, monkeypatch)
    device = ops_of(model).device
    before = device.free_bytes()
    for got, logits in zip(windows(model), wanted, strict=True):
        np.testing.assert_array_equal(got, logits)
    assert 0 < ops_of(model)._graphs.num_bytes <= 2 * each << 16
    assert before - device.free_bytes() < (2 * each + 4 << 16) + (1 << 20)  # and scratch


def test_the_window_that_was_not_run_for_longest_goes_first(monkeypatch) -> None:
    model = emulated(1 << 16, 1 << 30, monkeypatch)
    windows(model)  # 3 rows were the last, 2 rows the first of the second round
    graphs = ops_of(model)._graphs
    by_turn = sorted(graphs._made, key=lambda one: one.last_run)
    graphs._most = graphs.num_bytes
    sequence = model.new_sequence()
    forward(model, sequence, [5, 6, 7, 8, 9])
    assert [one.is_made for one in by_turn] == [False, True, True, True]


def test_windows_that_are_in_use_are_not_made_again_and_again(monkeypatch) -> None:
    model = emulated(1 << 16, 1, monkeypatch)
    monkeypatch.setattr("engine.ops.cuda_recording._IDLE_TURNS", 4000)
    windows(model)
    assert [one.is_made for one in ops_of(model)._graphs._made] == [True] * 4


def test_a_pass_that_lacks_memory_gets_that_of_graphs_too(monkeypatch) -> None:
    model = emulated(1 << 20, 1 << 30, monkeypatch)
    device = ops_of(model).device
    assert isinstance(device, EmulatedDevice)
    wanted = windows(model)
    ops_of(model).moe_work.resize(0)
    device.others_bytes = device.free_bytes() - 8192
    sequence = model.new_sequence()
    logits = run_tokens(model, sequence, list(range(5, 55)), 50)  # needs scratch memory
    assert np.isfinite(logits).all()
    sequence.release()
    device.others_bytes = 0
    for got, logits in zip(windows(model), wanted, strict=True):
        np.testing.assert_array_equal(got, logits)
