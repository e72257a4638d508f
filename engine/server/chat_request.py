"""The body of `POST /v1/chat/completions`, checked and put in our terms (spec/api.md section 5).

What we cannot honour and would change the output is refused by name; what is only a hint is ignored.
Hand-written, because a client's mistake must come back as one sentence with the field's path.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from engine.core.config import Effort, RunConfig
from engine.server.chat_messages import read_messages
from engine.server.errors import (
    invalid_type,
    unsupported_parameter,
    unsupported_value,
)
from engine.server.fields import Fields
from engine.server.generation_request import Conversation, GenerationRequest
from engine.server.levels import chat_effort, preserve_thinking
from engine.server.response_formats import read_response_format
from engine.server.sampling_fields import (
    read_output_cap,
    read_sampling,
    read_stops,
    read_top_logprobs,
)
from engine.server.shared_fields import read_budget, read_fit, read_model
from engine.server.tool_fields import read_tools

logger = logging.getLogger(__name__)

MAX_CHOICES = 4
CAP_NAMES = ("max_completion_tokens", "max_tokens", "n_predict")

# Fields that would change the output, with what to do instead.
REFUSED = {
    "audio": "only text is generated",
    "web_search_options": "the server never uses the network for a request",
    "chat_template": "the model's own template is used",
    "grammar": "use response_format with a JSON schema",
    "json_schema": "use response_format",
    "structured_outputs": "use response_format with a JSON schema",
}
REFUSED_PREFIX = "guided_"

KNOWN = frozenset(
    {
        *("model", "messages", "stream", "stream_options", "n", "logprobs", "top_logprobs"),
        *("tools", "tool_choice", "parallel_tool_calls", "response_format", "modalities"),
        *("reasoning_effort", "reasoningEffort", "reasoning", "chat_template_kwargs"),
        *("enable_thinking", "reasoning_budget_tokens", "fit_max_tokens", "timings_per_token"),
        *(
            "return_progress",
            "stratum_mcp",
            "temperature",
            "top_p",
            "top_k",
            "min_p",
            "presence_penalty",
        ),
        *("frequency_penalty", "repetition_penalty", "repeat_penalty", "penalty_last_n"),
        *("repeat_last_n", "seed", "logit_bias", "stop", "stop_sequences", *CAP_NAMES),
        # hints, accepted and ignored
        *("user", "store", "metadata", "service_tier", "safety_identifier", "prompt_cache_key"),
        *("prompt_cache_retention", "prediction", "verbosity", "add_generation_prompt"),
    }
)


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A checked chat request.

    Attributes:
        generation: what to generate, in terms of no protocol.
        include_usage: the stream's last chunk tells the counts.
        return_progress: chunks tell how far the prompt has been read.
        timings_per_token: chunks tell the timings so far.
    """

    generation: GenerationRequest
    stream: bool
    include_usage: bool
    return_progress: bool
    timings_per_token: bool


def read_chat_request(data: dict[str, object], config: RunConfig, vocab_size: int) -> ChatRequest:
    """Check a body.

    Raises:
        ApiError: 400 for the first problem.
    """
    body = Fields(data)
    _refuse(body)
    model = read_model(body)
    messages = read_messages(body)
    tools = read_tools(body)
    continues = messages[-1]["role"] == "assistant" and "tool_calls" not in messages[-1]
    effort = chat_effort(body, config.default_reasoning_effort)
    if continues:
        effort = Effort.NONE
    stream = body.boolean("stream") or False
    _note_unknown(body)
    conversation = Conversation(
        messages=tuple(messages),
        tools=tools,
        effort=effort,
        preserve_thinking=preserve_thinking(body),
        continues=continues,
    )
    generation = GenerationRequest(
        model=model,
        conversation=conversation,
        sampling=read_sampling(
            body, effort, config.sampling, vocab_size, top_logprobs=read_top_logprobs(body)
        ),
        stops=read_stops(body),
        cap=read_output_cap(body, *CAP_NAMES),
        budget=read_budget(body, config),
        fit_max_tokens=read_fit(body, config),
        choices=body.integer("n", 1, MAX_CHOICES) or 1,
        response_format=read_response_format(body.table("response_format")),
        mcp_servers=_read_mcp(body),
    )
    return ChatRequest(
        generation=generation,
        stream=stream,
        include_usage=stream and read_include_usage(body),
        return_progress=body.boolean("return_progress") or False,
        timings_per_token=body.boolean("timings_per_token") or False,
    )


def _refuse(body: Fields) -> None:
    for key, value in body.data.items():
        if value is None:
            continue
        if key.startswith(REFUSED_PREFIX):
            raise unsupported_parameter(body.at(key), "use response_format")
        if key in REFUSED and value is not False:
            raise unsupported_parameter(key, REFUSED[key])
    if body.boolean("add_generation_prompt") is False:
        raise unsupported_parameter("add_generation_prompt", "an answer is always generated")
    modalities = body.array("modalities")
    if modalities is not None and modalities != ["text"]:
        raise unsupported_value("modalities", 'must be ["text"]; only text is generated')


def read_include_usage(body: Fields) -> bool:
    """Whether a stream's last chunk tells the counts."""
    options = body.table("stream_options")
    return options is not None and options.boolean("include_usage") is True


def _read_mcp(body: Fields) -> tuple[str, ...] | None:
    """Names of configured MCP servers; empty = all, None = the request does not want any."""
    value = body.get("stratum_mcp")
    if isinstance(value, list):
        for index, name in enumerate(value):
            if not isinstance(name, str):
                raise invalid_type(f"stratum_mcp[{index}]", "a string", name)
        return tuple(value) or None
    return () if body.boolean("stratum_mcp") else None


def _note_unknown(body: Fields) -> None:
    unknown = sorted(key[:40] for key in body.data if key not in KNOWN)
    if unknown:
        logger.debug("ignored fields: %s", ", ".join(unknown))
