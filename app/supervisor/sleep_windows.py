"""Sleep on Windows: WM_POWERBROADCAST, which tells and cannot be delayed."""

from __future__ import annotations

import enum
from ctypes import wintypes

from PySide6.QtCore import QAbstractNativeEventFilter, QByteArray, QCoreApplication, QObject

from app.supervisor.sleep_watch import SleepWatch

_WM_POWERBROADCAST = 0x0218
_APM_SUSPEND = 0x0004
_APM_RESUME_SUSPEND = 0x0007
_APM_RESUME_AUTOMATIC = 0x0012


class PowerEvent(enum.Enum):
    """What Windows says."""

    SUSPENDING = enum.auto()
    RESUMED = enum.auto()


def power_event(message: int, word: int) -> PowerEvent | None:
    """The event in a window message; None for any other message."""
    if message != _WM_POWERBROADCAST:
        return None
    if word == _APM_SUSPEND:
        return PowerEvent.SUSPENDING
    # The first comes always, the second also when a person has woken the PC.
    return PowerEvent.RESUMED if word in {_APM_RESUME_AUTOMATIC, _APM_RESUME_SUSPEND} else None


class _PowerFilter(QAbstractNativeEventFilter):
    """Windows' messages to all windows of this program."""

    def __init__(self, watch: WindowsWatch) -> None:
        super().__init__()
        self._watch = watch

    def nativeEventFilter(  # noqa: N802  # Qt's name
        self, event_type: QByteArray | bytes | bytearray | memoryview, message: int
    ) -> tuple[bool, int]:
        """Look at a message and let it pass."""
        if bytes(QByteArray(event_type).data()).startswith(b"windows"):
            found = wintypes.MSG.from_address(int(message))
            self._watch.take(power_event(int(found.message), int(found.wParam)))
        return False, 0


class WindowsWatch(SleepWatch):
    """This program's windows."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._is_asleep = False
        self._filter = _PowerFilter(self)
        application = QCoreApplication.instance()
        if application is not None:
            application.installNativeEventFilter(self._filter)

    def take(self, event: PowerEvent | None) -> None:
        """Tell of an event; every window gets it, so most come several times."""
        if event is PowerEvent.SUSPENDING and not self._is_asleep:
            self._is_asleep = True
            self.suspending.emit()
        elif event is PowerEvent.RESUMED and self._is_asleep:
            self._is_asleep = False
            self.resumed.emit()

    def close(self) -> None:
        """Hear nothing more."""
        application = QCoreApplication.instance()
        if application is not None:
            application.removeNativeEventFilter(self._filter)
