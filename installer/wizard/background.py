"""Work off the main thread: the work reports, and the window hears of it on its own thread.

    run_in_background(self, work, on_success=self._show, on_failure=self._say, on_progress=self._bar)

`work` is called in a thread with one argument, a function that takes reports; it may touch no widget.
The other functions are called on the main thread, and no longer once `owner` has gone.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable
from typing import TypeVar, cast

from PySide6.QtCore import QObject, Qt, Signal, Slot

from engine.core.errors import EngineError
from installer.errors import InstallError

logger = logging.getLogger(__name__)

_P = TypeVar("_P")
_R = TypeVar("_R")

Report = Callable[[_P], None]


class UnexpectedError(InstallError):
    """A fault of ours; its traceback is in the log."""

    code = "unexpected"


def unexpected(error: BaseException) -> UnexpectedError:
    """A fault of ours as a sentence."""
    reason = f"{type(error).__name__}: {error}"
    return UnexpectedError(
        f"Something unexpected happened ({reason}). Try again; the log has the details.",
        params={"reason": reason},
    )


class _Relay(QObject):
    """Carries results from the thread to the main thread.

    Signals:
        progressed, succeeded, failed: with what the work said.
    """

    progressed = Signal(object)
    succeeded = Signal(object)
    failed = Signal(object)

    def __init__(
        self,
        owner: QObject,
        on_progress: Callable[[object], None],
        on_success: Callable[[object], None],
        on_failure: Callable[[EngineError], None],
    ) -> None:
        super().__init__(owner)
        self._on_progress = on_progress
        self._on_success = on_success
        self._on_failure = on_failure
        queued = Qt.ConnectionType.QueuedConnection
        self.progressed.connect(self._progress, queued)
        self.succeeded.connect(self._succeed, queued)
        self.failed.connect(self._fail, queued)

    @Slot(object)
    def _progress(self, report: object) -> None:
        self._on_progress(report)

    @Slot(object)
    def _succeed(self, result: object) -> None:
        self.deleteLater()
        self._on_success(result)

    @Slot(object)
    def _fail(self, error: object) -> None:
        self.deleteLater()
        self._on_failure(cast("EngineError", error))


def _ignore(_report: object) -> None:
    """Reports that nobody wants."""


def _emit(relay: _Relay, signal: str, value: object) -> None:
    # The window may have gone meanwhile, and the relay with it: then nobody listens.
    with contextlib.suppress(RuntimeError):
        getattr(relay, signal).emit(value)


def run_in_background(
    owner: QObject,
    work: Callable[[Report[_P]], _R],
    *,
    on_success: Callable[[_R], None],
    on_failure: Callable[[EngineError], None],
    on_progress: Callable[[_P], None] = _ignore,
) -> threading.Thread:
    """Start `work` in a thread of its own; the thread, for whoever must wait for its end."""
    relay = _Relay(
        owner,
        cast("Callable[[object], None]", on_progress),
        cast("Callable[[object], None]", on_success),
        on_failure,
    )

    def report(progress: _P) -> None:
        _emit(relay, "progressed", progress)

    def run() -> None:
        try:
            result = work(report)
        except EngineError as error:
            _emit(relay, "failed", error)
        except Exception as error:
            logger.exception("the work in the background failed")
            _emit(relay, "failed", unexpected(error))
        else:
            _emit(relay, "succeeded", result)

    # A daemon: what it does is safe to leave at any moment, and must not hold up the program's end.
    thread = threading.Thread(target=run, name="wizard-work", daemon=True)
    thread.start()
    return thread
