"""A checked request of any protocol as the body of an OpenAI chat request for the upstream."""

from __future__ import annotations

from engine.core.config import Effort
from engine.server.answers import to_json
from engine.server.generation_request import Conversation, GenerationRequest, Message
from engine.text.output_rules import CallMode, FormatKind, ResponseFormat

JsonObject = dict[str, object]

# What the model's template calls the levels; "none" is a switch of its own.
TEMPLATE_LEVELS = {Effort.LOW: "low", Effort.MEDIUM: "medium", Effort.HIGH: "xhigh"}


def chat_body(
    request: GenerationRequest, model: str, choice: int, *, continues_by_flags: bool = False
) -> JsonObject:
    """The body: streamed, one answer, usage at its end.

    Args:
        request: what is wanted.
        model: the upstream's name for it.
        choice: which of several answers; the seed grows with it.
        continues_by_flags: a last message of the assistant is continued only on request there.
    """
    sampling = request.sampling
    body: JsonObject = {
        "model": model,
        "messages": [_message(message) for message in request.conversation.messages],
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k or -1,
        "min_p": sampling.min_p,
        "presence_penalty": sampling.presence_penalty,
        "frequency_penalty": sampling.frequency_penalty,
        "repetition_penalty": sampling.repetition_penalty,
        "seed": (sampling.seed + choice) & 0x7FFF_FFFF_FFFF_FFFF,
        "chat_template_kwargs": _template_options(request.conversation),
        **_tools(request.conversation),
    }
    if not sampling.top_k:
        del body["top_k"]  # servers disagree about how "all" is written, and agree about silence
    if sampling.logit_bias:
        body["logit_bias"] = {str(token): bias for token, bias in sampling.logit_bias}
    if sampling.top_logprobs >= 0:
        body |= {"logprobs": True, "top_logprobs": sampling.top_logprobs}
    if request.stops:
        body["stop"] = list(request.stops)
    if request.cap is not None:
        body["max_tokens"] = request.cap
    if request.budget is not None:  # a Stratum's name for it, and vLLM's
        body |= {
            "reasoning_budget_tokens": request.budget,
            "thinking_token_budget": request.budget,
        }
    if request.conversation.continues and continues_by_flags:
        body |= {"add_generation_prompt": False, "continue_final_message": True}
    if request.response_format.kind is not FormatKind.TEXT:
        body["response_format"] = _response_format(request.response_format)
    return body


def _message(message: Message) -> JsonObject:
    shown = dict(message)
    calls = message.get("tool_calls")
    if isinstance(calls, list | tuple):
        shown["tool_calls"] = [_call(call) for call in calls if isinstance(call, dict)]
    reasoning = message.get("reasoning_content")
    if reasoning is not None:
        shown["reasoning"] = reasoning  # the name of newer vLLM
    return shown


def _call(call: JsonObject) -> JsonObject:
    """The call with its arguments as a text, whatever they were."""
    function = call.get("function")
    if not isinstance(function, dict):
        return call
    arguments = function.get("arguments")
    text = arguments if isinstance(arguments, str) else to_json(arguments or {})
    return {**call, "function": {**function, "arguments": text or "{}"}}


def _template_options(conversation: Conversation) -> JsonObject:
    level = TEMPLATE_LEVELS.get(conversation.effort)
    options: JsonObject = {"enable_thinking": level is not None}
    if level is not None:
        options["reasoning_effort"] = level
    if conversation.preserve_thinking is not None:
        options["preserve_thinking"] = conversation.preserve_thinking
    return options


def _tools(conversation: Conversation) -> JsonObject:
    tools = conversation.tools
    if not tools.rendered:
        return {}
    choice = tools.choice
    chosen: object = choice.mode.value
    declared = list(tools.rendered)
    if choice.names is not None and choice.mode is not CallMode.NONE:
        if len(choice.names) == 1 and choice.mode is CallMode.REQUIRED:
            [name] = choice.names
            chosen = {"type": "function", "function": {"name": name}}
        else:  # no spelling that all servers know: only the allowed ones are declared
            declared = [tool for tool in declared if _name(tool) in choice.names]
    body: JsonObject = {"tools": declared, "tool_choice": chosen}
    if not tools.parallel:
        body["parallel_tool_calls"] = False
    return body


def _name(tool: JsonObject) -> object:
    function = tool.get("function")
    return function.get("name") if isinstance(function, dict) else None


def _response_format(wanted: ResponseFormat) -> JsonObject:
    if wanted.kind is FormatKind.JSON_OBJECT:
        return {"type": "json_object"}
    schema: JsonObject = {"name": "answer", "schema": dict(wanted.schema or {})}
    if wanted.is_strict:
        schema["strict"] = True
    return {"type": "json_schema", "json_schema": schema}
