"""The state of the server process: config, model's text side, worker, queue, running requests."""

from __future__ import annotations

import asyncio
import secrets
import string
import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from engine.core.config import RunConfig
from engine.server.active import ActiveRequests
from engine.server.answer_memory import AnswerMemory
from engine.server.engine_metrics import EngineMetrics
from engine.server.errors import ApiError, shortened
from engine.server.model_side import ModelSide
from engine.server.queue import RequestQueue
from engine.server.security import SecurityPolicy
from engine.server.session_figures import SessionFigures
from engine.worker.messages import Timings
from engine.worker.supervisor import WorkerState, WorkerSupervisor

if TYPE_CHECKING:  # the `mcp` package takes a second to import; only who has servers pays for it
    from engine.server.mcp.servers import McpServers
    from engine.server.upstream.client import Upstream

ID_ALPHABET = string.ascii_letters + string.digits
ID_CHARS = 24

# How many ended requests are remembered, for `/status`.
RECENT_REQUESTS = 20

# How long requests may go on after the server was asked to stop.
STOP_GRACE_S = 10.0


def new_id(prefix: str) -> str:
    """A random id such as `call_...` with 24 letters and digits."""
    return prefix + "".join(secrets.choice(ID_ALPHABET) for _ in range(ID_CHARS))


@dataclass(slots=True)
class Front:
    """What all routes share. One event loop uses it.

    Attributes:
        mcp: the configured MCP servers; None when there are none.
        upstream: the server that answers instead of a model here; None when there is none.
        answers: the ids of earlier answers (not with an upstream).
        warm: how many conversations the worker keeps warm.
        instance: the nonce of `engine.json`, echoed by `/status`.
        last_timings: of the request that ended last.
        recent: the requests that ended last, newest first: counts and times, never text.
        loaded_s: when the model was loaded the last time.
        is_stopping: no new work is taken.
        stop_is_forced: running requests are not waited for.
        stop_requested: set by `/shutdown`; the serve command waits for it.
    """

    config: RunConfig
    model: ModelSide
    worker: WorkerSupervisor
    security: SecurityPolicy
    queue: RequestQueue
    mcp: McpServers | None = None
    upstream: Upstream | None = None
    instance: str = field(default_factory=lambda: secrets.token_hex(16))
    active: ActiveRequests = field(default_factory=ActiveRequests)
    answers: AnswerMemory = field(init=False)
    warm: SessionFigures = field(init=False)
    metrics: EngineMetrics = field(default_factory=EngineMetrics)
    last_timings: Timings | None = None
    recent: deque[dict[str, object]] = field(default_factory=lambda: deque(maxlen=RECENT_REQUESTS))
    started_s: float = field(default_factory=time.monotonic)
    loaded_s: float | None = None
    is_stopping: bool = False
    stop_is_forced: bool = False
    stop_requested: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.warm = SessionFigures(self.worker)
        if self.upstream is None:
            self.answers = AnswerMemory(self.model.tokenizer)

    @property
    def context(self) -> int:
        """Tokens that prompt and answer may have together."""
        ready = self.worker.ready
        return ready.context if ready is not None else self.model.context

    @property
    def idle_s(self) -> float:
        """Seconds without generation work, counted from the load at the earliest."""
        loaded_for_s = time.monotonic() - (self.loaded_s or self.started_s)
        return min(self.active.idle_s, loaded_for_s)

    def note_state(self, state: WorkerState) -> None:
        """The model's state has changed."""
        if state is WorkerState.READY:
            self.loaded_s = time.monotonic()
            self.metrics.loads.add()

    def check_open(self) -> None:
        """Refuse new work while stopping.

        Raises:
            ApiError: 503.
        """
        if self.is_stopping:
            raise ApiError(503, "shutting_down", "The server is stopping.")

    def check_model(self, name: str | None) -> str:
        """The name to echo; any name is served unless `strict_model` is set.

        Raises:
            ApiError: 404 for an unknown name under `strict_model`.
        """
        if name is None:
            return self.model.name
        if self.config.strict_model and not self.model.knows(name):
            raise unknown_model(name)
        return name

    async def drain(self, grace_s: float = STOP_GRACE_S) -> None:
        """Take no new work, let running requests end, and end them after the grace time."""
        self.is_stopping = True
        deadline = time.monotonic() + grace_s
        while len(self.active) and time.monotonic() < deadline and not self.stop_is_forced:
            await asyncio.sleep(0.05)
        for request in self.active:
            request.abort(ApiError(503, "shutting_down", "The server is stopping."))


def unknown_model(name: str) -> ApiError:
    """404 for a model that is not served here."""
    return ApiError(
        404,
        "model_not_found",
        f"The model {shortened(name)} is not served here; see GET /v1/models.",
        param="model",
    )
