"""Notices that a graphics card gives no answer any more, in a thread of its own, and says where.

A call that waits for a hung card or driver never returns, so the thread that computes cannot say anything
itself. This one looks where that thread is: when it stays within `engine/device` without having finished a
layer or a pass for `limit_s`, the card is taken for stalled. Work of the processor and of the disk, which
may take long, is not in there. The worker then reports and ends; the front starts it again.

    watch = StallWatch(on_stall)
    watch.start()           # in the thread that computes
    watch.beat()            # after each layer, and whenever it waits for commands
"""

from __future__ import annotations

import logging
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from types import FrameType

logger = logging.getLogger(__name__)

LIMIT_S = (
    60.0  # the longest layer of a prompt takes a few seconds; the front loses patience at 120 s
)
LOOK_EVERY_S = 1.0
_DEVICE_FOLDER = str(Path(__file__).resolve().parents[1] / "device")


class StallWatch:
    """Watches one thread.

    Args:
        on_stall: called once, in the watching thread, with the seconds that nothing has come.
        limit_s: how long the card may be silent.
        look_every_s: between two looks.
    """

    def __init__(
        self,
        on_stall: Callable[[float], None],
        limit_s: float = LIMIT_S,
        look_every_s: float = LOOK_EVERY_S,
    ) -> None:
        self._on_stall = on_stall
        self._limit_s = limit_s
        self._look_every_s = look_every_s
        self._beats = 0
        self._watched = 0
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="card", daemon=True)

    def start(self) -> None:
        """Begin to watch the calling thread."""
        self._watched = threading.get_ident()
        self._thread.start()

    def beat(self) -> None:
        """Something was done."""
        self._beats += 1

    def close(self) -> None:
        """Look no more; idempotent."""
        self._end.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        beats, silent_s, looked_at = -1, 0.0, time.monotonic()
        while not self._end.wait(self._look_every_s):
            frame = sys._current_frames().get(self._watched)
            if beats != self._beats or frame is None or not _is_in_device(frame):
                beats, silent_s, looked_at = self._beats, 0.0, time.monotonic()
                continue
            now = time.monotonic()
            # On Windows this clock goes on while the PC sleeps: that is no silence of the card.
            silent_s += min(now - looked_at, 2 * self._look_every_s)
            looked_at = now
            if silent_s > self._limit_s:
                stack = "".join(traceback.format_stack(frame))
                logger.critical(
                    "no answer of the card for %.0f s, waiting in:\n%s", silent_s, stack
                )
                self._on_stall(silent_s)
                return
            del frame  # it holds everything that the thread computes with


def _is_in_device(frame: FrameType | None) -> bool:
    """Whether the thread is in a call of a device."""
    while frame is not None:
        if frame.f_code.co_filename.startswith(_DEVICE_FOLDER):
            return True
        frame = frame.f_back
    return False
