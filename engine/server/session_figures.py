"""What the worker keeps warm and has read from the disk, for `/status`, `/slots` and `/metrics`.

The worker is asked each time. It answers between two layers; while it is in a long one, the figures
of last time are good enough.
"""

from __future__ import annotations

import asyncio

from engine.core.disk_reads import DiskReads
from engine.core.errors import EngineError
from engine.worker.supervisor import WorkerState, WorkerSupervisor

WAIT_S = 0.1


class SessionFigures:
    """The newest figures.

    Attributes:
        sessions: conversations that can be gone on with.
        tokens: that their states stand for, shared ones counted once.
        num_bytes: memory that they take.
        disk: what the worker has read from the disk since the model is loaded.
    """

    def __init__(self, worker: WorkerSupervisor) -> None:
        self.sessions = 0
        self.tokens = 0
        self.num_bytes = 0
        self.disk: tuple[DiskReads, ...] = ()
        self._worker = worker
        self._asking: asyncio.Task[None] | None = None

    async def refresh(self) -> None:
        """Ask the worker, and wait a moment for what it says."""
        if self._worker.state is not WorkerState.READY:
            self.sessions = self.tokens = self.num_bytes = 0
            return
        if self._asking is None or self._asking.done():  # one question, however many look
            self._asking = asyncio.create_task(self._ask())
        await asyncio.wait({self._asking}, timeout=WAIT_S)

    def as_object(self) -> dict[str, object]:
        """For JSON."""
        return {"sessions": self.sessions, "tokens": self.tokens, "bytes": self.num_bytes}

    async def _ask(self) -> None:
        try:
            report = await self._worker.status()
        except EngineError:  # it has died; the next one tells
            return
        self.sessions = report.warm_sessions
        self.tokens = report.warm_tokens
        self.num_bytes = report.warm_bytes
        self.disk = report.disk
