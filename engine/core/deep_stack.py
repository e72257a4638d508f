"""A thread with a large stack, for recursive code of others that must not end the process.

Threads have 1 MiB of stack on some systems, and a compiler that recurses over a client's input takes
what it needs. `call` runs a function in a thread of ours with `STACK_BYTES` (of address space; memory
is taken as it is used) and waits for it.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

import psutil

STACK_BYTES = 64 * 1024 * 1024
_LEAST_WAIT_S = 0.05

T = TypeVar("T")
_lock = threading.Lock()


class _Call(Generic[T]):
    """One function, and what came of it."""

    def __init__(self, function: Callable[[], T]) -> None:
        self._function = function
        self.results: list[T] = []
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self.results.append(self._function())
        except BaseException as error:  # noqa: BLE001  # raised again where `call` waits
            self.error = error


def call(
    function: Callable[[], T], timeout_s: float | None = None, processor_s: float | None = None
) -> T:
    """The function's result, or its exception.

    Args:
        function: what is called; it computes in the thread that calls it.
        timeout_s: the longest wait.
        processor_s: the most processor time, which does not grow on a busy machine.

    Raises:
        TimeoutError: it takes longer. The thread goes on; it ends with the function or the process.
    """
    pending = _Call(function)
    with _lock:  # the size is the interpreter's, for all threads that start meanwhile
        before = threading.stack_size(STACK_BYTES)
        try:
            thread = threading.Thread(target=pending.run, name="deep stack", daemon=True)
            thread.start()
        finally:
            threading.stack_size(before)
    if processor_s is None:
        thread.join(timeout_s)
    else:
        _join(thread, math.inf if timeout_s is None else timeout_s, processor_s)
    if pending.error is not None:
        raise pending.error
    if not pending.results:
        raise TimeoutError
    return pending.results[0]


def _join(thread: threading.Thread, timeout_s: float, processor_s: float) -> None:
    """Wait for the thread until it ends or has used up one of both."""
    begin = time.monotonic()
    used_s = 0.0
    while thread.is_alive() and used_s < processor_s:
        left_s = timeout_s - (time.monotonic() - begin)
        if left_s <= 0:
            return
        # It cannot use more than all of that time.
        thread.join(min(left_s, max(processor_s - used_s, _LEAST_WAIT_S)))
        if thread.is_alive():
            used_s = _processor_s(thread, time.monotonic() - begin)


def _processor_s(thread: threading.Thread, since_s: float) -> float:
    """Processor time of a thread; all of the time since it began where the system does not tell."""
    try:
        for entry in psutil.Process().threads():
            if entry.id == thread.native_id:
                return float(entry.user_time + entry.system_time)
    except (psutil.Error, OSError):
        return since_s
    return 0.0  # it has just ended
