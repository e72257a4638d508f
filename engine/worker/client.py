"""The front's side of one worker process: start it, talk to it, notice its end.

Knows pipes and messages, not models. Everything runs in one asyncio loop; commands are written
without waiting (they are small), so they can be sent from any callback. A worker that dies, goes
silent or sends garbage ends every open request with a `Done` of reason `error`. Starting it again is
the supervisor's business.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

from engine.core.errors import EngineError
from engine.worker.death import WorkerDied, WorkerFailed, died, exit_reason, may_be_the_card
from engine.worker.handle import RequestHandle
from engine.worker.lines import LineSplitter
from engine.worker.messages import (
    Cancel,
    Done,
    Failed,
    Force,
    Hold,
    Load,
    Message,
    MessageError,
    Progress,
    PromptProgress,
    Quit,
    Ready,
    Start,
    StatusQuery,
    StatusReport,
    Timings,
    Tokens,
    decode,
    encode,
)

logger = logging.getLogger(__name__)

READ_BYTES = 1 << 16
STALL_S = 120.0
# A silence is a stall only when it is also this many times the longest one that ended well: the
# chunks of a long prompt get slower with depth.
STALL_GROWTH = 3.0
REPOSITORY = Path(__file__).resolve().parents[2]

ProgressCallback = Callable[[Progress], None]


def worker_command() -> list[str]:
    """The command of the real worker."""
    return [sys.executable, "-m", "engine.worker"]


def scripted_command(script: Path) -> list[str]:
    """The command of the scripted worker (docs/how-it-works/scripted-worker.md)."""
    return [*worker_command(), "--script", str(script.resolve())]


class WorkerClient:
    """One worker process, from its start to its verified end.

    Attributes:
        progress: how far loading is, None before the first report.
        ready: what the worker said when the model was loaded.
        died: why the worker is gone, None while it lives or when it was asked to stop.
        num_answered: requests that it brought to their end.
        failed_cards: keys of the cards on which it computed when it ended for what may be their sake.
    """

    def __init__(self, command: Sequence[str] | None = None, stall_s: float = STALL_S) -> None:
        self.progress: Progress | None = None
        self.ready: Ready | None = None
        self.died: EngineError | None = None
        self.num_answered = 0
        self.failed_cards: tuple[str, ...] = ()
        self._command = list(command) if command is not None else worker_command()
        self._stall_s = stall_s
        self._process: asyncio.subprocess.Process | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._started: asyncio.Future[Ready] | None = None
        self._on_progress: ProgressCallback | None = None
        self._handles: dict[str, RequestHandle] = {}
        self._status_waiters: deque[asyncio.Future[StatusReport]] = deque()
        self._closed = asyncio.Event()
        self._is_stopping = False
        self._fault: EngineError | None = None  # the worker's own last word, or what we saw of it
        self._last_heard = 0.0
        self._longest_silence = 0.0

    @property
    def pid(self) -> int | None:
        """The process id, None before the start."""
        return self._process.pid if self._process is not None else None

    @property
    def is_ready(self) -> bool:
        """Whether requests can be submitted."""
        return self.ready is not None and not self._closed.is_set() and not self._is_stopping

    async def start(self, load: Load, on_progress: ProgressCallback | None = None) -> Ready:
        """Start the process and load the model.

        Raises:
            WorkerFailed: the worker said why it cannot load.
            WorkerDied: it ended without a word.
        """
        if self._process is not None:
            raise RuntimeError("a worker client starts one process only")
        self._on_progress = on_progress
        loop = asyncio.get_running_loop()
        self._started = loop.create_future()
        try:
            self._process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=_environment(),
                creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
            )
        except OSError as error:
            self._closed.set()
            raise died(f"could not be started ({error.strerror or error})") from error
        self._last_heard = loop.time()
        self._tasks = [asyncio.create_task(self._read()), asyncio.create_task(self._watch())]
        self._send(load)
        try:
            return await asyncio.shield(self._started)
        except asyncio.CancelledError:  # somebody stops us while the model loads
            await self.stop(grace_s=0.0)
            raise
        except BaseException:
            await self._end(grace_s=0.0)
            raise
        finally:
            self._on_progress = None

    def submit(self, start: Start) -> RequestHandle:
        """Begin a request; its messages come from the handle.

        Raises:
            WorkerDied: the worker is not ready (any more).
            ValueError: a request of this name is running.
        """
        if not self.is_ready:
            raise self._no_worker()
        if start.request_id in self._handles:
            raise ValueError(f"the request {start.request_id} is running already")
        handle = RequestHandle(start.request_id, self.cancel, self._hold)
        if not self._handles:
            self._last_heard = asyncio.get_running_loop().time()
        self._handles[start.request_id] = handle
        self._send(start)
        return handle

    def cancel(self, request_id: str) -> None:
        """End a request; nothing happens when it is unknown or has ended."""
        if request_id in self._handles:
            self._send(Cancel(request_id))

    def force(self, request_id: str, token_ids: Sequence[int]) -> None:
        """Append tokens to a running answer; nothing happens when it is unknown or has ended."""
        if request_id in self._handles:
            self._send(Force(request_id, tuple(token_ids)))

    def _hold(self, request_id: str, is_held: bool) -> None:
        if request_id in self._handles:
            self._last_heard = asyncio.get_running_loop().time()
            self._send(Hold(request_id, is_held))

    async def status(self) -> StatusReport:
        """What the worker does now.

        Raises:
            WorkerDied: it is not there (any more).
        """
        if not self.is_ready:
            raise self._no_worker()
        waiter: asyncio.Future[StatusReport] = asyncio.get_running_loop().create_future()
        self._status_waiters.append(waiter)
        self._send(StatusQuery())
        return await waiter

    async def stop(self, grace_s: float = 5.0) -> None:
        """End the process: ask it, then kill it. When this returns it is gone; idempotent."""
        self._is_stopping = True
        await self._end(grace_s)

    async def wait_closed(self) -> None:
        """Wait until the process is gone and every open request has its `Done`."""
        await self._closed.wait()

    def _no_worker(self) -> EngineError:
        return self.died or WorkerDied("The model is not loaded.", code="engine_failed")

    def _send(self, message: Message) -> None:
        process = self._process
        if process is None or process.stdin is None or process.stdin.is_closing():
            return  # its end is on the way to us as EOF
        process.stdin.write(encode(message))

    async def _end(self, grace_s: float) -> None:
        process = self._process
        if process is None or self._closed.is_set():
            self._closed.set()
            return
        if grace_s > 0 and self.ready is not None:
            self._send(Quit())
        else:
            self._kill()
        if process.stdin is not None:
            process.stdin.close()
        try:
            await asyncio.wait_for(self._closed.wait(), max(grace_s, 0.1))
        except TimeoutError:
            self._kill()
            await self._closed.wait()

    def _kill(self) -> None:
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()

    async def _read(self) -> None:
        process = self._process
        assert process is not None  # noqa: S101  # tasks start after the process
        assert process.stdout is not None  # noqa: S101  # it was opened as a pipe
        splitter = LineSplitter()
        try:
            while chunk := await process.stdout.read(READ_BYTES):
                self._note_sign_of_life()
                for line in splitter.feed(chunk):
                    self._receive(decode(line))
        except MessageError as error:
            logger.error("the worker sent something that is no message: %s", error)  # noqa: TRY400
            self._fault = died("sent something that is no message and was stopped")
            self._kill()
            while await process.stdout.read(READ_BYTES):
                pass  # the transport ends only when its pipe has been read to the end
        self._close(await process.wait())

    async def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(min(self._stall_s / 4, 1.0))
            allowed = max(self._stall_s, STALL_GROWTH * self._longest_silence)
            is_working = any(not handle.is_held for handle in self._handles.values())
            if is_working and loop.time() - self._last_heard > allowed:
                logger.error("the worker made no progress for %.0f s and is stopped", allowed)
                self._fault = died(f"made no progress for {allowed:.0f} seconds and was stopped")
                self._kill()
                return

    def _note_sign_of_life(self) -> None:
        now = asyncio.get_running_loop().time()
        if self._handles:
            self._longest_silence = max(self._longest_silence, now - self._last_heard)
        self._last_heard = now

    def _receive(self, message: Message) -> None:
        match message:
            case Tokens() | PromptProgress() | Done():
                self._deliver(message)
            case Progress():
                self.progress = message
                if self._on_progress is not None:
                    self._on_progress(message)
            case Ready():
                self.ready = message
                if self._started is not None and not self._started.done():
                    self._started.set_result(message)
            case Failed():
                self._fault = WorkerFailed(
                    message.message, code=message.code, params=message.params
                )
                if self._started is not None and not self._started.done():
                    self._started.set_exception(self._fault)
            case StatusReport():
                if self._status_waiters:
                    waiter = self._status_waiters.popleft()
                    if not waiter.done():
                        waiter.set_result(message)
            case _:
                raise MessageError(f"{message.kind} is not for the front")

    def _deliver(self, message: Tokens | PromptProgress | Done) -> None:
        if isinstance(message, Done):
            handle = self._handles.pop(message.request_id, None)
            self.num_answered += message.reason != "error"
        else:
            handle = self._handles.get(message.request_id)
        if handle is not None:
            handle.put(message)

    def _close(self, returncode: int) -> None:
        """The process is gone: say so to everyone who waits for it."""
        for task in self._tasks[1:]:
            task.cancel()
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
        error = self._fault or died(exit_reason(returncode), returncode)
        if not self._is_stopping:
            self.died = error
            if (
                self.ready is not None
                and self._handles
                and may_be_the_card(returncode, self._fault)
            ):
                self.failed_cards = self.ready.cards
            logger.warning("worker ended (exit status %d): %s", returncode, error)
        elif self._fault is None:
            error = WorkerDied("The model was unloaded.", code="engine_failed")
        if self._started is not None and not self._started.done():
            self._started.set_exception(error)
            self._started.exception()  # it may be that nobody waits any more
        handles, self._handles = self._handles, {}
        for handle in handles.values():
            handle.put(Done(handle.request_id, "error", Timings(), error.message))
        for waiter in self._status_waiters:
            if not waiter.done():
                waiter.set_exception(error)
        self._status_waiters.clear()
        self._closed.set()


def _environment() -> dict[str, str]:
    """Ours, with this package importable wherever the front was started from."""
    path = os.environ.get("PYTHONPATH")
    return {
        **os.environ,
        "PYTHONPATH": str(REPOSITORY) + (os.pathsep + path if path else ""),
        "PYTHONUTF8": "1",
        "PYTHONUNBUFFERED": "1",
    }
