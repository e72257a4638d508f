"""Messages on their way to the front: what a step says goes out at once, and quick steps together.

A write costs the worker as much as half a token of a small model: the front wakes up, often on the
worker's processor, and the next pass finds its weights gone from the caches. So tokens wait for
those of the next steps, but never longer than `HELD_S`, which is half a picture of a screen, and not
at all where steps take that long. Everything else goes out at once and takes along what waits; the
first token of an answer comes with the report that its prompt has been read.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from engine.worker.messages import Message, TokenLogprobs, Tokens

HELD_S = 0.008


class _Waiting:
    """Tokens of one answer that wait for those of the next steps."""

    __slots__ = ("logprobs", "request_id", "token_ids")

    def __init__(self, first: Tokens) -> None:
        self.request_id = first.request_id
        self.token_ids = list(first.token_ids)
        self.logprobs: list[TokenLogprobs] = list(first.logprobs)

    def message(self) -> Tokens:
        return Tokens(self.request_id, tuple(self.token_ids), tuple(self.logprobs))


class Outbox:
    """Collects messages and sends them in order.

    Attributes:
        last_sent_at: when something was sent last, by the clock.
    """

    def __init__(
        self, send: Callable[..., None], clock: Callable[[], float] = time.perf_counter
    ) -> None:
        """Messages go to `send(*messages)`.

        The clock must know milliseconds, which `time.monotonic` does not on Windows.
        """
        self.last_sent_at = 0.0
        self._send = send
        self._clock = clock
        self._messages: list[Message | _Waiting] = []
        self._is_urgent = False
        self._waiting: dict[str, _Waiting] = {}  # by request; those in the list that may grow
        self._step_at = 0.0

    @property
    def silent_s(self) -> float:
        """Since something was sent last."""
        return self._clock() - self.last_sent_at

    def add(self, message: Message) -> None:
        """Take a message; tokens join those of the same answer that wait."""
        if not isinstance(message, Tokens):
            self._is_urgent = True
            self._waiting.clear()  # tokens never pass another message
            self._messages.append(message)
            return
        waiting = self._waiting.get(message.request_id)
        if waiting is None:
            self._waiting[message.request_id] = waiting = _Waiting(message)
            self._messages.append(waiting)
            return
        waiting.token_ids += message.token_ids
        waiting.logprobs += message.logprobs

    def flush(self, *, more_comes: bool = False) -> None:
        """Send what there is.

        Args:
            more_comes: a step has ended and another one follows: tokens may wait for that, where it
                will end in time if it takes as long.
        """
        now = self._clock()
        if more_comes:
            step_s, self._step_at = now - self._step_at, now
            if not self._is_urgent and now + step_s - self.last_sent_at < HELD_S:
                return
        if not self._messages:
            return
        messages = [m.message() if isinstance(m, _Waiting) else m for m in self._messages]
        self._messages.clear()
        self._is_urgent = False
        self._waiting.clear()
        self.last_sent_at = now
        self._send(*messages)
