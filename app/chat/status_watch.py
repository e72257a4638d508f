"""Asks the engine what a silent answer is doing: the stream does not show the writing of tool calls."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from app.engine_http import EngineHttp
from engine.core.errors import EngineError

EVERY_S = 1.0


class StatusWatch:
    """Looks at `/status` now and then, in threads of its own.

    Attributes:
        num_tokens: of the request that runs, at the last look.
    """

    def __init__(self, http: EngineHttp, clock: Callable[[], float] = time.monotonic) -> None:
        self.num_tokens = 0
        self._http, self._clock = http, clock
        self._is_call = False
        self._is_looking = False
        self._looked_s: float | None = None

    def reset(self) -> None:
        """Something has come: what was seen before is over."""
        self._is_call = False
        self._looked_s = None

    def is_writing_call(self) -> bool:
        """Whether the model was writing a call at the last look; looks again when that is due."""
        now = self._clock()
        is_due = self._looked_s is None or now - self._looked_s >= EVERY_S
        if is_due and not self._is_looking:
            self._is_looking = True
            self._looked_s = now
            threading.Thread(target=self._look, name="status", daemon=True).start()
        return self._is_call

    def _look(self) -> None:
        try:
            status = self._http.get("/status")
        except EngineError:
            return
        else:
            running = status.get("running")
            self._is_call = status.get("state") == "tool_call"
            if isinstance(running, dict) and isinstance(running.get("generated"), int):
                self.num_tokens = running["generated"]
        finally:
            self._is_looking = False
