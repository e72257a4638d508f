"""The bodies of `/v1/messages` and `count_tokens`, checked and put in our terms (spec/api.md 9.3).

Fields that are only hints (`metadata`, `cache_control`, `context_management`, ...) are ignored, and
so is whatever is unknown: clients send new ones with every release.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from engine.core.config import Effort, RunConfig
from engine.server.anthropic_messages import read_messages
from engine.server.anthropic_thinking import read_thinking
from engine.server.anthropic_tools import read_tools
from engine.server.errors import (
    THREAD_UNSUPPORTED,
    ApiError,
    missing,
    unsupported_parameter,
    unsupported_value,
)
from engine.server.fields import Fields
from engine.server.generation_request import Conversation, GenerationRequest
from engine.server.sampling_fields import read_sampling, read_stops
from engine.server.shared_fields import read_budget, read_fit, read_model
from engine.text.output_rules import FREE_TEXT, FormatKind, ResponseFormat

logger = logging.getLogger(__name__)

KNOWN = frozenset(
    {
        *("model", "messages", "system", "max_tokens", "stream", "tools", "tool_choice"),
        *("thinking", "output_config", "output_format", "stop_sequences", "temperature"),
        *("top_p", "top_k", "min_p", "presence_penalty", "frequency_penalty", "seed", "logit_bias"),
        *("repetition_penalty", "repeat_penalty", "penalty_last_n", "repeat_last_n", "stop"),
        *("reasoning_budget_tokens", "fit_max_tokens", "mcp_servers", "thread"),
        # hints, accepted and ignored
        *("metadata", "service_tier", "cache_control", "container", "context_management"),
        *("betas", "speed", "inference_geo", "diagnostics"),
    }
)


@dataclass(frozen=True, slots=True)
class MessagesRequest:
    """A checked request of `/v1/messages`."""

    generation: GenerationRequest
    stream: bool


def read_messages_request(
    data: dict[str, object], config: RunConfig, vocab_size: int
) -> MessagesRequest:
    """Check a body.

    Raises:
        ApiError: 400 for the first problem.
    """
    body = Fields(data)
    model = read_model(body)
    cap = body.integer("max_tokens", 1)
    if cap is None:
        raise missing("max_tokens")
    conversation, budget = read_conversation(body, config)
    sampling = read_sampling(body, conversation.effort, config.sampling, vocab_size)
    stream = body.boolean("stream") or False
    _note_unknown(body)
    generation = GenerationRequest(
        model=model,
        conversation=conversation,
        sampling=sampling,
        stops=read_stops(body),
        cap=cap,
        budget=read_budget(body, config, budget),
        fit_max_tokens=read_fit(body, config),
        response_format=_read_format(body),
    )
    return MessagesRequest(generation, stream)


def read_conversation(body: Fields, config: RunConfig) -> tuple[Conversation, int | None]:
    """What the prompt is made of (all that `count_tokens` needs), and the budget for thinking.

    Raises:
        ApiError: 400 for the first problem.
    """
    if body.array("mcp_servers"):
        raise unsupported_parameter("mcp_servers", "the server connects to none for a request")
    if body.get("thread") is not None:
        # With this code the SDK's tool runner goes on by sending the whole conversation.
        message = "thread is not supported: no conversation is kept here. Send all of it each time."
        raise ApiError(400, THREAD_UNSUPPORTED, message, param="thread")
    messages = read_messages(body)
    tools = read_tools(body)
    effort, budget = read_thinking(body, config)
    continues = messages[-1]["role"] == "assistant" and "tool_calls" not in messages[-1]
    if continues:
        effort = Effort.NONE
    conversation = Conversation(tuple(messages), tools, effort, continues=continues)
    return conversation, budget


def _read_format(body: Fields) -> ResponseFormat:
    """The form of the answer: `output_config.format`, or its older place at the top."""
    output = body.table("output_config")
    table = output.table("format") if output is not None else None
    if table is None:
        table = body.table("output_format")
    if table is None:
        return FREE_TEXT
    if table.required_string("type") != "json_schema":
        raise unsupported_value(table.at("type"), "must be json_schema")
    schema = table.table("schema")
    if schema is None:
        raise missing(table.at("schema"))
    return ResponseFormat(FormatKind.JSON_SCHEMA, schema.data, path=schema.path)


def _note_unknown(body: Fields) -> None:
    unknown = sorted(key[:40] for key in body.data if key not in KNOWN)
    if unknown:
        logger.debug("ignored fields: %s", ", ".join(unknown))
