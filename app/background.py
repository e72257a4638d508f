"""Work off the main thread: the one helper for it.

    self._operation = in_background(
        self, work, on_success=self._show, on_failure=self._say, on_progress=self._bar
    )
    ...
    self._operation.cancel()

`work` is called in a thread with one argument, the `Task`: it reports progress through it and may ask
whether it was cancelled. It may touch no widget. The other functions are called on the main thread,
and no longer once the operation is cancelled or `owner` has gone.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable
from typing import Generic, TypeVar, cast

from PySide6.QtCore import QObject, Qt, Signal, Slot

from engine.core.errors import EngineError

logger = logging.getLogger(__name__)

_P = TypeVar("_P")
_R = TypeVar("_R")


class OperationCancelled(Exception):  # noqa: N818  # no fault: the work was asked to end
    """Raised inside the work by `Task.check`."""


class UnexpectedError(EngineError):
    """A fault of ours; its traceback is in the log."""

    code = "unexpected"


def unexpected(error: BaseException) -> UnexpectedError:
    """A fault of ours as a sentence."""
    reason = f"{type(error).__name__}: {error}"
    return UnexpectedError(
        f"Something unexpected happened ({reason}). Try again; the log has the details.",
        params={"reason": reason},
    )


class Task(Generic[_P]):
    """What the work sees of its operation. All of it may be used from the work's thread."""

    def __init__(self, report: Callable[[_P], None]) -> None:
        self._report = report
        self._cancelled = threading.Event()

    @property
    def is_cancelled(self) -> bool:
        """Whether the result is no longer wanted."""
        return self._cancelled.is_set()

    def check(self) -> None:
        """Leave the work when it was cancelled.

        Raises:
            OperationCancelled: it was.
        """
        if self._cancelled.is_set():
            raise OperationCancelled

    def wait(self, seconds: float) -> bool:
        """Sleep, but not past a cancellation; whether there was one."""
        return self._cancelled.wait(seconds)

    def report(self, progress: _P) -> None:
        """Tell how far the work is."""
        if not self._cancelled.is_set():
            self._report(progress)

    def cancel(self) -> None:
        """The result is no longer wanted."""
        self._cancelled.set()


class Operation(QObject):
    """Work that runs, seen from the main thread.

    Signals:
        progressed: with what the work reported.
        succeeded: with its result.
        failed: with an `EngineError`.
        finished: after succeeded or failed, and when a cancelled work has really ended.
    """

    progressed = Signal(object)
    succeeded = Signal(object)
    failed = Signal(object)
    finished = Signal()

    _arrived = Signal(str, object)

    def __init__(self, owner: QObject | None, task: Task[object]) -> None:
        super().__init__(owner)
        self._task = task
        self._thread: threading.Thread | None = None
        self.is_finished = False
        self._arrived.connect(self._deliver, Qt.ConnectionType.QueuedConnection)

    def cancel(self) -> None:
        """Ask the work to end; of `succeeded`, `failed` and `progressed` nothing comes any more."""
        self._task.cancel()

    @property
    def is_cancelled(self) -> bool:
        """Whether `cancel` was called."""
        return self._task.is_cancelled

    def wait(self, timeout_s: float | None = None) -> bool:
        """Block until the thread has ended (for a program's end and tests); whether it has."""
        if self._thread is not None:
            self._thread.join(timeout_s)
            return not self._thread.is_alive()
        return True

    def start(self, run: Callable[[], None]) -> None:
        """Run a function in a thread of its own."""
        # A daemon: what it does is safe to leave at any moment, and must not hold up the end.
        self._thread = threading.Thread(target=run, name="background", daemon=True)
        self._thread.start()

    def tell(self, kind: str, value: object) -> None:
        """Hand something over to the main thread; called by the work's thread."""
        with contextlib.suppress(RuntimeError):  # the owner has gone, and this object with it
            self._arrived.emit(kind, value)

    @Slot(str, object)
    def _deliver(self, kind: str, value: object) -> None:
        if kind == "progress":
            if not self._task.is_cancelled:
                self.progressed.emit(value)
            return
        self.is_finished = True
        if kind == "success" and not self._task.is_cancelled:
            self.succeeded.emit(value)
        elif kind == "failure" and not self._task.is_cancelled:
            self.failed.emit(value)
        self.finished.emit()
        self.deleteLater()


def in_background(
    owner: QObject | None,
    work: Callable[[Task[_P]], _R],
    *,
    on_success: Callable[[_R], None] | None = None,
    on_failure: Callable[[EngineError], None] | None = None,
    on_progress: Callable[[_P], None] | None = None,
) -> Operation:
    """Start `work` in a thread of its own.

    Args:
        owner: when it is destroyed nothing is called any more; None: the caller keeps the result.
        work: what to do; an `EngineError` that it raises goes to `on_failure` as it is, anything
            else is logged and goes there as an `UnexpectedError`.
        on_success: takes the result.
        on_failure: takes the error.
        on_progress: takes what the work reports.
    """

    def report(progress: _P) -> None:
        operation.tell("progress", progress)

    task: Task[_P] = Task(report)
    operation = Operation(owner, cast("Task[object]", task))
    if on_progress is not None:
        operation.progressed.connect(on_progress)
    if on_success is not None:
        operation.succeeded.connect(on_success)
    if on_failure is not None:
        operation.failed.connect(on_failure)

    def run() -> None:
        try:
            result = work(task)
        except OperationCancelled:
            operation.tell("cancelled", None)
        except EngineError as error:
            operation.tell("failure", error)
        except Exception as error:
            logger.exception("the work in the background failed")
            operation.tell("failure", unexpected(error))
        else:
            operation.tell("success", result)

    operation.start(run)
    return operation
