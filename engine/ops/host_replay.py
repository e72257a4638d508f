"""A recording of host operations, and on how many threads it runs.

A pass of a small model lasts some hundred microseconds: handing parts of it to other threads may gain a
little, or lose where other programs (our own server among them) want the cores. So short recordings try
both, and take all threads only where that gains a tenth. Bits do not depend on threads.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from engine.ops.recording import Recording

if TYPE_CHECKING:
    from engine.ops.host import HostOps
    from engine.ops.host_recording import RecordedCalls

SHORT_S = 1e-3  # recordings that take longer always use all threads
LEAST_GAIN = 1.1
TRIED = 6  # runs of each kind, of which the fastest counts; the first of each finds cold caches


class ThreadTrial:
    """Whether some calls are run by the calling thread alone.

    Attributes:
        is_settled: it has been found out.
        is_alone: what was found, or what the next run should do.
    """

    __slots__ = ("_alone", "_num_runs", "_together", "is_alone", "is_settled")

    def __init__(self) -> None:
        self.is_settled = False
        self.is_alone = False
        self._num_runs = 0
        self._together: list[float] = []
        self._alone: list[float] = []

    def note(self, seconds: float) -> None:
        """A run as `is_alone` said has taken so long."""
        if self.is_settled:
            return
        self._num_runs += 1
        if self._num_runs == 1:  # everything is cold
            return
        (self._alone if self.is_alone else self._together).append(seconds)
        if seconds > SHORT_S and not self.is_alone:
            self.is_settled = True
            return
        if len(self._alone) + len(self._together) < 2 * TRIED:
            self.is_alone = not self.is_alone
            return
        self.is_settled = True
        self.is_alone = min(self._alone) <= LEAST_GAIN * min(self._together)


class HostRecording(Recording):
    """A recording that the library runs; it keeps its operations alive."""

    def __init__(
        self,
        ops: HostOps,
        calls: RecordedCalls,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._ops = ops
        self._calls = calls
        self._clock = clock
        self._trials: dict[tuple[int, int], ThreadTrial] = {}

    def run(self, first: int, stop: int) -> None:
        """Run parts in one call."""
        if self._ops.num_threads == 1:
            self._ops.run_recorded(self._calls, first, stop)
            return
        trial = self._trials.get((first, stop))
        if trial is None:
            trial = self._trials[first, stop] = ThreadTrial()
        if trial.is_settled:
            self._ops.run_recorded(self._calls, first, stop, is_alone=trial.is_alone)
            return
        began_at = self._clock()
        self._ops.run_recorded(self._calls, first, stop, is_alone=trial.is_alone)
        trial.note(self._clock() - began_at)
