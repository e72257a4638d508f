"""The upstream's errors as ours."""

from __future__ import annotations

from collections.abc import Mapping

from engine.core.strict_json import BadJsonError, parse_json
from engine.server.errors import ApiError, shortened

JsonObject = dict[str, object]

# What all of these servers say of a context that is too long.
TOO_LONG = "maximum context length"
# Another Stratum says how long by these keys.
COUNTS = ("n_prompt_tokens", "n_ctx", "max_tokens")


def upstream_error(status: int, body: bytes, headers: Mapping[str, str]) -> ApiError:
    """The upstream's refusal as ours.

    What is wrong with the request stays as it is, because clients read those words (a context that
    is too long). That our key is refused, or that it fails by itself, is not the client's mistake.
    """
    message, code, param, counts = _error_fields(body)
    if status in (401, 403):
        return ApiError(
            500,
            "engine_failed",
            f"The upstream refused the server's key (HTTP {status}). Set upstream_key.",
            headers={"x-should-retry": "false"},
        )
    if status == 429:
        wait = headers.get("retry-after", "")
        after = {"retry-after": str(min(int(wait), 60))} if wait.isdecimal() else {}
        return ApiError(429, "queue_full", message or "The upstream is busy.", headers=after)
    if status == 404:
        return ApiError(404, "model_not_found", message or "The upstream does not have this.")
    if 400 <= status < 500:
        if TOO_LONG in message and code is None:
            code = "context_length_exceeded"
        text = message or f"The upstream refused the request (HTTP {status})."
        return ApiError(400, code or "invalid_value", text, param=param, extra=counts)
    return ApiError(503, "engine_failed", f"The upstream failed (HTTP {status}).")


def error_in(value: JsonObject) -> ApiError | None:
    """The error that an answer or a stream's event is, if it is one."""
    error = value.get("error")
    if not error:
        return None
    message = error.get("message") if isinstance(error, dict) else error
    text = message if isinstance(message, str) and message else "The upstream failed."
    return ApiError(503, "engine_failed", text)


def _error_fields(body: bytes) -> tuple[str, str | None, str | None, dict[str, int]]:
    """Message, code, param and token counts of an error body in one of the shapes in use."""
    try:
        value = parse_json(body.decode("utf-8", "replace"))
    except BadJsonError:
        return "", None, None, {}
    if not isinstance(value, dict):
        return "", None, None, {}
    error = value.get("error", value)
    if not isinstance(error, dict):
        return shortened(str(error), 1000), None, None, {}
    message = error.get("message")
    code, param = error.get("code"), error.get("param")
    return (
        shortened(message, 1000) if isinstance(message, str) else "",
        code if isinstance(code, str) else None,  # vLLM puts the status number there
        param if isinstance(param, str) else None,
        {key: count for key in COUNTS if isinstance(count := error.get(key), int)},
    )
