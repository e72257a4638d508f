"""A streamed answer whose headers are held back until the upstream has shown a first sign.

A request that the upstream refuses is then refused with a status of its own, as one that is refused
here is: agents look at the status to know that they must compact. An upstream that says nothing yet
(it reads a long prompt) must not keep the client without a sign, so the wait is short; what goes wrong
after it is an event of the stream.
"""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from engine.server.answers import unless_gone
from engine.server.errors import ApiError
from engine.server.generation import Generation


class HeldResponse(Response):
    """Waits for `generation.ready`, then lets the response itself do its work."""

    def __init__(self, response: Response, generation: Generation, wait_s: float) -> None:
        self._response = response
        self._generation = generation
        self._wait_s = wait_s
        self.status_code = response.status_code
        self.background = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response, unless the request is refused first.

        Raises:
            ApiError: the upstream refuses the request, or cannot be reached.
            ClientGone: the client closed the connection.
        """
        try:
            await unless_gone(Request(scope, receive), self._generation.ready(self._wait_s))
        except BaseException as error:
            self._generation.active.finish = _finish(error)
            self._generation.close()
            raise
        await self._response(scope, receive, send)


def _finish(error: BaseException) -> str:
    return "error" if isinstance(error, ApiError) else "disconnected"
