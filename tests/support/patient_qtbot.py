"""A QtBot that waits a minute for what a test names: pytest-qt's five seconds are few on a busy machine."""

from collections.abc import Callable
from typing import Any

from pytestqt.qtbot import QtBot
from pytestqt.wait_signal import SignalBlocker

PATIENCE_MS = 60_000


class PatientQtBot(QtBot):
    """The QtBot of all tests."""

    def waitUntil(  # noqa: N802  # pytest-qt's name
        self, callback: Callable[[], bool | None], *, timeout: int = PATIENCE_MS
    ) -> None:
        super().waitUntil(callback, timeout=timeout)

    def waitSignal(  # noqa: N802  # the same
        self, signal: Any, *, timeout: int = PATIENCE_MS, **options: Any
    ) -> SignalBlocker:
        return super().waitSignal(signal, timeout=timeout, **options)

    def waitExposed(self, widget: Any, *, timeout: int = PATIENCE_MS) -> Any:  # noqa: N802  # the same
        return super().waitExposed(widget, timeout=timeout)
