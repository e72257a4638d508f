"""Requests that wait or run now: for `/status`, and for cancelling them by id."""

from __future__ import annotations

import asyncio
import enum
import time
from collections.abc import Callable, Coroutine, Iterator
from typing import TypeVar

from engine.server.errors import ApiError, not_found
from engine.server.queue import Place, Ticket
from engine.worker.messages import Timings

T = TypeVar("T")


class Phase(enum.StrEnum):
    """What a request is doing; the values are those of `/status`."""

    WAITING = "waiting"
    READING = "reading"
    THINKING = "thinking"
    ANSWERING = "answering"
    TOOL_CALL = "tool_call"


class ActiveRequest:
    """One request from its admission to its end. Holds counts, never text.

    Attributes:
        is_cancelled: its owner wants it to end as if the answer were complete.
        abort_error: what to answer with when it was ended from outside.
        end_now: set by both.
        on_end: told when it is set; the running generation stops the worker there.
        is_thinking_unwanted: its owner wants the answer now.
        on_answer_now: told when that is set; the running generation ends the thinking there.
    """

    def __init__(self, request_id: str, protocol: str, prompt_tokens: int, ticket: Ticket) -> None:
        self.request_id = request_id
        self.protocol = protocol
        self.prompt_tokens = prompt_tokens
        self.ticket = ticket
        self.phase = Phase.WAITING
        self.prompt_read = 0
        self.cached_tokens = 0
        self.generated = 0
        self.max_tokens = 0
        self.finish = "error"
        self.timings = Timings()
        self.is_cancelled = False
        self.abort_error: ApiError | None = None
        self.end_now = asyncio.Event()
        self.on_end: Callable[[], None] | None = None
        self.is_thinking_unwanted = False
        self.on_answer_now: Callable[[], None] | None = None
        self._started_s = time.monotonic()
        self._reading_s: float | None = None
        self._first_token_s: float | None = None

    @property
    def elapsed_s(self) -> float:
        """Seconds since admission."""
        return time.monotonic() - self._started_s

    @property
    def tokens_per_s(self) -> float:
        """Generation speed since the first token; 0 before the second."""
        if self._first_token_s is None or self.generated < 2:
            return 0.0
        passed = max(time.monotonic() - self._first_token_s, 1e-6)
        return (self.generated - 1) / passed

    @property
    def waited_s(self) -> float:
        """Seconds from admission to the begin of the work on it, or until now."""
        until = time.monotonic() if self._reading_s is None else self._reading_s
        return until - self._started_s

    @property
    def first_token_after_s(self) -> float | None:
        """Seconds from admission to the first token; None before it."""
        return None if self._first_token_s is None else self._first_token_s - self._started_s

    def note_begin(self) -> None:
        """The worker has the request."""
        if self._reading_s is None:
            self._reading_s = time.monotonic()
        self.phase = Phase.READING

    def timings_so_far(self) -> Timings:
        """The timings of a request that is running."""
        now = time.monotonic()
        first_s = now if self._first_token_s is None else self._first_token_s
        begin_s = self._started_s if self._reading_s is None else self._reading_s
        return Timings(
            prompt_tokens=self.prompt_tokens,
            cached_tokens=self.cached_tokens,
            prompt_ms=(first_s - begin_s) * 1000,
            generated_tokens=self.generated,
            generated_ms=(now - first_s) * 1000,
        )

    def note_tokens(self, count: int) -> None:
        """Count tokens that arrived."""
        if count and self._first_token_s is None:
            self._first_token_s = time.monotonic()
        self.generated += count

    def cancel(self) -> None:
        """End the request as if its answer were complete."""
        self.is_cancelled = True
        self._end()

    def abort(self, error: ApiError) -> None:
        """End the request with an error."""
        self.abort_error = error
        self._end()

    def stop_thinking(self) -> None:
        """Go over to the answer; a request that has not begun will not think."""
        self.is_thinking_unwanted = True
        if self.on_answer_now is not None:
            self.on_answer_now()

    def _end(self) -> None:
        self.end_now.set()
        if self.on_end is not None:
            self.on_end()

    def summary(self) -> dict[str, object]:
        """What `/status` says about it."""
        return {
            "request_id": self.request_id,
            "protocol": self.protocol,
            "prompt_tokens": self.prompt_tokens,
            "prompt_read": self.prompt_read,
            "cached_tokens": self.cached_tokens,
            "generated": self.generated,
            "max_tokens": self.max_tokens,
            "elapsed_s": round(self.elapsed_s, 3),
            "tokens_per_s": round(self.tokens_per_s, 2),
        }

    def ended_summary(self) -> dict[str, object]:
        """What `/status` says about it once it has ended; counts and times, never text."""
        first, timings = self.first_token_after_s, self.timings
        return {
            "request_id": self.request_id,
            "protocol": self.protocol,
            "finish": self.finish,
            "prompt_tokens": self.prompt_tokens,
            "cached_tokens": self.cached_tokens,
            "generated": self.generated,
            "waited_s": round(self.waited_s, 3),
            "first_token_s": round(first, 3) if first is not None else None,
            "elapsed_s": round(self.elapsed_s, 3),
            "generated_s": round(timings.generated_ms / 1000, 3),
            "draft_tokens": timings.draft_tokens,
            "draft_accepted": timings.draft_accepted,
            "ended_at": round(time.time(), 3),
        }


class ActiveRequests:
    """All requests that have not ended, oldest first."""

    def __init__(self) -> None:
        self._idle_since_s = time.monotonic()
        self._by_id: dict[str, ActiveRequest] = {}

    def __iter__(self) -> Iterator[ActiveRequest]:
        return iter(tuple(self._by_id.values()))

    def __len__(self) -> int:
        return len(self._by_id)

    def add(self, request: ActiveRequest) -> None:
        """Register a request that was admitted."""
        self._by_id[request.request_id] = request

    def remove(self, request: ActiveRequest) -> None:
        """Forget a request that has ended."""
        self._by_id.pop(request.request_id, None)
        self._idle_since_s = time.monotonic()

    @property
    def idle_s(self) -> float:
        """Seconds since the last request ended; 0 while there is one."""
        return 0.0 if self._by_id else time.monotonic() - self._idle_since_s

    def running(self) -> list[ActiveRequest]:
        """Those that have their turn."""
        return [request for request in self if request.ticket.place is Place.RUNNING]

    def find(self, request_id: str) -> ActiveRequest:
        """The request of this id.

        Raises:
            ApiError: 404 when it is unknown or has ended.
        """
        request = self._by_id.get(request_id)
        if request is None:
            raise not_found("No request of this id is running or waiting.")
        return request


async def unless_ended(active: ActiveRequest, waiting: Coroutine[object, object, T]) -> T | None:
    """The coroutine's result, or None when the request's owner cancelled it meanwhile.

    Raises:
        ApiError: the request was aborted meanwhile.
    """
    work = asyncio.ensure_future(waiting)
    ended = asyncio.ensure_future(active.end_now.wait())
    try:
        await asyncio.wait({work, ended}, return_when=asyncio.FIRST_COMPLETED)
        if active.abort_error is not None:
            raise active.abort_error
        return None if active.is_cancelled else work.result()
    finally:
        work.cancel()
        ended.cancel()
