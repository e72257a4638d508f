"""Lists of calls that the library runs by itself."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from engine.core.ggml_types import GgmlType
from engine.ops.base import Limits
from engine.ops.check_inputs import Inputs
from engine.ops.host import HostOps


@pytest.fixture
def ops():
    made = HostOps(Limits(max_rows=8, max_window=8, num_slots=1, num_pages=1, threads=1))
    yield made
    made.close()


def test_a_recording_computes_nothing_until_it_runs_and_then_reads_what_is_there(ops):
    inputs = Inputs(1)
    matrix = ops.matrix(inputs.tensor(GgmlType.Q8_0, 40, 64))
    x, out, wanted = np.zeros((2, 64), np.float32), np.zeros((2, 40), np.float32), None
    recording = ops.record([lambda: ops.matmul([matrix], x, [out])], (matrix, x, out))
    for _ in range(3):
        x[...] = inputs.normal(2, 64)
        wanted = np.zeros_like(out)
        before = out.copy()
        ops.matmul([matrix], x, [wanted])
        assert out.tobytes() == before.tobytes()
        recording.run(0, 1)
        assert out.tobytes() == wanted.tobytes()


def test_parts_run_alone_or_together(ops):
    x, streams = np.ones((1, 8), np.float32), np.zeros((1, 4, 8), np.float32)
    parts = [lambda: ops.fill_streams(x, streams), lambda: None]
    parts += [lambda: ops.add_to_streams(x, streams)] * 2
    recording = ops.record(parts, (x, streams))
    recording.run(0, 4)
    assert np.all(streams == 3)
    recording.run(3, 4)
    recording.run(1, 2)
    assert np.all(streams == 4)


def test_what_is_kept_lives_as_long_as_the_recording(ops):
    def make():
        x, streams = np.ones((1, 8), np.float32), np.zeros((1, 4, 8), np.float32)
        return ops.record([lambda: ops.add_to_streams(x, streams)], (x, streams)), streams[:]

    recording, view = make()
    gc.collect()
    recording.run(0, 1)
    assert np.all(view == 1)


def test_a_call_that_fails_ends_the_list_and_is_named(ops):
    x, streams = np.ones((1, 8), np.float32), np.zeros((1, 4, 8), np.float32)
    wrong = np.ones((3, 8), np.float32)
    parts = [
        lambda: ops.fill_streams(x, streams),
        lambda: ops.add_to_streams(wrong, streams),
        lambda: ops.add_to_streams(x, streams),
    ]
    recording = ops.record(parts, (x, wrong, streams))
    with pytest.raises(ValueError, match="add_to_streams: arrays do not fit"):
        recording.run(0, 3)
    assert np.all(streams == 1)


def test_operations_compute_again_after_a_part_that_cannot_be_recorded(ops):
    x, weight, out = (np.ones(shape, np.float32) for shape in ((1, 8), (8,), (1, 8)))
    with pytest.raises(TypeError, match="rms_norm takes a number"):
        ops.record([lambda: ops.rms_norm(x, weight, 1e-6, out)], (x, weight, out))
    x[...] = 2
    ops.rms_norm(x, weight, 0.0, out)
    assert np.allclose(out, 1)


def test_a_recording_of_closed_operations_does_not_run(ops):
    x, streams = np.ones((1, 8), np.float32), np.zeros((1, 4, 8), np.float32)
    recording = ops.record([lambda: ops.fill_streams(x, streams)], (x, streams))
    ops.close()
    with pytest.raises(RuntimeError, match="closed"):
        recording.run(0, 1)
