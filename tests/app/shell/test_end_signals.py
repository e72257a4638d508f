"""Being asked to end from outside is heard at once, also while nothing happens in the window."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from typing import cast

import pytest
from PySide6.QtGui import QSessionManager

from app.end_signals import EndSignals
from tests.app.shell.conftest import PATIENCE_MS


@pytest.fixture
def end_signals(qapp) -> Iterator[EndSignals]:
    made = EndSignals(qapp)
    yield made
    made.close()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows sends no such signals")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_is_heard_by_an_idle_window(qtbot, end_signals, number):
    with qtbot.waitSignal(end_signals.wanted, timeout=PATIENCE_MS):
        os.kill(os.getpid(), number)


def test_afterwards_signals_do_what_they_did_before(qapp):
    before = signal.getsignal(signal.SIGINT)
    made = EndSignals(qapp)
    assert signal.getsignal(signal.SIGINT) != before
    made.close()
    assert signal.getsignal(signal.SIGINT) == before


def test_the_end_of_the_session_is_heard_and_the_desktop_does_not_start_us_again(
    qtbot, end_signals
):
    class Desktop:
        hint = QSessionManager.RestartHint.RestartIfRunning

        def setRestartHint(self, hint):  # noqa: N802  # Qt's name
            self.hint = hint

    manager = Desktop()
    with qtbot.waitSignal(end_signals.wanted, timeout=PATIENCE_MS):
        end_signals._session_ends(cast("QSessionManager", manager))
    assert manager.hint is QSessionManager.RestartHint.RestartNever
