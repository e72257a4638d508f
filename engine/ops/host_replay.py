"""A recording of host operations, and in which way it runs.

A pass of a small model lasts some hundred microseconds: handing parts of its operations to other
threads may gain a little, or lose where other programs (our own server among them) want the cores.
One over several sequences can also be cut between them, so that threads meet only at its end; then
each reads all weights, which pays where these lie in caches. So short recordings try all ways, and
leave the calling thread only where that gains a tenth. Bits do not depend on it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable

from engine.ops.host_recording import RecordedCalls
from engine.ops.host_runner import ListRunner, Sides, Way
from engine.ops.recording import Recording

SHORT_S = 1e-3  # recordings that take longer always share each operation
LEAST_GAIN = 1.1
TRIED = 8  # runs of each way
IN_A_ROW = 4  # of them: other threads sleep when they have had nothing to do for a few runs
COUNTED = 2  # of them, ordered by time: a chance interruption does not count, a usual one does
# After so many runs all ways are tried anew, since who else wants the cores changes; each time that
# nothing has changed, twice as many.
FIRST_LASTS, MOST_LASTS = 96, 8192
# More runs in sides that the calling thread alone would have made quicker, than others: somebody else
# wants the cores now, and it is found out at once.
MOST_SLOW = 24
MOST_CUTS = 64  # of which a recording keeps the sides


class ThreadTrial:
    """Finds out in which way some calls run quickest.

    Args:
        ways: what there is to choose from; the first is for calls that take long.

    Attributes:
        is_settled: it has been found out.
        way: what was found, or what the next run should do.
    """

    __slots__ = (
        *("_alone_s", "_is_warm", "_lasts", "_num_runs", "_num_slow", "_seconds", "_settled_on"),
        *("is_settled", "way"),
    )

    def __init__(self, ways: tuple[Way, ...] = (Way.TOGETHER, Way.ALONE)) -> None:
        self.is_settled = False
        self.way = ways[0]
        self._is_warm = False
        self._seconds: dict[Way, list[float]] = {way: [] for way in ways}
        self._settled_on: Way | None = None
        self._lasts = FIRST_LASTS
        self._num_runs = 0  # since it is settled
        self._num_slow = 0  # of them, less the others
        self._alone_s = 0.0  # as was usual when it was tried

    def note(self, seconds: float) -> None:
        """A run in the way that was asked for has taken so long."""
        if self.is_settled:
            return
        if not self._is_warm:  # the first run found cold caches
            self._is_warm = True
            return
        seen = self._seconds
        seen[self.way].append(seconds)
        if len(seen[self.way]) % IN_A_ROW:
            return
        if self.way is Way.TOGETHER and min(seen[self.way]) > SHORT_S:
            self._settle(Way.TOGETHER)
            return
        self.way = min(seen, key=lambda way: len(seen[way]))
        if len(seen[self.way]) < TRIED:
            return
        usual = {way: sorted(times)[COUNTED] for way, times in seen.items()}
        best = min(usual, key=usual.__getitem__)
        self._alone_s = usual[Way.ALONE]
        self._settle(Way.ALONE if usual[Way.ALONE] <= LEAST_GAIN * usual[best] else best)

    def has_run(self, seconds: float) -> None:
        """One more run since it was found out; `seconds` of one in sides, else 0."""
        self._num_runs += 1
        self._num_slow = (
            self._num_slow + 1 if seconds > self._alone_s else max(0, self._num_slow - 1)
        )
        if self._num_runs >= self._lasts or self._num_slow > MOST_SLOW:
            self.is_settled = False
            self.way = next(iter(self._seconds))

    def _settle(self, way: Way) -> None:
        self._lasts = min(2 * self._lasts, MOST_LASTS) if way is self._settled_on else FIRST_LASTS
        self.way = self._settled_on = way
        self.is_settled = True
        self._num_runs = self._num_slow = 0
        for times in self._seconds.values():
            times.clear()


class HostRecording(Recording):
    """A recording that the library runs; it keeps its operations alive.

    Args:
        runner: runs lists.
        calls: the list.
        num_threads: of the runner; one leaves nothing to try.
        new_sides: makes the lists of sides when they are tried for the first time where a pass is cut
            so; None = the recording has none.
        clock: seconds.
    """

    def __init__(
        self,
        runner: ListRunner,
        calls: RecordedCalls,
        num_threads: int,
        new_sides: Callable[[Hashable], Sides] | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._runner = runner
        self._calls = calls
        self._num_threads = num_threads
        self._new_sides = new_sides
        self._cuts: Hashable = None
        self._sides: dict[Hashable, Sides] = {}  # by cuts
        self._clock = clock
        self._trials: dict[tuple[int, int], ThreadTrial] = {}

    def cut(self, cuts: Hashable) -> None:
        """Where the runs that follow are cut if they are run in sides; trials count for all cuts."""
        self._cuts = cuts

    def run(self, first: int, stop: int) -> None:
        """Run parts in one call."""
        if self._num_threads == 1:
            self._runner.together(self._calls, first, stop)
            return
        trial = self._trials.get((first, stop))
        if trial is None:
            ways = (Way.TOGETHER, Way.ALONE)
            trial = ThreadTrial(ways if self._new_sides is None else (*ways, Way.SIDES))
            self._trials[first, stop] = trial
        if trial.is_settled and trial.way is not Way.SIDES:
            trial.has_run(0.0)
            self._run(trial.way, first, stop)
            return
        if trial.way is Way.SIDES:
            self._prepared()
        began_at = self._clock()
        self._run(trial.way, first, stop)
        seconds = self._clock() - began_at
        if trial.is_settled:
            trial.has_run(seconds)
        else:
            trial.note(seconds)

    def _prepared(self) -> Sides:
        sides = self._sides.get(self._cuts)
        if sides is None:
            if self._new_sides is None:
                raise RuntimeError("a recording without sides cannot be run in sides")
            if len(self._sides) >= MOST_CUTS:
                self._sides.clear()
            sides = self._sides[self._cuts] = self._new_sides(self._cuts)
        return sides

    def _run(self, way: Way, first: int, stop: int) -> None:
        if way is Way.ALONE:
            self._runner.alone(self._calls, first, stop)
        elif way is Way.TOGETHER:
            self._runner.together(self._calls, first, stop)
        else:
            self._runner.sides(self._prepared(), first, stop)
