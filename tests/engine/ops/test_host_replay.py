"""Short recordings find out on how many threads they are quickest; what they compute stays the same."""

from __future__ import annotations

import numpy as np
import pytest

from engine.core.ggml_types import GgmlType
from engine.ops.base import Limits
from engine.ops.check_inputs import Inputs
from engine.ops.host import HostOps
from engine.ops.host_replay import LEAST_GAIN, SHORT_S, TRIED, ThreadTrial


def settled(alone_s: float, together_s: float) -> tuple[ThreadTrial, int]:
    trial, runs = ThreadTrial(), 0
    while not trial.is_settled and runs < 100:
        trial.note(alone_s if trial.is_alone else together_s)
        runs += 1
    return trial, runs


@pytest.mark.parametrize(
    ("alone_s", "together_s", "is_alone"),
    [
        (100e-6, 100e-6, True),
        (100e-6, 95e-6, True),  # not worth another core
        (100e-6, 60e-6, False),
        (100e-6, 300e-6, True),
    ],
)
def test_other_threads_are_used_where_they_gain_a_tenth(
    alone_s: float, together_s: float, is_alone: bool
) -> None:
    trial, runs = settled(alone_s, together_s)
    assert trial.is_alone is is_alone
    assert runs == 2 * TRIED + 1
    assert LEAST_GAIN > 1


def test_what_takes_long_is_never_tried_alone() -> None:
    trial, runs = settled(1.0, 2 * SHORT_S)
    assert not trial.is_alone
    assert runs == 2


def test_the_first_run_does_not_count() -> None:
    trial = ThreadTrial()
    trial.note(50 * SHORT_S)  # cold
    assert not trial.is_settled


def test_all_runs_of_a_recording_give_the_same_bits() -> None:
    ops = HostOps(Limits(max_rows=4, max_window=1, num_slots=1, num_pages=1, threads=2))
    try:
        matrix = ops.matrix(Inputs(1).tensor(GgmlType.Q8_0, 600, 512))
        x, out = Inputs(2).normal(4, 512), np.zeros((4, 600), np.float32)
        recording = ops.record([lambda: ops.matmul([matrix], x, [out])], [matrix, x, out])
        results = []
        for _ in range(3 * TRIED):
            out[...] = np.nan
            recording.run(0, 1)
            results.append(out.copy())
        assert not np.isnan(results[0]).any()
        assert all(np.array_equal(result, results[0]) for result in results)
    finally:
        ops.close()
    with pytest.raises(RuntimeError, match="closed"):
        recording.run(0, 1)
