"""From a checked request to a generation, for all protocols: render, check the room, enter the queue.

    prepared = await asyncio.to_thread(prepare, front, request)     # 400 before any header
    generation = admit(front, request_id, "chat", prepared)         # 429 or 503
    ...
    generation.close()

A protocol's reader makes the `GenerationRequest`, its writer reads `generation.steps()`. Knows no
protocol's shapes; errors carry the counts that each protocol words in its own way (errors.py).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace

from engine.core.errors import EngineError
from engine.server.context import output_room, prompt_too_long
from engine.server.errors import ApiError
from engine.server.front import Front
from engine.server.generation import Generation
from engine.server.generation_request import Conversation, GenerationRequest
from engine.server.sampling_fields import sampling_headers
from engine.server.steps import GenerationPlan
from engine.server.tool_fields import ToolUse
from engine.text.grammar import AnswerGrammar, SchemaError, answer_grammar
from engine.text.output_rules import ANY_TOOL, ResponseFormat
from engine.text.prompt import ChatPrompt, PromptTooLongError
from engine.text.template import TemplateOptions, ThinkingLevel

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A request that can be answered.

    Attributes:
        model: the name to echo.
        plan: what to generate.
        fitted: the header about a lowered output cap, if it was lowered.
        headers: response headers, that one among them.
    """

    model: str
    plan: GenerationPlan
    fitted: str | None
    headers: Mapping[str, str]


def prepare(front: Front, request: GenerationRequest) -> Prepared:
    """Check everything that can be checked before a header is sent.

    Takes time for a long conversation: call it in a thread, or the streams of others stand still.

    Raises:
        ApiError: 400 or 404.
    """
    if front.upstream is not None:
        return _for_upstream(front, request)
    model = front.check_model(request.model)
    conversation = request.conversation
    prompt = render(front, conversation)
    room = output_room(
        len(prompt.token_ids), request.cap, front.context, fit=request.fit_max_tokens
    )
    grammar = _grammar(conversation.tools, request.response_format)
    plan = GenerationPlan(
        prompt=tuple(prompt.token_ids),
        starts_in_thinking=prompt.starts_in_thinking,
        answer_start=answer_start(conversation),
        max_tokens=room.max_tokens,
        sampling=request.sampling,
        stops=request.stops,
        tools=conversation.tools,
        constraint=grammar.constraint,
        budget=request.budget,
        choices=request.choices,
    )
    headers = sampling_headers(request.sampling)
    if room.header is not None:
        headers["x-fit-max-tokens"] = room.header
    headers.update(ignored_tools_header(conversation))
    if grammar.ignored:
        headers["x-schema-ignored"] = ", ".join(grammar.ignored)
    return Prepared(model, plan, room.header, headers)


def _for_upstream(front: Front, request: GenerationRequest) -> Prepared:
    """A plan without a prompt: the upstream renders it, checks its length, and knows its models."""
    plan = GenerationPlan(
        prompt=(),
        starts_in_thinking=False,
        max_tokens=request.cap or 0,
        sampling=request.sampling,
        stops=request.stops,
        tools=request.conversation.tools,
        choices=request.choices,
        request=request,
    )
    headers = {
        **sampling_headers(request.sampling),
        **ignored_tools_header(request.conversation),
    }
    return Prepared(request.model or front.model.name, plan, None, headers)


def _grammar(tools: ToolUse, response_format: ResponseFormat) -> AnswerGrammar:
    """What the answer may look like.

    Raises:
        ApiError: 400: a schema cannot be enforced.
    """
    choice = tools.choice if tools.rendered else ANY_TOOL
    try:
        return answer_grammar(tools.specs, choice, response_format, is_parallel=tools.parallel)
    except SchemaError as error:
        path = "tools" if error.tool is not None else response_format.path
        raise ApiError(400, "invalid_schema", error.message, param=path) from error


def ignored_tools_header(conversation: Conversation) -> dict[str, str]:
    """The header that names the tools that were left out of the prompt; none when none were."""
    ignored = conversation.tools.ignored
    return {"x-ignored-tools": ", ".join(ignored)} if ignored else {}


def answer_start(conversation: Conversation) -> str:
    """The text that the answer goes on from; empty when it begins anew."""
    return str(conversation.messages[-1]["content"]) if conversation.continues else ""


def render(front: Front, conversation: Conversation, *, is_bounded: bool = True) -> ChatPrompt:
    """The prompt of a conversation; it may still be longer than the context.

    Args:
        front: has the model's template and tokenizer.
        conversation: what to render.
        is_bounded: refuse a prompt that is certain to be too long without counting its tokens; a
            prompt that is only counted may have any length.

    Raises:
        ApiError: 400: the template refuses it, or it is certain to be too long.
    """
    messages = list(conversation.messages)
    continued = answer_start(conversation)
    if conversation.continues:
        messages.pop()
    try:
        prompt = front.model.chat.prompt(
            messages,
            conversation.tools.rendered or None,
            TemplateOptions(
                ThinkingLevel(conversation.effort.value), conversation.preserve_thinking
            ),
            answer_start=continued,
            max_tokens=front.context if is_bounded else None,
        )
        token_ids = front.answers.reuse(prompt.token_ids, messages)
        return replace(prompt, token_ids=token_ids)
    except PromptTooLongError as error:
        least = error.least_tokens
        raise prompt_too_long(f"at least {least}", least, front.context) from error
    except EngineError as error:  # the template refuses the conversation, or a text is too long
        code = "template_error" if error.code.startswith("template") else "invalid_value"
        raise ApiError(400, code, error.message, param="messages") from error


def admit(front: Front, request_id: str, protocol: str, prepared: Prepared) -> Generation:
    """Enter the queue; `close` of the result must be called in the end.

    Raises:
        ApiError: 429 or 503.
    """
    generation = Generation(front, request_id, protocol, prepared.plan)
    if prepared.fitted is not None:
        logger.info("%s: output cap lowered: %s", request_id, prepared.fitted)
    return generation
