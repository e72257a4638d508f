"""Request bodies: read under a limit, then JSON or a clear error (spec/api.md section 1).

The limit holds while reading, so a chunked body without a length cannot fill the memory.
"""

from __future__ import annotations

import asyncio
import codecs
import json
from typing import NoReturn

from starlette.requests import ClientDisconnect, Request

from engine.server.errors import ApiError, invalid_type

MIB = 1 << 20

# A client that sends nothing of its body for this long is answered 408.
BODY_SILENCE_S = 30.0

MAX_DEPTH = 128

# Parsing a larger body would hold up the streams of other clients, so a thread does it.
THREAD_PARSE_BYTES = 256 * 1024

CLOSE = {"connection": "close"}


class ClientGone(Exception):  # noqa: N818 - not an error: nobody is left to answer
    """The client closed the connection."""


async def read_object(request: Request, max_body_mib: int) -> dict[str, object]:
    """The request's JSON object.

    Raises:
        ApiError: 415 for another content type, 413 over the limit, 408 for a silent client, 400 for
            what is not a JSON object.
        ClientGone: the client closed the connection while sending.
    """
    _check_headers(request)
    raw = await _read(request, max_body_mib)
    if len(raw) > THREAD_PARSE_BYTES:
        value = await asyncio.to_thread(parse_json, raw)
    else:
        value = parse_json(raw)
    if not isinstance(value, dict):
        raise invalid_type("The request body", "a JSON object", value)
    return value


def parse_json(raw: bytes) -> object:
    """Strict JSON: UTF-8 (a byte order mark is skipped), finite numbers, at most 128 levels.

    Raises:
        ApiError: 400 `invalid_json`.
    """
    try:
        text = raw.removeprefix(codecs.BOM_UTF8).decode("utf-8")
    except UnicodeDecodeError as error:
        raise _invalid_json(f"it is not UTF-8 (byte {error.start})") from error
    if not text.strip():
        raise _invalid_json("it is empty")
    try:
        value: object = json.loads(text, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        raise _invalid_json(f"{error.msg}, line {error.lineno} column {error.colno}") from error
    except ValueError as error:  # a number of thousands of digits
        raise _invalid_json("a number is too long") from error
    except RecursionError as error:
        raise _invalid_json(f"it is nested deeper than {MAX_DEPTH} levels") from error
    _check_values(value)
    return value


def _check_values(value: object) -> None:
    """Refuse deep nesting and numbers that overflowed to infinity (1e999)."""
    level: list[object] = [value]
    for _ in range(MAX_DEPTH):
        below: list[object] = []
        for item in level:
            if isinstance(item, dict):
                below += item.values()
            elif isinstance(item, list):
                below += item
            elif isinstance(item, float) and item in (float("inf"), float("-inf")):
                raise _invalid_json("a number is too large")
        if not below:
            return
        level = below
    if any(isinstance(item, (dict, list)) for item in level):
        raise _invalid_json(f"it is nested deeper than {MAX_DEPTH} levels")


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


async def _read(request: Request, max_body_mib: int) -> bytes:
    limit = max_body_mib * MIB
    length = request.headers.get("content-length", "")
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
                headers=CLOSE,
            ) from error
        except ClientDisconnect as error:
            raise ClientGone from error
        if part is None:
            return bytes(body)
        body += part
        if len(body) > limit:
            _refuse_large(max_body_mib)


def _refuse_large(max_body_mib: int) -> NoReturn:
    raise ApiError(
        413,
        "request_too_large",
        f"The request body is larger than {max_body_mib} MiB (setting max_body_mib).",
        headers=CLOSE,
    )


def _refuse_constant(name: str) -> NoReturn:
    raise _invalid_json(f"{name} is not a JSON number")


def _invalid_json(reason: str) -> ApiError:
    return ApiError(400, "invalid_json", f"The request body is not valid JSON: {reason}.")


def _unsupported(message: str) -> ApiError:
    return ApiError(415, "unsupported_media_type", message)
