"""The front's end of one request: what the worker says about it, as an async iterator."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable

from engine.worker.messages import Done, PromptProgress, Tokens

RequestMessage = PromptProgress | Tokens | Done

# From here on messages that nobody fetches are merged, so a slow reader costs no more memory than
# the ids of its answer, which the context bounds.
MERGE_FROM = 64


class RequestHandle(AsyncIterator[RequestMessage]):
    """Messages of one request in order; the last one is always a `Done`.

    Attributes:
        request_id: the request.
        done: how it ended, as soon as that has arrived (fetched or not).
    """

    def __init__(self, request_id: str, on_cancel: Callable[[str], None]) -> None:
        self.request_id = request_id
        self.done: Done | None = None
        self._on_cancel = on_cancel
        self._messages: deque[RequestMessage] = deque()
        self._arrived = asyncio.Event()
        self._finished = False

    def cancel(self) -> None:
        """Ask the worker to end the request; harmless when it has ended."""
        if self.done is None:
            self._on_cancel(self.request_id)

    def put(self, message: RequestMessage) -> None:
        """Called by the client that owns the pipe."""
        if self.done is not None:
            return
        if isinstance(message, Done):
            self.done = message
        if len(self._messages) >= MERGE_FROM:
            message = self._merged_with_last(message)
        self._messages.append(message)
        self._arrived.set()

    def _merged_with_last(self, message: RequestMessage) -> RequestMessage:
        last = self._messages[-1]
        if isinstance(last, Tokens) and isinstance(message, Tokens):
            self._messages.pop()
            return Tokens(
                message.request_id,
                last.token_ids + message.token_ids,
                last.logprobs + message.logprobs,
            )
        if isinstance(last, PromptProgress) and isinstance(message, PromptProgress):
            self._messages.pop()
        return message

    def __aiter__(self) -> RequestHandle:
        return self

    async def __anext__(self) -> RequestMessage:
        if self._finished:
            raise StopAsyncIteration
        while not self._messages:
            self._arrived.clear()
            await self._arrived.wait()
        message = self._messages.popleft()
        self._finished = isinstance(message, Done)
        return message
