"""Who may generate now: up to `parallel` requests, the others wait in order (spec/api.md section 8).

    ticket = queue.enter()                  # or 429, before any header is sent
    try:
        await queue.wait_turn(ticket)
        ...
    finally:
        queue.leave(ticket)

Knows nothing of models or HTTP beyond the errors that it raises.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import heapq
from collections import deque

from engine.server.errors import ApiError


class Place(enum.Enum):
    """Where a request stands."""

    WAITING = "waiting"
    RUNNING = "running"
    LEFT = "left"


class Ticket:
    """One request in the queue; `slot` tells running ones apart, from 0."""

    def __init__(self) -> None:
        self.place = Place.WAITING
        self.slot = -1
        self.called = asyncio.Event()


class RequestQueue:
    """First come, first served."""

    def __init__(self, parallel: int, queue_max: int, timeout_s: float | None = None) -> None:
        self._parallel = parallel
        self._queue_max = queue_max
        self._timeout_s = timeout_s
        self._waiting: deque[Ticket] = deque()
        self._running = 0
        self._free_slots = list(range(parallel))
        self.rejected = 0

    @property
    def running(self) -> int:
        """Requests that have their turn."""
        return self._running

    @property
    def queued(self) -> int:
        """Requests that wait."""
        return len(self._waiting)

    def enter(self) -> Ticket:
        """A place in the queue, or its refusal. Each ticket must come back to `leave`.

        Raises:
            ApiError: 429 when too many wait already.
        """
        ticket = Ticket()
        if self._running < self._parallel and not self._waiting:
            self._give(ticket)
            return ticket
        if len(self._waiting) >= self._queue_max:
            self.rejected += 1
            raise ApiError(
                429,
                "queue_full",
                f"The queue is full: {self._running} running, {len(self._waiting)} waiting. "
                "Try again in a moment, or raise the setting queue_max.",
            )
        self._waiting.append(ticket)
        return ticket

    def enter_again(self) -> Ticket:
        """A place for a request that was admitted before and has left: the next, and never refused."""
        ticket = Ticket()
        if self._running < self._parallel:
            self._give(ticket)
        else:
            self._waiting.appendleft(ticket)
        return ticket

    def position(self, ticket: Ticket) -> int:
        """How many requests are ahead of a waiting one, counted from 1; 0 when it is running."""
        return self._waiting.index(ticket) + 1 if ticket in self._waiting else 0

    async def wait_turn(self, ticket: Ticket) -> None:
        """Wait until the ticket is called.

        Raises:
            ApiError: 503 when it took longer than the configured time.
        """
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(ticket.called.wait(), self._timeout_s)
        if ticket.place is not Place.RUNNING:
            raise ApiError(
                503,
                "queue_timeout",
                f"The request waited {self._timeout_s:g} seconds for its turn.",
            )

    def leave(self, ticket: Ticket) -> None:
        """Give the place back, waiting or running; a second call does nothing."""
        if ticket.place is Place.WAITING:
            self._waiting.remove(ticket)
        elif ticket.place is Place.RUNNING:
            self._running -= 1
            heapq.heappush(self._free_slots, ticket.slot)
        ticket.place = Place.LEFT
        while self._waiting and self._running < self._parallel:
            self._give(self._waiting.popleft())

    def _give(self, ticket: Ticket) -> None:
        self._running += 1
        ticket.slot = heapq.heappop(self._free_slots)
        ticket.place = Place.RUNNING
        ticket.called.set()
