"""Being asked to end from outside (Ctrl-C, SIGTERM, the end of the session), as one Qt signal.

Python runs a signal's handler only between two of its own instructions, and an idle window executes
none: so the signal's number is written to a socket that Qt watches.
"""

from __future__ import annotations

import contextlib
import logging
import signal
import socket
from types import FrameType

from PySide6.QtCore import QObject, QSocketNotifier, Signal
from PySide6.QtGui import QGuiApplication, QSessionManager

logger = logging.getLogger(__name__)

_NAMES = ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK")


class EndSignals(QObject):
    """Hears all of it.

    Signals:
        wanted: the program should end.
    """

    wanted = Signal()

    def __init__(self, app: QGuiApplication) -> None:
        super().__init__(app)
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)
        self._notifier = QSocketNotifier(self._reader.fileno(), QSocketNotifier.Type.Read, self)
        self._notifier.activated.connect(self._woken)
        signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        self._before = {
            number: signal.signal(number, self._handle)
            for number in (getattr(signal, name, None) for name in _NAMES)
            if number is not None
        }
        # The desktop ends its session. It waits for no one long: the engine is told at once.
        app.commitDataRequest.connect(self._session_ends)

    def close(self) -> None:
        """Hear nothing any more: signals do what they did before."""
        self._notifier.setEnabled(False)
        signal.set_wakeup_fd(-1)
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._reader.close()
        self._writer.close()

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        logger.info("asked to end by signal %d", number)
        self.wanted.emit()

    def _woken(self) -> None:
        # Being here is enough: Python has run `_handle` on the way.
        with contextlib.suppress(BlockingIOError):
            self._reader.recv(64)

    def _session_ends(self, manager: QSessionManager) -> None:
        logger.info("asked to end by the end of the session")
        manager.setRestartHint(QSessionManager.RestartHint.RestartNever)
        self.wanted.emit()
