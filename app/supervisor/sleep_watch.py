"""Hears that the PC is about to sleep, and that it has slept.

watch = sleep_watch(parent)          # the way of this system; silent where there is none
watch.suspending.connect(...)        # give the memory back, then call `allow`
watch.resumed.connect(...)
"""

from __future__ import annotations

import sys

from PySide6.QtCore import QObject, Signal


class SleepWatch(QObject):
    """One way to hear of it; this one hears nothing.

    Signals:
        suspending: the PC is about to sleep; `allow` says that it may.
        resumed: it has slept.
    """

    suspending = Signal()
    resumed = Signal()

    def allow(self) -> None:
        """Let the PC sleep now."""

    def close(self) -> None:
        """Hear nothing more."""


def sleep_watch(parent: QObject | None = None) -> SleepWatch:
    """The way of this system."""
    if sys.platform == "win32":
        from app.supervisor.sleep_windows import WindowsWatch  # noqa: PLC0415  # needed there only

        return WindowsWatch(parent)
    from app.supervisor.sleep_linux import logind_watch  # noqa: PLC0415  # the same

    return logind_watch(parent)
