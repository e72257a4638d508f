"""Notices that memory runs low, in a thread of its own, and has the worker give caches back.

    guard = MemoryGuard(system_watch(), wake=...)
    guard.start()
    if guard.take_alarm(): caches.release()      # in the thread that computes

The thread only looks; `wake` makes a worker with nothing to do look at the alarm.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from engine.core.memory_pressure import MemoryWatch

logger = logging.getLogger(__name__)

LOOK_EVERY_S = 2.0
REST_S = 10.0  # after an alarm: what was given back must show first


class MemoryGuard:
    """Watches.

    Args:
        watch: looks at the memory.
        wake: called in the watching thread after an alarm.
        look_every_s: between two looks.
        rest_s: after an alarm.
    """

    def __init__(
        self,
        watch: MemoryWatch,
        wake: Callable[[], None],
        look_every_s: float = LOOK_EVERY_S,
        rest_s: float = REST_S,
    ) -> None:
        self._watch = watch
        self._wake = wake
        self._look_every_s = look_every_s
        self._rest_s = rest_s
        self._alarm = threading.Event()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="memory", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def take_alarm(self) -> bool:
        """Whether memory was found low since the last call."""
        if not self._alarm.is_set():
            return False
        self._alarm.clear()
        return True

    def close(self) -> None:
        """Stop looking."""
        self._end.set()

    def _run(self) -> None:
        wait_s = self._look_every_s
        while not self._end.wait(wait_s):
            wait_s = self._look_every_s
            try:
                is_low = self._watch.is_low()
            except Exception:
                logger.exception("the memory cannot be watched any more")
                return
            if is_low:
                self._alarm.set()
                self._wake()
                wait_s = self._rest_s
