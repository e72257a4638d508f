"""`POST /v1/chat/completions`, streamed and whole (spec/api.md section 5)."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from engine.core.errors import EngineError
from engine.server.answers import json_response, unless_gone
from engine.server.bodies import ClientGone, parse_object, read_body
from engine.server.chat_chunks import (
    ChatHead,
    JsonObject,
    UsageCount,
    WholeChoice,
    chunk_choice,
    delta_of,
    progress_chunk_part,
)
from engine.server.chat_request import ChatRequest, read_chat_request
from engine.server.context import output_room, prompt_too_long
from engine.server.errors import ApiError, internal_error
from engine.server.front import Front, new_id
from engine.server.generation import (
    Began,
    ChoiceEnd,
    Delta,
    Generation,
    GenerationPlan,
    PromptRead,
)
from engine.server.sse import DONE, SseResponse, data_event
from engine.text.prompt import PromptTooLongError
from engine.text.template import TemplateOptions, ThinkingLevel

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A request that was checked; `fitted` is the header about a lowered output cap."""

    request: ChatRequest
    model: str
    plan: GenerationPlan
    fitted: str | None


@dataclass(frozen=True, slots=True)
class _Job:
    """An admitted request with everything that its answer needs."""

    request: ChatRequest
    generation: Generation
    head: ChatHead
    headers: dict[str, str]


def chat_routes(front: Front) -> list[Route]:
    """The route."""

    async def chat_completions(request: Request) -> Response:
        front.check_open()
        raw = await read_body(request, front.config.max_body_mib)
        # In a thread whatever the size: a long body must not hold up the streams of others.
        prepared = await asyncio.to_thread(_prepare, front, raw)
        job = _admit(front, request.scope["state"]["request_id"], prepared)
        if job.request.stream:
            return SseResponse(
                _stream(job),
                keepalive_s=front.config.sse_keepalive_s,
                headers=job.headers,
                on_close=job.generation.close,
            )
        started_s = time.monotonic()
        try:
            body = await unless_gone(request, _whole(job))
        except ClientGone:
            job.generation.active.finish = "disconnected"
            raise
        finally:
            job.generation.close()
        took_ms = round((time.monotonic() - started_s) * 1000)
        return json_response(body, headers={**job.headers, "openai-processing-ms": str(took_ms)})

    return [Route("/v1/chat/completions", chat_completions, methods=["POST"])]


def _prepare(front: Front, raw: bytes) -> _Prepared:
    """Check everything that can be checked before a header is sent.

    Raises:
        ApiError: 400 or 404.
    """
    chat = read_chat_request(parse_object(raw), front.config, front.model.tokenizer.vocab_size)
    model = front.check_model(chat.model)
    try:
        prompt, in_thinking = _render(front, chat)
    except PromptTooLongError as error:
        raise prompt_too_long(
            f"at least {error.least_tokens}", error.least_tokens, front.context
        ) from error
    except EngineError as error:  # the template refuses the conversation, or a text is too long
        code = "template_error" if error.code.startswith("template") else "invalid_value"
        raise ApiError(400, code, error.message, param="messages") from error
    room = output_room(len(prompt), chat.cap, front.context, fit=chat.fit_max_tokens)
    plan = GenerationPlan(
        prompt=prompt,
        starts_in_thinking=in_thinking,
        max_tokens=room.max_tokens,
        sampling=chat.sampling,
        stops=chat.stops,
        tools=chat.tools,
        budget=chat.budget,
        choices=chat.choices,
    )
    return _Prepared(chat, model, plan, room.header)


def _admit(front: Front, request_id: str, prepared: _Prepared) -> _Job:
    """Enter the queue.

    Raises:
        ApiError: 429 or 503.
    """
    chat = prepared.request
    generation = Generation(front, request_id, "chat", prepared.plan)
    headers = {"x-seed": str(chat.sampling.seed)}
    if prepared.fitted is not None:
        headers["x-fit-max-tokens"] = prepared.fitted
        logger.info("%s: output cap lowered: %s", request_id, prepared.fitted)
    head = ChatHead(new_id("chatcmpl-"), int(time.time()), prepared.model, chat.include_usage)
    return _Job(chat, generation, head, headers)


def _render(front: Front, chat: ChatRequest) -> tuple[tuple[int, ...], bool]:
    """The prompt's token ids, and whether the model starts in thinking."""
    messages = list(chat.messages)
    continued = str(messages.pop()["content"]) if chat.continues else ""
    prompt = front.model.chat.prompt(
        messages,
        chat.tools.rendered or None,
        TemplateOptions(ThinkingLevel(chat.effort.value), chat.preserve_thinking),
        answer_start=continued,
        max_tokens=front.context,
    )
    return tuple(prompt.token_ids), prompt.starts_in_thinking


async def _whole(job: _Job) -> JsonObject:
    """The whole answer."""
    plan = job.generation.plan
    with_logprobs = plan.sampling.top_logprobs >= 0
    choices = [WholeChoice(with_logprobs=with_logprobs) for _ in range(plan.choices)]
    count = UsageCount(len(plan.prompt))
    fingerprint = ""
    async with aclosing(job.generation.steps()) as steps:
        async for step in steps:
            choices[step.choice].add(step)
            if isinstance(step, Began):
                fingerprint = step.fingerprint or fingerprint
            elif isinstance(step, ChoiceEnd):
                count.add(step)
    return {
        "id": job.head.completion_id,
        "object": "chat.completion",
        "created": job.head.created,
        "model": job.head.model,
        "system_fingerprint": fingerprint,
        "choices": [choice.choice(index) for index, choice in enumerate(choices)],
        "usage": count.usage(),
        "timings": count.timings_object(),
    }


async def _stream(job: _Job) -> AsyncGenerator[bytes, None]:
    """The events of a streamed answer, an error among them if one happens."""
    job.generation.active.finish = "disconnected"  # until the answer is complete
    try:
        async with aclosing(_chunks(job)) as chunks:
            async for chunk in chunks:
                yield data_event(chunk)
    except ApiError as error:
        job.generation.active.finish = "error"
        yield data_event(error.openai_body())
    except Exception:
        logger.exception("%s failed", job.generation.active.request_id)
        job.generation.active.finish = "error"
        yield data_event(internal_error().openai_body())
    yield DONE


async def _chunks(job: _Job) -> AsyncGenerator[JsonObject, None]:
    chat, head, plan = job.request, job.head, job.generation.plan
    count = UsageCount(len(plan.prompt))
    fingerprint = ""
    async with aclosing(job.generation.steps()) as steps:
        async for step in steps:
            match step:
                case Began():
                    fingerprint = step.fingerprint or fingerprint
                    delta: JsonObject = {"role": "assistant", "content": ""}
                    yield head.chunk(fingerprint, [chunk_choice(step.choice, delta)])
                case PromptRead():
                    if chat.return_progress:
                        chunk = head.chunk(fingerprint, [chunk_choice(step.choice, {})])
                        yield {**chunk, **progress_chunk_part(step)}
                case Delta():
                    shown = delta_of(step)
                    if shown is not None:
                        choice = chunk_choice(step.choice, shown, None, step.logprobs)
                        yield head.chunk(fingerprint, [choice])
                case ChoiceEnd():
                    count.add(step)
                    yield head.chunk(fingerprint, [chunk_choice(step.choice, {}, step.finish)])
    if chat.include_usage:
        usage = {"usage": count.usage(), "timings": count.timings_object()}
        yield {**head.chunk(fingerprint, []), **usage}
