"""Asks the engine how it is, in a thread of its own, over one kept connection."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from app.engine_http import EngineAddress, EngineHttp, EngineHttpError
from app.engine_status import EngineStatus, parse_status

logger = logging.getLogger(__name__)

READ_S = 10.0


@dataclass(frozen=True, slots=True)
class Target:
    """Whom to ask.

    Attributes:
        address: where it answers.
        instance: the nonce that it must echo; empty: any engine (the process is our child).
    """

    address: EngineAddress
    instance: str = ""


class Poller:
    """Asks a target in turn; `on_status` and `on_silence` are called in the poller's thread.

    Args:
        on_status: told each answer.
        on_silence: told that there was none.
    """

    def __init__(
        self, on_status: Callable[[EngineStatus], None], on_silence: Callable[[], None]
    ) -> None:
        self._on_status = on_status
        self._on_silence = on_silence
        self._target: Target | None = None
        self._every_s = 2.0
        self._due_s = 0.0
        self._changed = threading.Condition()
        self._is_over = False
        self._thread = threading.Thread(target=self._run, name="engine-status", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def ask(self, target: Target | None, every_s: float) -> None:
        """Ask another target, or more or less often; None: nobody."""
        with self._changed:
            if target == self._target and every_s == self._every_s:
                return
            if target != self._target:
                self._due_s = 0.0
            else:
                self._due_s += every_s - self._every_s
            self._target, self._every_s = target, every_s
            self._changed.notify()

    def ask_now(self) -> None:
        """Ask without waiting for the next time."""
        with self._changed:
            self._due_s = 0.0
            self._changed.notify()

    def close(self) -> None:
        """End the thread; it may be in a request for some seconds more."""
        with self._changed:
            self._is_over = True
            self._target = None
            self._changed.notify()

    def _run(self) -> None:
        http = EngineHttp()
        while (target := self._next()) is not None:
            self._ask(http, target)
        http.close()

    def _next(self) -> Target | None:
        """Wait until somebody is to be asked; None at the end."""
        with self._changed:
            while not self._is_over:
                wait_s = self._due_s - time.monotonic()
                if self._target is None:
                    self._changed.wait()
                elif wait_s > 0:
                    self._changed.wait(wait_s)
                else:
                    self._due_s = time.monotonic() + self._every_s
                    return self._target
        return None

    def _ask(self, http: EngineHttp, target: Target) -> None:
        http.address = target.address
        try:
            status = parse_status(http.get("/status", read_timeout_s=READ_S))
        except EngineHttpError as error:
            logger.debug("no status: %s", error)
            status = None
        if target is not self._target:
            return  # it is not of interest any more
        if status is None or (target.instance and status.instance != target.instance):
            self._on_silence()
        else:
            self._on_status(status)
