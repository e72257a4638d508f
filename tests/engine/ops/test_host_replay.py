"""Short recordings find out on how many threads they are quickest; what they compute stays the same."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest

from engine.core.ggml_types import GgmlType
from engine.ops.base import Limits
from engine.ops.check_inputs import Inputs
from engine.ops.host import HostOps
from engine.ops.host_replay import (
    FIRST_LASTS,
    IN_A_ROW,
    LEAST_GAIN,
    MOST_CUTS,
    MOST_LASTS,
    MOST_SLOW,
    SHORT_S,
    TRIED,
    HostRecording,
    ThreadTrial,
)
from engine.ops.host_runner import Sides, Way

WAYS = (Way.TOGETHER, Way.ALONE, Way.SIDES)


def settled(
    seconds: Callable[[Way, int], float], ways: tuple[Way, ...] = WAYS
) -> tuple[ThreadTrial, int]:
    """A trial whose n-th run in a way takes so long, and how many runs it took to settle."""
    trial, runs, of_way = ThreadTrial(ways), 0, dict.fromkeys(ways, 0)
    while not trial.is_settled and runs < 100:
        way = trial.way
        trial.note(seconds(way, of_way[way]))
        of_way[way] += 1
        runs += 1
    return trial, runs


def steadily(
    alone_s: float, together_s: float, sides_s: float = 1.0
) -> Callable[[Way, int], float]:
    of_way = dict(zip(WAYS, (together_s, alone_s, sides_s), strict=True))
    return lambda way, _: of_way[way]


def run_on(trial: ThreadTrial, seconds: Callable[[Way, int], float]) -> int:
    """How many runs a settled trial lasts; it is settled again afterwards."""
    runs = 0
    while trial.is_settled:
        trial.has_run(0.0)
        runs += 1
    while not trial.is_settled:
        trial.note(seconds(trial.way, 0))
    return runs


@pytest.mark.parametrize(
    ("alone_s", "together_s", "sides_s", "way"),
    [
        (100e-6, 100e-6, 100e-6, Way.ALONE),
        (100e-6, 95e-6, 92e-6, Way.ALONE),  # not worth another core
        (100e-6, 60e-6, 70e-6, Way.TOGETHER),
        (100e-6, 300e-6, 300e-6, Way.ALONE),
        (100e-6, 80e-6, 60e-6, Way.SIDES),
        (5 * SHORT_S, 0.8 * SHORT_S, 0.6 * SHORT_S, Way.SIDES),
    ],
)
def test_other_threads_are_used_where_they_gain_a_tenth(
    alone_s: float, together_s: float, sides_s: float, way: Way
) -> None:
    trial, runs = settled(steadily(alone_s, together_s, sides_s))
    assert trial.way is way
    assert runs == 3 * TRIED + 1
    assert LEAST_GAIN > 1


def test_what_has_no_sides_is_not_tried_in_sides() -> None:
    trial, runs = settled(steadily(100e-6, 60e-6), (Way.TOGETHER, Way.ALONE))
    assert trial.way is Way.TOGETHER
    assert runs == 2 * TRIED + 1


def test_what_takes_long_is_never_tried_alone() -> None:
    trial, runs = settled(steadily(1.0, 2 * SHORT_S, 1.0))
    assert trial.way is Way.TOGETHER
    assert runs == IN_A_ROW + 1


def test_one_long_run_among_short_ones_is_an_interruption() -> None:
    trial, _ = settled(lambda way, n: 1.0 if n == 1 else steadily(100e-6, 60e-6, 40e-6)(way, n))
    assert trial.way is Way.SIDES


def test_the_first_run_does_not_count() -> None:
    trial = ThreadTrial()
    trial.note(50 * SHORT_S)  # cold
    assert not trial.is_settled


def test_a_way_that_is_usually_slow_and_once_quick_is_not_taken() -> None:
    """As that of sides is while another program has the second core."""

    def seconds(way: Way, n: int) -> float:
        if way is Way.SIDES:
            return 50e-6 if n % IN_A_ROW == 3 else 900e-6
        return 100e-6

    trial, _ = settled(seconds)
    assert trial.way is Way.ALONE


def test_each_way_runs_several_times_in_a_row() -> None:
    """Else the threads that it needs would be found asleep."""
    seen: list[Way] = []

    def seconds(way: Way, _: int) -> float:
        seen.append(way)
        return 100e-6

    settled(seconds)
    changes = sum(a is not b for a, b in itertools.pairwise(seen))
    assert changes == 3 * TRIED // IN_A_ROW - 1


def test_ways_are_tried_again_more_and_more_seldom_until_something_has_changed() -> None:
    busy, idle = steadily(100e-6, 200e-6, 200e-6), steadily(100e-6, 90e-6, 60e-6)
    trial, _ = settled(busy)
    lasted = [run_on(trial, busy) for _ in range(10)]
    assert lasted == [min(FIRST_LASTS * 2**n, MOST_LASTS) for n in range(10)]
    assert lasted[-1] == MOST_LASTS
    assert run_on(trial, idle) == MOST_LASTS
    assert trial.way is Way.SIDES
    assert run_on(trial, idle) == FIRST_LASTS


class CountedRuns:
    """Stands in for what runs lists: sides are the quickest."""

    def __init__(self) -> None:
        self.now = 0.0
        self.ways: list[Way] = []

    def _ran(self, way: Way, seconds: float) -> None:
        self.ways.append(way)
        self.now += seconds

    def together(self, _calls: object, _first: int, _stop: int) -> None:
        self._ran(Way.TOGETHER, 300e-6)

    def alone(self, _calls: object, _first: int, _stop: int) -> None:
        self._ran(Way.ALONE, 200e-6)

    def sides(self, _sides: object, _first: int, _stop: int) -> None:
        self._ran(Way.SIDES, 100e-6)


def test_sides_are_made_once_where_a_pass_is_cut_so_and_what_is_found_out_counts_for_all() -> None:
    runner, made = CountedRuns(), []

    def new_sides(cuts: object) -> Sides:
        made.append(cuts)
        return Sides(())

    recording = HostRecording(runner, None, 2, new_sides, clock=lambda: runner.now)  # type: ignore[arg-type]
    for n in range(3 * TRIED + 1):
        recording.cut(n % 2)
        recording.run(0, 1)
    assert sorted(made) == [0, 1]  # type: ignore[type-var]
    for n in range(MOST_CUTS + 1):  # nothing is tried for them
        recording.cut(n)
        recording.run(0, 1)
    assert runner.ways[-MOST_CUTS - 1 :] == [Way.SIDES] * (MOST_CUTS + 1)
    assert sorted(made) == list(range(MOST_CUTS + 1))  # type: ignore[type-var]
    recording.cut(0)  # forgotten meanwhile
    recording.run(0, 1)
    assert made[-1] == 0


def test_a_recording_tries_all_ways_again_after_a_while_beginning_with_the_first() -> None:
    runner = CountedRuns()
    recording = HostRecording(runner, None, 2, lambda _: Sides(()), clock=lambda: runner.now)  # type: ignore[arg-type]
    num_tried = 3 * TRIED + 1
    for _ in range(num_tried + FIRST_LASTS + 3 * IN_A_ROW):
        recording.run(0, 1)
    lasting, again = runner.ways[num_tried : -3 * IN_A_ROW], runner.ways[-3 * IN_A_ROW :]
    assert lasting[:-1] == [Way.SIDES] * (FIRST_LASTS - 1)
    assert again == [way for way in WAYS for _ in range(IN_A_ROW)]


def test_one_thread_has_nothing_to_try() -> None:
    runner = CountedRuns()
    recording = HostRecording(runner, None, 1, clock=lambda: runner.now)  # type: ignore[arg-type]
    for _ in range(3 * TRIED):
        recording.run(0, 1)
    assert set(runner.ways) == {Way.TOGETHER}


def test_lists_that_one_thread_runs_have_contexts_of_one_thread_that_end_with_the_operations(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ops = HostOps(Limits(max_rows=4, max_window=1, num_slots=1, num_pages=1, threads=2))
    x, out = np.ones((2, 4), np.float32), np.zeros((2, 3, 4), np.float32)
    calls = ops._record([lambda: ops.fill_streams(x, out)], [x, out])
    library, used, ended = ops._library, [], []
    replay, destroy = library.replay, library.destroy
    monkeypatch.setattr(library, "replay", lambda c, *rest: used.append(c) or replay(c, *rest))
    monkeypatch.setattr(library, "destroy", lambda c: ended.append(c) or destroy(c))
    ops._runner.alone(calls, 0, 1)
    ops._runner.together(calls, 0, 1)
    assert [library.threads(context) for context in used] == [1, 2]
    ops._runner.sides(Sides([calls, calls]), 0, 1)
    ops.close()
    assert len(set(ended)) == 3
    assert set(used) < set(ended)


def test_sides_that_have_become_slow_are_left_soon() -> None:
    """As when another program begins to use the second core."""
    trial, _ = settled(steadily(100e-6, 90e-6, 60e-6))
    for _ in range(MOST_SLOW):  # now and then is no reason
        trial.has_run(500e-6)
        trial.has_run(60e-6)
    assert trial.is_settled
    runs = 0
    while trial.is_settled:
        trial.has_run(500e-6)
        runs += 1
    assert runs == MOST_SLOW + 1
    while not trial.is_settled:
        trial.note(steadily(100e-6, 400e-6, 500e-6)(trial.way, 0))
    assert trial.way is Way.ALONE


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
