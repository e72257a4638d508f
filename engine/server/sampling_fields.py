"""Sampling fields that all generation routes share (spec/api.md section 3).

A value comes from the request, else from the config's `sampling` table, else from the model's
published values, which differ between thinking and not thinking.
"""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass, replace

from engine.core.config import Effort, SamplingDefaults
from engine.server.errors import invalid_type, invalid_value
from engine.server.fields import INT64_MAX, Fields, as_integer
from engine.worker.messages import SamplingParams

MAX_BIASES = 1024
MAX_STOPS = 16
MAX_STOP_CHARS = 256
MAX_TOP_LOGPROBS = 20

# Published by the model's authors.
THINKING = SamplingParams(temperature=1.0, top_p=0.95, top_k=20)
NOT_THINKING = SamplingParams(temperature=0.7, top_p=0.8, top_k=20, presence_penalty=1.5)


@dataclass(frozen=True, slots=True)
class NumberField:
    """A sampling value: its names in requests, and its range."""

    name: str
    low: float
    high: float
    above_low: bool = False
    alias: str | None = None


NUMBER_FIELDS = (
    NumberField("temperature", 0, 2),
    NumberField("top_p", 0, 1, above_low=True),
    NumberField("min_p", 0, 1),
    NumberField("presence_penalty", -2, 2),
    NumberField("frequency_penalty", -2, 2),
    NumberField("repetition_penalty", 0, 2, above_low=True, alias="repeat_penalty"),
)


def read_sampling(
    body: Fields,
    effort: Effort,
    defaults: SamplingDefaults,
    vocab_size: int,
    top_logprobs: int = -1,
) -> SamplingParams:
    """The effective sampling values of a request; a seed is drawn when none is given.

    Args:
        body: of the request.
        effort: the published defaults depend on it.
        defaults: of the config.
        vocab_size: bounds token ids.
        top_logprobs: as in `SamplingParams`; protocols ask for them in different ways.

    Raises:
        ApiError: 400 for a wrong type or a value out of range.
    """
    published = NOT_THINKING if effort is Effort.NONE else THINKING
    numbers = _numbers(body, defaults, published)
    top_k = body.integer("top_k", 0)
    if top_k is None:
        top_k = published.top_k if defaults.top_k is None else defaults.top_k
    last_n = body.integer(body.first("penalty_last_n", "repeat_last_n"), -1)
    seed = body.integer("seed", -(2**63))
    return SamplingParams(
        temperature=numbers["temperature"],
        top_k=min(top_k, vocab_size),
        top_p=numbers["top_p"],
        min_p=numbers["min_p"],
        presence_penalty=numbers["presence_penalty"],
        frequency_penalty=numbers["frequency_penalty"],
        repetition_penalty=numbers["repetition_penalty"],
        penalty_last_n=published.penalty_last_n if last_n is None else last_n,
        logit_bias=_read_logit_bias(body, vocab_size),
        seed=secrets.randbits(53) if seed is None or seed < 0 else seed,
        top_logprobs=top_logprobs,
    )


def default_sampling(effort: Effort, defaults: SamplingDefaults) -> SamplingParams:
    """What a request that gives no sampling values gets; the seed is not drawn."""
    published = NOT_THINKING if effort is Effort.NONE else THINKING
    names = (*(field.name for field in NUMBER_FIELDS), "top_k")
    given = {name: getattr(defaults, name) for name in names}
    return replace(published, **{name: value for name, value in given.items() if value is not None})


def sampling_headers(sampling: SamplingParams) -> dict[str, str]:
    """What tells a client with which values its answer is made: `x-seed`, and all of them as JSON."""
    names = (*(field.name for field in NUMBER_FIELDS), "top_k", "seed")
    values = {name: getattr(sampling, name) for name in names}
    return {
        "x-seed": str(sampling.seed),
        "x-sampling": json.dumps(values, separators=(",", ":")),
    }


def _numbers(
    body: Fields, defaults: SamplingDefaults, published: SamplingParams
) -> dict[str, float]:
    values: dict[str, float] = {}
    for field in NUMBER_FIELDS:
        key = body.first(field.name, field.alias) if field.alias else field.name
        value = body.number(key, field.low, field.high, above_low=field.above_low)
        if value is None:
            value = getattr(defaults, field.name)
        values[field.name] = getattr(published, field.name) if value is None else value
    return values


def _read_logit_bias(body: Fields, vocab_size: int) -> tuple[tuple[int, float], ...]:
    table = body.table("logit_bias")
    if table is None:
        return ()
    if len(table.data) > MAX_BIASES:
        raise invalid_value("logit_bias", f"may hold at most {MAX_BIASES} tokens")
    biases: dict[int, float] = {}
    for key in table.data:
        path = table.at(key)
        digits = key.strip()
        is_number = digits.isascii() and digits.isdecimal()
        token_id = int(digits.lstrip("0")[:12] or "0") if is_number else vocab_size
        if token_id >= vocab_size:
            raise invalid_value(path, f"is no token id; ids go from 0 to {vocab_size - 1}")
        bias = table.number(key, -100, 100)
        if bias is None:
            raise invalid_type(path, "a number", None)
        biases[token_id] = bias
    return tuple(biases.items())


def read_stops(body: Fields) -> tuple[str, ...]:
    """The stop strings; empty ones are ignored."""
    key = body.first("stop", "stop_sequences")
    value = body.get(key)
    if value is None:
        return ()
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list):
        raise invalid_type(body.at(key), "a string or an array of strings", value)
    if len(texts) > MAX_STOPS:
        raise invalid_value(body.at(key), f"may hold at most {MAX_STOPS} strings")
    stops: list[str] = []
    for index, text in enumerate(texts):
        if not isinstance(text, str):
            raise invalid_type(f"{body.at(key)}[{index}]", "a string", text)
        if len(text) > MAX_STOP_CHARS:
            raise invalid_value(
                f"{body.at(key)}[{index}]", f"may be at most {MAX_STOP_CHARS} characters long"
            )
        if text:
            stops.append(text)
    return tuple(stops)


def read_output_cap(body: Fields, *names: str) -> int | None:
    """The most tokens that the answer may have; None (absent, null, -1) is no cap of its own."""
    key = body.first(*names)
    if as_integer(body.get(key)) == -1:
        return None
    return body.integer(key, 1, INT64_MAX)


def read_top_logprobs(body: Fields) -> int:
    """How many alternatives each token's log-probability comes with; -1 = none wanted at all."""
    wanted = body.boolean("logprobs")
    top = body.integer("top_logprobs", 0, MAX_TOP_LOGPROBS)
    if top is not None and not wanted:
        raise invalid_value("top_logprobs", "needs logprobs: true")
    return (top or 0) if wanted else -1
