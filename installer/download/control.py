"""Pause, stop, cancel and the rate limit: what other threads ask of a running download.

The thread that downloads calls `check` between two chunks; a thread that waits for bytes is woken by
closing its connection (`interruptible`).
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator

from installer.errors import CancelledError, StoppedError


class InterruptedTransferError(Exception):
    """A pause, stop or cancel was asked for while bytes were awaited."""


class Control:
    """Requests to one download. All methods may be called from any thread."""

    def __init__(self, max_bytes_per_s: float | None = None) -> None:
        self._condition = threading.Condition()
        self._is_paused = False
        self._is_stopped = False
        self._is_cancelled = False
        self._closer: Callable[[], None] | None = None
        self._max_bytes_per_s = max_bytes_per_s
        self._next_free = 0.0  # when the rate limit lets the next bytes through

    def pause(self) -> None:
        """Stop transferring until `resume`; what was fetched is kept."""
        with self._condition:
            self._is_paused = True
            self._wake()

    def resume(self) -> None:
        """Go on after a pause."""
        with self._condition:
            self._is_paused = False
            self._wake()

    def stop(self) -> None:
        """End the download; what was fetched is kept for the next start."""
        with self._condition:
            self._is_stopped = True
            self._wake()

    def cancel(self) -> None:
        """End the download and delete its parts."""
        with self._condition:
            self._is_stopped = self._is_cancelled = True
            self._wake()

    def set_rate_limit(self, max_bytes_per_s: float | None) -> None:
        """Change the rate limit; None: none."""
        with self._condition:
            self._max_bytes_per_s = max_bytes_per_s
            self._next_free = 0.0
            self._condition.notify_all()

    @property
    def is_paused(self) -> bool:
        """Whether a pause was asked for."""
        return self._is_paused

    def check(self) -> None:
        """Go on, or raise.

        Raises:
            StoppedError: stop was asked for (`CancelledError`: cancel).
            InterruptedTransferError: a pause was asked for.
        """
        self.check_stopped()
        if self._is_paused:
            raise InterruptedTransferError

    def check_stopped(self) -> None:
        """Like `check`, but a pause does not matter."""
        if self._is_cancelled:
            raise CancelledError("The download was cancelled, and what was fetched is deleted.")
        if self._is_stopped:
            raise StoppedError(
                "The download was stopped. Start it again and it goes on from there."
            )

    def wait_while_paused(self) -> None:
        """Return when there is no pause (any more).

        Raises:
            StoppedError: stop or cancel was asked for.
        """
        with self._condition:
            while self._is_paused and not self._is_stopped:
                self._condition.wait()
        self.check_stopped()

    def sleep(self, seconds: float) -> None:
        """Wait, unless something is asked for meanwhile."""
        deadline = time.monotonic() + seconds
        with self._condition:
            while not (self._is_paused or self._is_stopped):
                left = deadline - time.monotonic()
                if left <= 0:
                    return
                self._condition.wait(left)

    def throttle(self, num_bytes: int) -> None:
        """Wait so long that the rate limit holds after `num_bytes` arrived."""
        limit = self._max_bytes_per_s
        if limit is None:
            return
        now = time.monotonic()
        self._next_free = max(self._next_free, now) + num_bytes / limit
        if self._next_free - now > 0.01:
            self.sleep(self._next_free - now)

    @contextlib.contextmanager
    def interruptible(self, closer: Callable[[], None]) -> Iterator[None]:
        """Call `closer` from the asking thread when something is asked for inside the block."""
        with self._condition:
            self._closer = closer
            asked = self._is_paused or self._is_stopped
        try:
            if asked:
                self.check()
            yield
        finally:
            with self._condition:
                self._closer = None

    def _wake(self) -> None:
        self._condition.notify_all()
        if self._closer is not None and (self._is_paused or self._is_stopped):
            self._closer()
