"""A thread with a large stack, for recursive code of others that must not end the process.

Threads have 1 MiB of stack on some systems, and a compiler that recurses over a client's input takes
what it needs. `call` runs a function in a thread of ours with `STACK_BYTES` (of address space; memory
is taken as it is used) and waits for it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

STACK_BYTES = 64 * 1024 * 1024

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


def call(function: Callable[[], T], timeout_s: float | None = None) -> T:
    """The function's result, or its exception.

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
    thread.join(timeout_s)
    if pending.error is not None:
        raise pending.error
    if not pending.results:
        raise TimeoutError
    return pending.results[0]
