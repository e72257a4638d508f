"""The front's end of one request: what the worker says about it, as an async iterator."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable

from engine.worker.messages import Done, PromptProgress, Tokens

RequestMessage = PromptProgress | Tokens | Done

# An answer pauses in the worker when so many of its tokens lie here unread, and goes on when so few
# are left.
HOLD_TOKENS = 2048
RELEASE_TOKENS = 256

# From here on messages that nobody has fetched yet are merged: a slow reader costs no more memory
# than the ids of its answer, and a front that falls behind catches up in one step.
MERGE_FROM = 1


class RequestHandle(AsyncIterator[RequestMessage]):
    """Messages of one request in order; the last one is always a `Done`.

    Attributes:
        request_id: the request.
        done: how it ended, as soon as that has arrived (fetched or not).
        is_held: the worker was asked to pause the answer.
    """

    def __init__(
        self,
        request_id: str,
        on_cancel: Callable[[str], None],
        on_hold: Callable[[str, bool], None] = lambda _id, _is_held: None,
    ) -> None:
        self.request_id = request_id
        self.done: Done | None = None
        self.is_held = False
        self._on_cancel = on_cancel
        self._on_hold = on_hold
        self._num_unread = 0
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
        elif isinstance(message, Tokens):
            self._num_unread += len(message.token_ids)
            if self._num_unread > HOLD_TOKENS:
                self._hold(is_held=True)
        if len(self._messages) >= MERGE_FROM:
            message = self._merged_with_last(message)
        self._messages.append(message)
        self._arrived.set()

    def _hold(self, *, is_held: bool) -> None:
        if is_held is not self.is_held:
            self.is_held = is_held
            self._on_hold(self.request_id, is_held)

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
        if isinstance(message, Tokens):
            self._num_unread -= len(message.token_ids)
            if self._num_unread <= RELEASE_TOKENS:
                self._hold(is_held=False)
        return message
