"""Keeps one worker going: loads on demand, starts it again after a crash, unloads.

Requests that were running when a worker died get an error; those that wait for `wait_ready` go on
waiting and are served by the next worker. A load that fails is not tried again by itself: its cause
(a missing file, too little memory) would still be there.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import logging
from collections.abc import Awaitable, Callable, Sequence

from engine.core.errors import EngineError
from engine.worker.card_crashes import CardCrashes
from engine.worker.client import STALL_S, WorkerClient
from engine.worker.death import WorkerDied, WorkerFailed
from engine.worker.handle import RequestHandle
from engine.worker.messages import Failed, Load, Progress, Ready, Start, StatusReport

logger = logging.getLogger(__name__)

# Waits before the 1st, 2nd, ... restart in a row; after the last one the state is `failed`.
BACKOFF_S = (0.0, 1.0, 5.0, 15.0)
# How long a worker may take to end.
STOP_GRACE_S = 5.0
SAVING_GRACE_S = 120.0
# A worker that ran for so long, or answered a request, was healthy: its crash starts the count anew.
HEALTHY_S = 60.0


class WorkerState(enum.StrEnum):
    """Where the model is."""

    UNLOADED = "unloaded"
    LOADING = "loading"
    READY = "ready"
    FAILED = "failed"


class WorkerSupervisor:
    """The worker that the front uses, whichever process that is now.

    Attributes:
        state: where the model is; `loading` also between a crash and the next start.
        failure: why the state is `failed`.
        restarts: how often a worker was started again after a crash.
    """

    def __init__(
        self,
        load: Load,
        command: Sequence[str] | None = None,
        *,
        backoff_s: Sequence[float] = BACKOFF_S,
        stall_s: float = STALL_S,
        on_change: Callable[[WorkerState], None] | None = None,
        before_load: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self.state = WorkerState.UNLOADED
        self.failure: Failed | None = None
        self.restarts = 0
        self._load_message = load
        self._command = command
        self._backoff_s = tuple(backoff_s)
        self._stall_s = stall_s
        self._on_change = on_change
        self._before_load = before_load
        self._card_crashes = CardCrashes()
        self._client: WorkerClient | None = None
        self._task: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()

    @property
    def progress(self) -> Progress | None:
        """How far the running load is; None when none is running or nothing was reported yet."""
        if self.state is not WorkerState.LOADING or self._client is None:
            return None
        return self._client.progress

    @property
    def ready(self) -> Ready | None:
        """What the worker said when it was ready, while it is."""
        if self.state is not WorkerState.READY or self._client is None:
            return None
        return self._client.ready

    @property
    def pid(self) -> int | None:
        """Process id of the worker that runs now."""
        return self._client.pid if self._client is not None else None

    async def load(self) -> Ready:
        """Load unless that has been done, and wait until the model is there.

        Raises:
            WorkerFailed: loading failed; calling again tries again.
        """
        if self.state in {WorkerState.UNLOADED, WorkerState.FAILED}:
            self.start_loading()
        return await self.wait_ready()

    def start_loading(self) -> None:
        """Begin to load unless the model is there or on its way."""
        if self._task is None or self._task.done():
            self.failure = None
            self._set_state(WorkerState.LOADING)
            self._task = asyncio.create_task(self._keep_going())

    async def wait_ready(self) -> Ready:
        """Wait until the model is there, over crashes and restarts.

        Raises:
            WorkerFailed: loading failed, or the worker crashed too often in a row.
            WorkerDied: the model is unloaded.
        """
        while True:
            if self.ready is not None:
                return self.ready
            if self.state is WorkerState.FAILED and self.failure is not None:
                raise WorkerFailed(
                    self.failure.message, code=self.failure.code, params=self.failure.params
                )
            if self.state is WorkerState.UNLOADED:
                raise WorkerDied("The model is not loaded.")
            await self._changed.wait()

    def submit(self, start: Start) -> RequestHandle:
        """Begin a request.

        Raises:
            WorkerDied: the worker is not ready; `wait_ready` first.
        """
        if self._client is None or self.ready is None:
            raise WorkerDied("The model is not loaded.")
        return self._client.submit(start)

    def cancel(self, request_id: str) -> None:
        """End a request; nothing happens when it is unknown or has ended."""
        if self._client is not None:
            self._client.cancel(request_id)

    def force(self, request_id: str, token_ids: Sequence[int]) -> None:
        """Append tokens to a running answer; nothing happens when it has ended."""
        if self._client is not None:
            self._client.force(request_id, token_ids)

    async def status(self) -> StatusReport:
        """What the worker does now.

        Raises:
            WorkerDied: it is not ready.
        """
        if self._client is None or self.ready is None:
            raise WorkerDied("The model is not loaded.")
        return await self._client.status()

    async def unload(self) -> None:
        """End the worker, which gives all memory back. When this returns it is gone."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        if self._client is not None:
            # Warm conversations of gigabytes may have to be written.
            config = self._load_message.config
            learns = config.get("spec_ngram") is True and config.get("spec_ngram_learn") is True
            saves = config.get("save_sessions") is True or learns
            await self._client.stop(SAVING_GRACE_S if saves else STOP_GRACE_S)
            self._client = None
        self._set_state(WorkerState.UNLOADED)

    async def close(self) -> None:
        """End everything; idempotent."""
        await self.unload()

    def _set_state(self, state: WorkerState) -> None:
        if state is self.state:
            return
        self.state = state
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
        if self._on_change is not None:
            self._on_change(state)

    async def _keep_going(self) -> None:
        """Load, wait for the end, load again, until a load fails or crashes come too often."""
        loop = asyncio.get_running_loop()
        crashes = 0
        while True:
            client = WorkerClient(self._command, stall_s=self._stall_s)
            self._client = client
            try:
                if self._before_load is not None:
                    await self._before_load()
                await client.start(self._load_message)
            except WorkerDied as error:
                if crashes == 0:
                    self._fail(error)
                    return
            except EngineError as error:
                self._fail(error)
                return
            else:
                ready_at = loop.time()
                self._set_state(WorkerState.READY)
                await client.wait_closed()
                if client.failed_cards:
                    await asyncio.to_thread(self._card_crashes.note, client.failed_cards)
                if client.num_answered or loop.time() - ready_at > HEALTHY_S:
                    crashes = 0
            if crashes >= len(self._backoff_s):
                self._fail(client.died or WorkerDied("The model process ended."))
                return
            self._set_state(WorkerState.LOADING)
            wait_s = self._backoff_s[crashes]
            crashes += 1
            self.restarts += 1
            logger.warning("starting the worker again in %.0f s", wait_s)
            await asyncio.sleep(wait_s)

    def _fail(self, error: EngineError) -> None:
        logger.error("the model cannot be used: %s", error)
        self.failure = Failed(error.code, error.message, error.params)
        self._set_state(WorkerState.FAILED)
