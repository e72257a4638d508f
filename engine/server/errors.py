"""The error that a client gets: status, code, sentence, and the OpenAI error object.

    {"error": {"message": "...", "type": "invalid_request_error", "param": "top_p", "code": "..."}}

`param` and `code` are always there, null when not applicable (spec/api.md section 2). The SDKs choose
their exception by status alone and retry 408, 409, 429 and 5xx unless `x-should-retry` forbids it.
Anthropic's clients get Anthropic's shape and words:

    {"type": "error", "error": {"type": "...", "message": "..."}, "request_id": "req_..."}
"""

from __future__ import annotations

from collections.abc import Mapping

from engine.core.errors import EngineError

ExtraValue = str | int | None

ERROR_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
}

ANTHROPIC_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
}

# A code of Anthropic's own, by which their SDK knows what to do instead.
THREAD_UNSUPPORTED = "thread_unsupported_request"

# Seconds after which it is worth trying again (whole, at most 60).
RETRY_AFTER = {"queue_full": 2, "model_loading": 5, "queue_timeout": 5, "insufficient_vram": 30}

# Trying again would fail in the same way.
NEVER_RETRY = frozenset({"busy", "load_failed"})


class ApiError(Exception):
    """A request that is answered with an error.

    Attributes:
        status: HTTP status.
        code: stable identifier, such as `invalid_value`.
        message: one sentence; never a path, a key or a stack trace.
        param: the field, as a path such as `messages[2].content[0].type`.
        headers: further response headers.
        extra: further keys of the error object, such as `n_ctx`.
    """

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        param: str | None = None,
        headers: Mapping[str, str] | None = None,
        extra: Mapping[str, ExtraValue] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.param = param
        self.headers = {**_retry_headers(code), **(headers or {})}
        self.extra = dict(extra or {})

    @property
    def error_type(self) -> str:
        """OpenAI's name for the class of errors that the status belongs to."""
        fallback = "server_error" if self.status >= 500 else "invalid_request_error"
        return ERROR_TYPES.get(self.status, fallback)

    def openai_body(self) -> dict[str, object]:
        """The whole body for OpenAI and service routes."""
        return {
            "error": {
                "message": self.message,
                "type": self.error_type,
                "param": self.param,
                "code": self.code,
                **self.extra,
            }
        }

    @property
    def anthropic_type(self) -> str:
        """Anthropic's name for the class of errors that the status belongs to."""
        fallback = "api_error" if self.status >= 500 else "invalid_request_error"
        return ANTHROPIC_TYPES.get(self.status, fallback)

    def anthropic_body(self, request_id: str | None = None) -> dict[str, object]:
        """The whole body for `/v1/messages*`; without the id it is the data of an error event."""
        error: dict[str, object] = {
            "type": self.anthropic_type,
            "message": self.anthropic_message(),
        }
        if self.code == THREAD_UNSUPPORTED:
            error["details"] = {"error_code": self.code}
        body: dict[str, object] = {"type": "error", "error": error}
        return body if request_id is None else {**body, "request_id": request_id}

    def anthropic_message(self) -> str:
        """The sentence; about the context in the words by which agents know that they must compact."""
        if self.code != "context_length_exceeded":
            return self.message
        if "n_prompt_tokens" not in self.extra:  # an upstream's own words
            return f"prompt is too long: {self.message}"
        prompt, context = self.extra["n_prompt_tokens"], self.extra["n_ctx"]
        cap = self.extra.get("max_tokens")
        if cap is None:
            return f"prompt is too long: {prompt} tokens > {context} maximum"
        return (
            f"input length and `max_tokens` exceed context limit: {prompt} + {cap} > {context}, "
            "decrease input length or `max_tokens` and try again"
        )


def shortened(text: str, limit: int = 80) -> str:
    """What a client wrote, fit to be quoted in a sentence."""
    return text if len(text) <= limit else text[: limit - 3] + "..."


def _retry_headers(code: str) -> dict[str, str]:
    if code in NEVER_RETRY:
        return {"x-should-retry": "false"}
    if code in RETRY_AFTER:
        return {"retry-after": str(RETRY_AFTER[code])}
    return {}


def missing(param: str) -> ApiError:
    """A required field is not there."""
    return ApiError(
        400,
        "missing_required_parameter",
        f"The required field {param} is missing.",
        param=param,
    )


def invalid_type(param: str, expected: str, value: object) -> ApiError:
    """A field has another JSON type than it may have."""
    return ApiError(
        400, "invalid_type", f"{param} must be {expected}, not {json_type(value)}.", param=param
    )


def invalid_value(param: str, reason: str) -> ApiError:
    """A field has the right type and a value that cannot be used."""
    return ApiError(400, "invalid_value", f"{param} {reason}.", param=param)


def unsupported_parameter(param: str, reason: str) -> ApiError:
    """A field that would change the output, and that we cannot honour."""
    return ApiError(
        400, "unsupported_parameter", f"{param} is not supported: {reason}.", param=param
    )


def unsupported_value(param: str, reason: str) -> ApiError:
    """A field is known, but not with this value."""
    return ApiError(400, "unsupported_value", f"{param} {reason}.", param=param)


def load_error(error: EngineError) -> ApiError:
    """503 for a model that could not be loaded."""
    code = error.code if error.code == "insufficient_vram" else "load_failed"
    return ApiError(503, code, error.message)


def not_found(message: str = "There is nothing at this address.") -> ApiError:
    """An unknown path or id."""
    return ApiError(404, "not_found", message)


def internal_error() -> ApiError:
    """500 for our own mistakes; the details are in the log."""
    return ApiError(500, "internal_error", "The server made a mistake; its log has the details.")


def json_type(value: object) -> str:
    """The name of a value's JSON type, with its article."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, (int, float)):
        return "a number"
    if isinstance(value, str):
        return "a string"
    return "an array" if isinstance(value, list) else "an object"
