"""What a download reports while it runs."""

from __future__ import annotations

import enum
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

_SPEED_WINDOW_S = 10.0


class Phase(enum.StrEnum):
    """What is being done."""

    LISTING = "listing"  # the hub is asked for sizes and checksums
    CHECKING = "checking"  # files that are already there are read
    DOWNLOADING = "downloading"
    VERIFYING = "verifying"
    WAITING = "waiting"  # for the next try
    PAUSED = "paused"
    PREPARING = "preparing"  # the draft head is quantised
    MOVING = "moving"  # to another folder
    DONE = "done"


@dataclass(frozen=True, slots=True)
class DownloadProgress:
    """A snapshot.

    Attributes:
        phase: what is being done.
        file: name of the file that it is done to; empty when none.
        file_bytes_done: of that file, in this phase.
        file_bytes_total: its size.
        bytes_done: of all files that the plan fetches, parts of earlier starts included.
        bytes_total: of all files that the plan fetches.
        bytes_per_s: speed over the last ten seconds; 0 while nothing arrives.
        eta_s: until all is fetched; None while unknown.
        wait_s: seconds until the next try, in phase `waiting`.
        reason: code of the error that is waited for, such as `stalled` or `hub_busy`.
        attempt: number of the try that failed last, from 1; 0 when none did.
        max_attempts: after so many tries without progress the download gives up.
    """

    phase: Phase
    file: str = ""
    file_bytes_done: int = 0
    file_bytes_total: int = 0
    bytes_done: int = 0
    bytes_total: int = 0
    bytes_per_s: float = 0.0
    eta_s: float | None = None
    wait_s: float = 0.0
    reason: str = ""
    attempt: int = 0
    max_attempts: int = 0


ProgressCallback = Callable[[DownloadProgress], None]


class SpeedMeter:
    """Bytes a second over the last seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._samples: deque[tuple[float, int]] = deque()
        self._total = 0

    def add(self, num_bytes: int) -> None:
        """Count what just arrived."""
        self._total += num_bytes
        now = self._clock()
        if not self._samples or now - self._samples[-1][0] >= 0.1:
            self._samples.append((now, self._total))
        while now - self._samples[0][0] > _SPEED_WINDOW_S and len(self._samples) > 2:
            self._samples.popleft()

    def reset(self) -> None:
        """Forget the past: after a pause the old speed says nothing."""
        self._samples.clear()

    @property
    def bytes_per_s(self) -> float:
        """The speed now."""
        if len(self._samples) < 2:
            return 0.0
        start, before = self._samples[0]
        elapsed = self._clock() - start
        return (self._total - before) / elapsed if elapsed > 0 else 0.0
