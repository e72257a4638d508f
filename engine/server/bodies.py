"""Request bodies: read under limits of size and time, then a JSON object (spec/api.md section 1).

The limit holds while reading, so a chunked body without a length cannot fill the memory.
"""

from __future__ import annotations

import asyncio
import codecs
from typing import NoReturn

from starlette.requests import ClientDisconnect, Request

from engine.core.strict_json import BadJsonError, parse_json
from engine.server.errors import ApiError, json_type

MIB = 1 << 20

# A client that sends nothing of its body for this long is answered 408.
BODY_SILENCE_S = 30.0


class ClientGone(Exception):  # noqa: N818 - not an error: nobody is left to answer
    """The client closed the connection."""


async def read_body(request: Request, max_body_mib: int) -> bytes:
    """The bytes of a JSON body; none when the request has no body.

    Raises:
        ApiError: 415 for another content type, 413 over the limit, 408 for a silent client.
        ClientGone: the client closed the connection while sending.
    """
    length = request.headers.get("content-length", "0")
    if length == "0" and "transfer-encoding" not in request.headers:
        return b""
    _check_headers(request)
    limit = max_body_mib * MIB
    if length.isdecimal() and int(length) > limit:
        _refuse_large(max_body_mib)
    body = bytearray()
    stream = request.stream()
    while True:
        try:
            part = await asyncio.wait_for(anext(stream, None), BODY_SILENCE_S)
        except TimeoutError as error:
            raise ApiError(
                408,
                "request_timeout",
                f"Nothing of the request body arrived for {BODY_SILENCE_S:.0f} seconds.",
                headers={"connection": "close"},
            ) from error
        except ClientDisconnect as error:
            raise ClientGone from error
        if part is None:
            return bytes(body)
        body += part
        if len(body) > limit:
            _refuse_large(max_body_mib)


def parse_object(raw: bytes) -> dict[str, object]:
    """The JSON object that a request body is: UTF-8 (a byte order mark is skipped), strict.

    Raises:
        ApiError: 400 for anything else.
    """
    try:
        value = parse_json(raw.removeprefix(codecs.BOM_UTF8).decode("utf-8"))
    except UnicodeDecodeError as error:
        raise _invalid_json(f"it is not UTF-8 (byte {error.start})") from error
    except BadJsonError as error:
        raise _invalid_json(str(error)) from error
    if not isinstance(value, dict):
        message = f"The request body must be a JSON object, not {json_type(value)}."
        raise ApiError(400, "invalid_type", message)
    return value


def _check_headers(request: Request) -> None:
    content_type = request.headers.get("content-type")
    if content_type is None:
        if "origin" in request.headers:
            raise _unsupported("A request from a web page needs Content-Type: application/json.")
    elif content_type.partition(";")[0].strip().lower() != "application/json":
        raise _unsupported("The request body must have Content-Type: application/json.")
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("identity", ""):
        raise _unsupported("Compressed request bodies are not accepted; send the JSON as it is.")


def _refuse_large(max_body_mib: int) -> NoReturn:
    # Not closed here: unread bytes would reset the connection before the client has the answer.
    raise ApiError(
        413,
        "request_too_large",
        f"The request body is larger than {max_body_mib} MiB (setting max_body_mib).",
    )


def _unsupported(message: str) -> ApiError:
    return ApiError(415, "unsupported_media_type", message)


def _invalid_json(reason: str) -> ApiError:
    return ApiError(400, "invalid_json", f"The request body is not valid JSON: {reason}.")
