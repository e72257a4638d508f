"""The body of `POST /v1/completions`, checked (spec/api.md section 9.1).

The prompt is a text, not a conversation: no template, no thinking, no tools.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.core.config import Effort, RunConfig
from engine.core.errors import InputError
from engine.server.chat_request import CAP_NAMES, MAX_CHOICES, read_include_usage
from engine.server.errors import (
    invalid_type,
    invalid_value,
    missing,
    unsupported_parameter,
    unsupported_value,
)
from engine.server.fields import Fields
from engine.server.sampling_fields import read_output_cap, read_sampling, read_stops
from engine.server.shared_fields import read_fit, read_model
from engine.server.tokenize import read_token_ids
from engine.text.tokenizer import Tokenizer
from engine.worker.messages import SamplingParams

DEFAULT_MAX_TOKENS = 16  # OpenAI's
MAX_LOGPROBS = 5

REFUSED = {
    "echo": "the prompt is not sent back",
    "suffix": "text is only continued at its end",
    "chat_template": "no template is used here; use /v1/chat/completions",
    "grammar": "use /v1/chat/completions with response_format",
    "json_schema": "use /v1/chat/completions with response_format",
    "response_format": "use /v1/chat/completions",
    "structured_outputs": "use /v1/chat/completions with response_format",
}
REFUSED_PREFIX = "guided_"


@dataclass(frozen=True, slots=True)
class CompletionRequest:
    """A checked request.

    Attributes:
        model: the name that the client gave.
        prompt: token ids.
        cap: most output tokens; None = what the context leaves.
    """

    model: str | None
    prompt: tuple[int, ...]
    sampling: SamplingParams
    stops: tuple[str, ...]
    cap: int | None
    fit_max_tokens: bool
    choices: int
    stream: bool
    include_usage: bool


def read_completion_request(
    data: dict[str, object], config: RunConfig, tokenizer: Tokenizer
) -> CompletionRequest:
    """Check a body.

    Raises:
        ApiError: 400 for the first problem.
    """
    body = Fields(data)
    for key, reason in REFUSED.items():
        if body.get(key) not in (None, False, ""):
            raise unsupported_parameter(key, reason)
    for key, value in data.items():
        if key.startswith(REFUSED_PREFIX) and value is not None:
            reason = "use /v1/chat/completions with response_format"
            raise unsupported_parameter(body.at(key), reason)
    if (body.integer("best_of", 1) or 1) > 1:
        raise unsupported_value("best_of", "must be 1; every answer is given")
    top_logprobs = body.integer("logprobs", 0, MAX_LOGPROBS)
    stream = body.boolean("stream") or False
    has_cap = any(body.get(name) is not None for name in CAP_NAMES)
    return CompletionRequest(
        model=read_model(body),
        prompt=_read_prompt(body, tokenizer),
        sampling=read_sampling(
            body,
            Effort.NONE,
            config.sampling,
            tokenizer.vocab_size,
            top_logprobs=-1 if top_logprobs is None else top_logprobs,
        ),
        stops=read_stops(body),
        cap=read_output_cap(body, *CAP_NAMES) if has_cap else DEFAULT_MAX_TOKENS,
        fit_max_tokens=read_fit(body, config),
        choices=body.integer("n", 1, MAX_CHOICES) or 1,
        stream=stream,
        include_usage=stream and read_include_usage(body),
    )


def _read_prompt(body: Fields, tokenizer: Tokenizer) -> tuple[int, ...]:
    """The prompt's ids: of a string, a list of ids, or a list with exactly one of these."""
    value, path = body.get("prompt"), "prompt"
    if value is None:
        raise missing(path)
    if isinstance(value, list) and any(isinstance(item, (str, list)) for item in value):
        if len(value) > 1:
            raise unsupported_value(path, "may hold one prompt only; send one request for each")
        value, path = value[0], "prompt[0]"
    if isinstance(value, list):
        ids = read_token_ids(value, path, tokenizer.vocab_size)
    elif isinstance(value, str):
        try:
            ids = tokenizer.encode(value, parse_special=True)
        except InputError as error:
            raise invalid_value(path, f"cannot be tokenized: {error.message}") from error
    else:
        raise invalid_type(path, "a string or an array of token ids", value)
    if not ids:
        raise invalid_value(path, "must not be empty")
    return tuple(ids)
