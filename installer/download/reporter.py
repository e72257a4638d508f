"""Keeps the figures of a download and reports them some times a second."""

from __future__ import annotations

import time

from installer.download.control import Control
from installer.download.progress import DownloadProgress, Phase, ProgressCallback, SpeedMeter

_PERIOD_S = 0.1


class Reporter:
    """Called by the thread that downloads."""

    def __init__(self, callback: ProgressCallback | None, bytes_total: int = 0) -> None:
        self._callback = callback
        self._meter = SpeedMeter()
        self._phase = Phase.LISTING
        self._file = ""
        self._file_done = 0
        self._file_total = 0
        self._done = 0
        self._total = bytes_total
        self._last = 0.0

    def set_total(self, bytes_total: int, bytes_done: int) -> None:
        """Say what the plan fetches, and what of it earlier starts have fetched."""
        self._total, self._done = bytes_total, bytes_done

    def correct_total(self, more_bytes: int) -> None:
        """An estimate of the plan was so much too small, or too large."""
        self._total = max(self._done, self._total + more_bytes)

    def begin(self, phase: Phase, file: str, file_bytes: int, file_done: int = 0) -> None:
        """A file, or another phase of it, begins."""
        self._phase, self._file = phase, file
        self._file_done, self._file_total = file_done, file_bytes
        self._emit(force=True)

    def read(self, num_bytes: int) -> None:
        """Bytes of a file that is there were read."""
        self._file_done += num_bytes
        self._emit()

    def received(self, num_bytes: int) -> None:
        """Bytes arrived."""
        if self._phase is not Phase.DOWNLOADING:
            self._phase = Phase.DOWNLOADING
        self._file_done += num_bytes
        self._done += num_bytes
        self._meter.add(num_bytes)
        self._emit()

    def moved(self, num_bytes: int) -> None:
        """Bytes of a file are in another folder now."""
        self._file_done += num_bytes
        self._done += num_bytes
        self._meter.add(num_bytes)
        self._emit()

    def take_back(self, num_bytes: int) -> None:
        """Bytes that arrived must be fetched again."""
        self._file_done = max(0, self._file_done - num_bytes)
        self._done = max(0, self._done - num_bytes)

    def built(self, done: int, total: int) -> None:
        """So much of a file was made."""
        self._file_done, self._file_total = done, total
        self._emit()

    def state(self, phase: Phase) -> None:
        """Another phase of the same file."""
        self._phase = phase
        self._emit(force=True)

    def resumed(self) -> None:
        """A pause ended."""
        self._meter.reset()
        self.state(Phase.DOWNLOADING)

    def waiting(
        self, seconds: float, reason: str, attempt: int, max_attempts: int, control: Control
    ) -> None:
        """Count down to the next try; returns early when something is asked for."""
        before, self._phase = self._phase, Phase.WAITING
        self._meter.reset()
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            self._emit(
                force=True, wait_s=left, reason=reason, attempt=attempt, max_attempts=max_attempts
            )
            started = time.monotonic()
            control.sleep(min(1.0, left))
            if time.monotonic() - started < min(1.0, left) * 0.5:
                break  # something was asked for
        self._phase = before

    def done(self) -> None:
        """All is there."""
        self._phase, self._file = Phase.DONE, ""
        self._file_done = self._file_total = 0
        self._emit(force=True)

    def _emit(
        self,
        *,
        force: bool = False,
        wait_s: float = 0.0,
        reason: str = "",
        attempt: int = 0,
        max_attempts: int = 0,
    ) -> None:
        now = time.monotonic()
        if self._callback is None or (not force and now - self._last < _PERIOD_S):
            return
        self._last = now
        speed = self._meter.bytes_per_s if self._phase is Phase.DOWNLOADING else 0.0
        missing = self._total - self._done
        self._callback(
            DownloadProgress(
                phase=self._phase,
                file=self._file,
                file_bytes_done=self._file_done,
                file_bytes_total=self._file_total,
                bytes_done=self._done,
                bytes_total=self._total,
                bytes_per_s=speed,
                eta_s=missing / speed if speed > 0 else None,
                wait_s=wait_s,
                reason=reason,
                attempt=attempt,
                max_attempts=max_attempts,
            )
        )
