"""One request's life: its turn in the queue, its answers, and its end.

`Generation.steps()` gives the same steps to streamed and whole answers, so both carry the same
content by construction. Whoever consumes it may stop at any time (a client that went away): closing
the iterator or cancelling its task ends the worker's part at once. Knows no protocol's shapes.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing

from engine.server.active import ActiveRequest, unless_ended
from engine.server.choice import Choice
from engine.server.front import Front
from engine.server.steps import GenerationPlan, Step

request_log = logging.getLogger("engine.server.requests")


class Generation:
    """A request that was admitted to the queue. `close` must be called in the end."""

    def __init__(self, front: Front, request_id: str, protocol: str, plan: GenerationPlan) -> None:
        """Enter the queue.

        Raises:
            ApiError: 503 while stopping, 429 when the queue is full.
        """
        front.check_open()
        self.plan = plan
        self.active = ActiveRequest(request_id, protocol, len(plan.prompt), front.queue.enter())
        self.active.max_tokens = plan.max_tokens
        self._front = front
        self._started_s = time.monotonic()
        self._is_closed = False
        self._running: AsyncGenerator[Step, None] | None = None
        self._first: asyncio.Future[Step] | None = None
        front.active.add(self.active)

    async def ready(self, wait_s: float) -> None:
        """Wait for the first step, but not long; `steps` will begin with it.

        For answers that another server may refuse: only then is it known that it did not.

        Raises:
            ApiError: the request is refused.
        """
        self._running = self._steps()
        self._first = asyncio.ensure_future(anext(self._running))
        await asyncio.wait({self._first}, timeout=wait_s)
        if self._first.done():
            self._first.result()

    async def steps(self) -> AsyncGenerator[Step, None]:
        """All steps of all choices.

        Raises:
            ApiError: the request cannot be answered (any more).
        """
        running = self._running if self._running is not None else self._steps()
        async with aclosing(running):
            if self._first is not None:
                first, self._first = self._first, None
                yield await first
            async for step in running:
                yield step

    async def _steps(self) -> AsyncGenerator[Step, None]:
        await unless_ended(self.active, self._front.queue.wait_turn(self.active.ticket))
        for choice in range(self.plan.choices):
            async with aclosing(self._answer(self.plan, choice)) as steps:
                async for step in steps:
                    yield step

    def _answer(self, plan: GenerationPlan, choice: int) -> AsyncGenerator[Step, None]:
        """The steps of one choice, the request having its turn."""
        if self._front.upstream is not None and plan.request is not None:
            return self._front.upstream.answer(self.active, plan.request, choice)
        return Choice(self._front, self.active, plan, choice).steps()

    def close(self) -> None:
        """Give the place back and log the request; a second call does nothing."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._first is not None:  # nobody came for the steps
            self._first.cancel()
        active = self.active
        self._front.queue.leave(active.ticket)
        self._front.active.remove(active)
        self._front.last_timings = active.timings
        self._front.recent.appendleft(active.ended_summary())
        self._count(active)
        request_log.info(
            "%s %s prompt=%d cached=%d generated=%d finish=%s ms=%d",
            active.request_id,
            active.protocol,
            active.prompt_tokens,
            active.cached_tokens,
            active.generated,
            active.finish,
            (time.monotonic() - self._started_s) * 1000,
        )

    def _count(self, active: ActiveRequest) -> None:
        metrics = self._front.metrics
        metrics.requests.add(1, active.protocol, active.finish)
        metrics.prompt_tokens.add(active.prompt_tokens)
        metrics.prompt_tokens_cached.add(active.cached_tokens)
        metrics.generated_tokens.add(active.generated)
        metrics.queue_wait.observe(active.waited_s)
        if active.first_token_after_s is not None:
            metrics.first_token.observe(active.first_token_after_s)
