"""Sleep on Linux: logind's signal over the system's message bus.

A lock of ours delays the sleep for the few seconds that the system allows, until `allow`.
"""

from __future__ import annotations

import contextlib
import logging
import os
from typing import Any

from PySide6.QtCore import SLOT, QObject, Slot
from PySide6.QtDBus import (
    QDBusConnection,
    QDBusMessage,
    QDBusPendingCallWatcher,
    QDBusUnixFileDescriptor,
)

from app.supervisor.sleep_watch import SleepWatch

logger = logging.getLogger(__name__)

_SERVICE = "org.freedesktop.login1"
_PATH = "/org/freedesktop/login1"
_INTERFACE = "org.freedesktop.login1.Manager"
_SIGNAL = "PrepareForSleep"
# A str, whatever the stubs say: bytes are refused (PySide 6.12).
_SLOT: Any = SLOT("_prepare(bool)")


class LogindWatch(SleepWatch):
    """One connection to logind."""

    def __init__(self, bus: QDBusConnection, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._bus = bus
        self._lock: int | None = None
        self._call: QDBusPendingCallWatcher | None = None
        if not bus.connect(_SERVICE, _PATH, _INTERFACE, _SIGNAL, self, _SLOT):
            logger.info("logind does not say when the PC sleeps")
        self._delay()

    def allow(self) -> None:
        """Let the PC sleep now."""
        lock, self._lock = self._lock, None
        if lock is not None:
            with contextlib.suppress(OSError):
                os.close(lock)

    def close(self) -> None:
        """Hear nothing more."""
        self._bus.disconnect(_SERVICE, _PATH, _INTERFACE, _SIGNAL, self, _SLOT)
        self._call = None
        self.allow()

    @Slot(bool)
    def _prepare(self, begins: bool) -> None:  # logind's signal
        if begins:
            self.suspending.emit()
        else:
            self.resumed.emit()
            self._delay()

    def _delay(self) -> None:
        """Ask for a lock that gives us time before the next sleep."""
        message = QDBusMessage.createMethodCall(_SERVICE, _PATH, _INTERFACE, "Inhibit")
        message.setArguments(["sleep", "Stratum", "The model gives its memory back", "delay"])
        self._call = QDBusPendingCallWatcher(self._bus.asyncCall(message), self)
        self._call.finished.connect(self._hold)

    @Slot(QDBusPendingCallWatcher)
    def _hold(self, call: QDBusPendingCallWatcher) -> None:
        if call is not self._call:
            return
        self._call = None
        call.deleteLater()
        arguments = [] if call.isError() else call.reply().arguments()
        if arguments and isinstance(arguments[0], QDBusUnixFileDescriptor):
            self.allow()  # an older one
            self._lock = os.dup(arguments[0].fileDescriptor())
        else:
            logger.info("sleep is not delayed: %s", call.error().message())


def logind_watch(parent: QObject | None = None) -> SleepWatch:
    """A watch on this system's logind; a silent one where there is no bus."""
    bus = QDBusConnection.systemBus()
    if not bus.isConnected():
        logger.info("without a system bus only the clock tells that the PC has slept")
        return SleepWatch(parent)
    return LogindWatch(bus, parent)
