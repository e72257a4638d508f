"""Messages on their way to the front: what a step says goes out at once, and quick steps together.

The front wakes up for each write and makes an event of each message: for a token of a quarter of a
millisecond that is as much work as the token. So tokens wait for those of the next steps, but for no
longer than `HELD_S`; everything else goes out at once, and takes what waits with it.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from engine.worker.messages import Message, Tokens

HELD_S = 0.002


class Outbox:
    """Collects messages and sends them in order.

    Attributes:
        last_sent_at: when something was sent last, by the clock.
    """

    def __init__(
        self, send: Callable[..., None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Messages go to `send(*messages)`."""
        self.last_sent_at = 0.0
        self._send = send
        self._clock = clock
        self._messages: list[Message] = []
        self._is_urgent = False
        self._places: dict[str, int] = {}  # of the tokens of a request, in the list

    def add(self, message: Message) -> None:
        """Take a message; tokens join those of the same answer that wait."""
        if not isinstance(message, Tokens):
            self._is_urgent = True
            self._places.clear()  # tokens never pass another message
            self._messages.append(message)
            return
        place = self._places.get(message.request_id)
        if place is None:
            self._places[message.request_id] = len(self._messages)
            self._messages.append(message)
            return
        before = self._messages[place]
        if isinstance(before, Tokens):
            self._messages[place] = Tokens(
                message.request_id,
                before.token_ids + message.token_ids,
                before.logprobs + message.logprobs,
            )

    def flush(self, *, more_comes: bool = False) -> None:
        """Send what there is; tokens may wait a little where more comes soon."""
        if not self._messages:
            return
        now = self._clock()
        if more_comes and not self._is_urgent and now - self.last_sent_at < HELD_S:
            return
        messages, self._messages = self._messages, []
        self._is_urgent = False
        self._places.clear()
        self.last_sent_at = now
        self._send(*messages)
