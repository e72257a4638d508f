"""Writing answers: JSON bodies, and the watch for clients that go away.

whole = await unless_gone(request, work())      # ClientGone when the connection closes first
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine, Mapping
from typing import TypeVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive

from engine.server.bodies import ClientGone

JSON_TYPE = "application/json; charset=utf-8"

T = TypeVar("T")


# Made once: `json.dumps` makes one for every call that asks for anything special.
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def to_json(value: object) -> str:
    """Compact JSON with non-ASCII letters as they are; never NaN."""
    return _ENCODER.encode(value)


def json_response(
    value: object, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """A whole JSON answer."""
    # A lone surrogate (JSON allows it, UTF-8 does not) can come back in an echoed name.
    body = to_json(value).encode("utf-8", "replace")
    return Response(body, status, {**(headers or {}), "content-type": JSON_TYPE})


async def wait_until_gone(receive: Receive) -> None:
    """Return when the client closes the connection; its body must have been read."""
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return


async def unless_gone(request: Request, work: Coroutine[object, object, T]) -> T:
    """The work's result; the work is cancelled when the client goes away first.

    Frameworks do not cancel a handler by themselves when its client is gone.

    Raises:
        ClientGone: the client closed the connection.
    """
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(wait_until_gone(request.receive))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientGone
        return task.result()
    finally:
        gone.cancel()
        task.cancel()
        # The work's own cleanup (stopping the worker) is done before we go on.
        await asyncio.gather(task, gone, return_exceptions=True)
