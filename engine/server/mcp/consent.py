"""Questions to the person in front of the chat: may this tool run with these arguments?

    question = consents.ask(request_id, call_id, server, tool)
    allowed = await question.answer(timeout_s)
    consents.answer(request_id, call_id, allow=True, always=False)      # from the route

No answer means no. "Always" holds until the server process ends; the config is the place for longer.
"""

from __future__ import annotations

import asyncio
import enum
from dataclasses import dataclass, field

from engine.server.errors import not_found


class Verdict(enum.Enum):
    """How a question ended."""

    ALLOWED = "allowed"
    DENIED = "denied"
    UNANSWERED = "unanswered"


@dataclass(slots=True)
class _Question:
    tool: tuple[str, str]
    reply: asyncio.Future[bool] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )


class Consents:
    """The open questions of all requests, and what was allowed for good."""

    def __init__(self) -> None:
        self._open: dict[tuple[str, str], _Question] = {}
        self._always: set[tuple[str, str]] = set()

    def is_allowed(self, server: str, tool: str) -> bool:
        """Whether somebody has said "always" to this tool."""
        return (server, tool) in self._always

    def open(self, request_id: str, call_id: str, server: str, tool: str) -> None:
        """Make a question that can be answered from now on; `wait` must follow."""
        self._open[request_id, call_id] = _Question((server, tool))

    async def wait(self, request_id: str, call_id: str, timeout_s: float) -> Verdict:
        """Wait for the answer; the question is closed then, whatever happened."""
        key = (request_id, call_id)
        try:
            allowed = await asyncio.wait_for(self._open[key].reply, timeout_s)
        except TimeoutError:
            return Verdict.UNANSWERED
        finally:
            self._open.pop(key, None)
        return Verdict.ALLOWED if allowed else Verdict.DENIED

    def answer(self, request_id: str, call_id: str, *, allow: bool, always: bool) -> None:
        """Answer a question.

        Raises:
            ApiError: 404 when no such question is open.
        """
        question = self._open.get((request_id, call_id))
        if question is None or question.reply.done():
            raise not_found("This request asks no question of this id (any more).")
        if allow and always:
            self._always.add(question.tool)
        question.reply.set_result(allow)

    def close(self, request_id: str) -> None:
        """Forget a request's questions."""
        for key in [key for key in self._open if key[0] == request_id]:
            self._open.pop(key)
