"""The body of `POST /v1/responses`, checked and put in our terms (spec/api.md section 9.2).

The answer repeats the request's settings with the values that are in effect, so they are collected
here too. What would need a memory of earlier responses is refused: the server is stateless.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from engine.core.config import Effort, RunConfig
from engine.server.errors import invalid_type, unsupported_parameter
from engine.server.fields import Fields
from engine.server.generation_request import Conversation, GenerationRequest
from engine.server.levels import chat_effort, preserve_thinking
from engine.server.response_formats import read_response_format
from engine.server.responses_items import read_input
from engine.server.responses_tools import ResponsesTools, read_responses_tools
from engine.server.sampling_fields import (
    MAX_TOP_LOGPROBS,
    read_output_cap,
    read_sampling,
    read_stops,
)
from engine.server.shared_fields import read_budget, read_fit, read_model

JsonObject = dict[str, object]

STATELESS = "this server is stateless and keeps no responses; send the whole conversation as input"
REFUSED = {
    "previous_response_id": STATELESS,
    "conversation": STATELESS,
    "background": "this server is stateless, so an answer must be waited for; use stream",
    "prompt": "this server is stateless and keeps no prompt templates; send instructions and input",
}

# Labels of the client's own, given back as they came.
LABELS = ("user", "safety_identifier", "prompt_cache_key")

ENCRYPTED_REASONING = "reasoning.encrypted_content"
LOGPROBS = "message.output_text.logprobs"


@dataclass(frozen=True, slots=True)
class ResponsesRequest:
    """A checked request.

    Attributes:
        generation: what to generate, in terms of no protocol.
        tools: to give calls back in the client's terms.
        seals_reasoning: reasoning items carry `encrypted_content`.
        settings: what the answer repeats.
    """

    generation: GenerationRequest
    tools: ResponsesTools
    stream: bool
    seals_reasoning: bool
    settings: Mapping[str, object]


def read_responses_request(
    data: dict[str, object], config: RunConfig, vocab_size: int
) -> ResponsesRequest:
    """Check a body.

    Raises:
        ApiError: 400 for the first problem.
    """
    body = Fields(data)
    for key, reason in REFUSED.items():
        if body.get(key) is not None and body.get(key) is not False:
            raise unsupported_parameter(key, reason)
    messages = read_input(body)
    tools = read_responses_tools(body)
    effort = chat_effort(body, config.default_reasoning_effort)
    include = _read_include(body)
    text = body.table("text") or Fields({}, "text")
    generation = GenerationRequest(
        model=read_model(body),
        conversation=Conversation(
            messages=tuple(messages),
            tools=tools.use,
            effort=effort,
            preserve_thinking=preserve_thinking(body),
        ),
        sampling=read_sampling(
            body,
            effort,
            config.sampling,
            vocab_size,
            top_logprobs=_read_top_logprobs(body, include),
        ),
        stops=read_stops(body),
        cap=read_output_cap(body, "max_output_tokens"),
        budget=read_budget(body, config),
        fit_max_tokens=read_fit(body, config),
        response_format=read_response_format(text.table("format")),
    )
    return ResponsesRequest(
        generation=generation,
        tools=tools,
        stream=body.boolean("stream") or False,
        seals_reasoning=ENCRYPTED_REASONING in include,
        settings=_settings(body, text, generation, tools, effort),
    )


def _read_include(body: Fields) -> frozenset[str]:
    """What else the answer should hold; unknown wishes are ignored."""
    wanted: set[str] = set()
    for index, value in enumerate(body.array("include") or []):
        if not isinstance(value, str):
            raise invalid_type(f"include[{index}]", "a string", value)
        wanted.add(value)
    return frozenset(wanted)


def _read_top_logprobs(body: Fields, include: frozenset[str]) -> int:
    """How many alternatives each token comes with; -1 = no log-probabilities at all."""
    top = body.integer("top_logprobs", 0, MAX_TOP_LOGPROBS) or 0
    return top if top or LOGPROBS in include else -1


def _settings(
    body: Fields,
    text: Fields,
    generation: GenerationRequest,
    tools: ResponsesTools,
    effort: Effort,
) -> JsonObject:
    form = text.table("format")
    sampling = generation.sampling
    settings: JsonObject = {
        "instructions": body.get("instructions"),
        "max_output_tokens": generation.cap,
        "max_tool_calls": None,
        "metadata": _metadata(body),
        "parallel_tool_calls": tools.use.parallel,
        "previous_response_id": None,
        "reasoning": {"effort": effort.value, "summary": None},
        "service_tier": "default",
        "store": False,
        "temperature": sampling.temperature,
        "text": {"format": {"type": "text"} if form is None else dict(form.data)},
        "tool_choice": "auto" if body.get("tool_choice") is None else body.get("tool_choice"),
        "tools": list(tools.echoed),
        "top_logprobs": max(sampling.top_logprobs, 0),
        "top_p": sampling.top_p,
        "truncation": "disabled",
    }
    for key in LABELS:
        value = body.get(key)
        settings[key] = value if isinstance(value, str) else None
    return settings


def _metadata(body: Fields) -> JsonObject:
    value = body.get("metadata")
    if not isinstance(value, dict):
        return {}
    return {key: text for key, text in value.items() if isinstance(text, str)}
