"""`engine run --prompt TEXT`: one answer, computed in this process, streamed to standard output.

The conversation and the sampling flags go through the same checks as a request to the server; with
`--messages FILE.json` the file may be a list of messages or a whole chat request (with `tools`, say).
Flags win over the file.
"""

from __future__ import annotations

import argparse
import json
import math
import secrets
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from engine.commands import Subparsers
from engine.commands.card_words import say_card_check
from engine.commands.terminal import without_controls
from engine.core.config import RunConfig
from engine.core.config_flags import add_config_flags, config_from_arguments
from engine.core.disk_reads import disk_report
from engine.core.errors import InputError
from engine.core.files import read_json_value
from engine.core.processor import warn_of_processor
from engine.worker.blas_threads import limit_blas_threads

if TYPE_CHECKING:  # imported when used: `--help` and wrong flags must answer at once
    from engine.server.generation_request import GenerationRequest
    from engine.text.answer import AnswerStream, AnswerUpdate, ToolCall
    from engine.text.prompt import ChatFormat, ChatPrompt
    from engine.worker.loading import LoadedModel
    from engine.worker.messages import Constraint, Done, Start, Timings


def number(text: str) -> float:
    """A flag's number; NaN and infinity, which JSON cannot say either, are refused."""
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value


# Flag, type and help of request fields; each is a key of a chat request.
_REQUEST_FLAGS: tuple[tuple[str, Callable[[str], int | float | str], str], ...] = (
    ("max_tokens", int, "most tokens of the answer, thinking included"),
    ("temperature", number, "0 to 2; 0 = always the most probable token"),
    ("top_k", int, "keep the k most probable tokens; 0 = all"),
    ("top_p", number, "keep the most probable tokens up to this sum"),
    ("min_p", number, "keep tokens of at least this share of the most probable one"),
    ("presence_penalty", number, "-2 to 2"),
    ("frequency_penalty", number, "-2 to 2"),
    ("repetition_penalty", number, "above 0 to 2; 1 = off"),
    ("penalty_last_n", int, "generated tokens that penalties look at; -1 = all"),
    ("seed", int, "the same seed gives the same answer"),
    ("reasoning_effort", str, "none, low, medium or high"),
)

_DIM, _PLAIN = "\x1b[2m", "\x1b[0m"


def add_parser(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    parser = subparsers.add_parser("run", help="answer one prompt")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument(
        "--prompt", metavar="TEXT", help="what the user says; - reads it from stdin"
    )
    source.add_argument(
        "--messages", type=Path, metavar="FILE.json", help="messages, or a whole chat request"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object instead of text")
    parser.add_argument(
        "--show-thinking", action="store_true", help="write the thinking to standard error"
    )
    for key, kind, text in _REQUEST_FLAGS:
        flag = "--" + key.replace("_", "-")
        parser.add_argument(flag, type=kind, metavar="TEXT" if kind is str else "N", help=text)
    parser.add_argument(
        "--stop", action="append", metavar="TEXT", help="end before this text; may be repeated"
    )
    add_config_flags(parser)


def run(arguments: argparse.Namespace) -> int:
    """Answer; 0.

    Raises:
        EngineError: the model, a setting or the conversation cannot be used.
    """
    limit_blas_threads()
    config = config_from_arguments(arguments)
    warn_of_processor(config)
    body = request_body(arguments)

    import numpy as np  # noqa: PLC0415

    from engine.core.gguf_header import read_model_header  # noqa: PLC0415
    from engine.text.prompt import ChatFormat  # noqa: PLC0415
    from engine.worker.loading import load_model  # noqa: PLC0415

    header = read_model_header(config.model_path)
    chat = ChatFormat.from_metadata(header.metadata, header.paths[0].name)
    request = _read_request(body, config, chat.tokenizer.vocab_size)
    prompt = _render(chat, request)
    loaded = load_model(config, say_card_check, parallel=1, header=header)
    try:
        start = _start(config, request, prompt, chat, loaded)
        printer = None if arguments.json else _Printer(show_thinking=arguments.show_thinking)
        with np.errstate(all="ignore"):  # numbers that are none are found where tokens are chosen
            result = _answer(loaded, start, request, prompt, chat, printer)
    finally:
        loaded.close()
    if arguments.json:
        print(json.dumps(result.report(config.model_name), ensure_ascii=False))
    elif printer is not None:
        printer.end(result.calls)
        if result.finish_reason == "length" and not result.answer.content and not result.calls:
            count = result.done.timings.generated_tokens
            print(
                f"engine run: thinking took all of the {count} tokens and no answer came; allow more "
                "with --max-tokens, or none with --reasoning-effort none",
                file=sys.stderr,
            )
    return 0


def answer_with(
    loaded: LoadedModel, chat: ChatFormat, config: RunConfig, body: dict[str, object]
) -> Result:
    """The answer of a loaded model to one chat request, printed as it comes.

    Raises:
        InputError: the request or the conversation cannot be used.
    """
    import numpy as np  # noqa: PLC0415

    request = _read_request(body, config, chat.tokenizer.vocab_size)
    prompt = _render(chat, request)
    start = _start(config, request, prompt, chat, loaded)
    printer = _Printer(show_thinking=False)
    with np.errstate(all="ignore"):  # numbers that are none are found where tokens are chosen
        result = _answer(loaded, start, request, prompt, chat, printer)
    printer.end(result.calls)
    return result


def request_body(arguments: argparse.Namespace) -> dict[str, object]:
    """The chat request that flags and file describe, unchecked.

    Raises:
        InputError: the file cannot be read or is no JSON list or object.
    """
    body: dict[str, object]
    if arguments.messages is not None:
        body = _read_messages_file(arguments.messages)
    else:
        text = sys.stdin.read() if arguments.prompt == "-" else arguments.prompt
        body = {"messages": [{"role": "user", "content": text}]}
    for key, _, _ in _REQUEST_FLAGS:
        value = getattr(arguments, key)
        if value is not None:
            body[key] = value
    if arguments.max_tokens is not None:
        body.pop("max_completion_tokens", None)
    if arguments.stop:
        body["stop"] = arguments.stop
    return body


def _read_messages_file(path: Path) -> dict[str, object]:
    content = read_json_value(path, 'write [{"role": "user", "content": "..."}]')
    if isinstance(content, list):
        return {"messages": content}
    if isinstance(content, dict):
        return content
    raise InputError(f"{path} holds neither a list of messages nor a chat request.")


def _read_request(body: dict[str, object], config: RunConfig, vocab_size: int) -> GenerationRequest:
    from engine.server.chat_request import read_chat_request  # noqa: PLC0415
    from engine.server.errors import ApiError  # noqa: PLC0415

    try:
        request = read_chat_request(body, config, vocab_size).generation
    except ApiError as error:
        raise InputError(error.message, code=error.code, params={"param": error.param}) from error
    if request.choices > 1 or request.mcp_servers is not None:
        raise InputError("run gives one answer, without tools of MCP servers; see serve.")
    return request


def _render(chat: ChatFormat, request: GenerationRequest) -> ChatPrompt:
    from engine.text.template import TemplateOptions, ThinkingLevel  # noqa: PLC0415

    conversation = request.conversation
    if conversation.continues:
        raise InputError(
            "The last message is the assistant's; continuing it is not possible yet. End with a "
            "message of the user."
        )
    level = ThinkingLevel(conversation.effort.value)
    options = TemplateOptions(level, conversation.preserve_thinking)
    return chat.prompt(conversation.messages, conversation.tools.rendered or None, options)


def _start(
    config: RunConfig,
    request: GenerationRequest,
    prompt: ChatPrompt,
    chat: ChatFormat,
    loaded: LoadedModel,
) -> Start:
    from engine.worker.answer_limits import (  # noqa: PLC0415
        ordered_stop_ids,
        with_call_rules,
        with_thinking_rules,
    )
    from engine.worker.messages import Start  # noqa: PLC0415

    if not prompt.token_ids:
        raise InputError(
            "The model's chat template makes an empty prompt of this. Use another model file."
        )
    room = loaded.limits.context - len(prompt.token_ids)
    if room < 1:
        raise InputError(
            f"The prompt has {len(prompt.token_ids)} tokens, but the context is "
            f"{loaded.limits.context}; shorten it, or choose a larger --context.",
            code="context_length_exceeded",
        )
    start = Start(
        "run",
        prompt=tuple(prompt.token_ids),
        max_tokens=room if request.cap is None else min(request.cap, room),
        stop_ids=ordered_stop_ids(chat.tokenizer),
        sampling=request.sampling,
        repeat_stop_tokens=config.repeat_stop_tokens,
    )
    start = replace(start, constraint=_constraint(request))
    if request.conversation.tools.specs or start.constraint is not None:
        start = with_call_rules(start, chat.tokenizer)
    if prompt.starts_in_thinking:
        start = with_thinking_rules(start, chat.tokenizer, request.budget)
    return start


def _constraint(request: GenerationRequest) -> Constraint | None:
    """What the answer may look like.

    Raises:
        InputError: a schema cannot be enforced.
    """
    from engine.text.grammar import SchemaError, answer_grammar  # noqa: PLC0415
    from engine.text.output_rules import ANY_TOOL  # noqa: PLC0415

    tools = request.conversation.tools
    choice = tools.choice if tools.rendered else ANY_TOOL
    try:
        grammar = answer_grammar(
            tools.specs, choice, request.response_format, is_parallel=tools.parallel
        )
    except SchemaError as error:
        raise InputError(error.message, code="invalid_schema") from error
    return grammar.constraint


def _answer(
    loaded: LoadedModel,
    start: Start,
    request: GenerationRequest,
    prompt: ChatPrompt,
    chat: ChatFormat,
    printer: _Printer | None,
) -> Result:
    from engine.decode.constraint import AnswerConstraint  # noqa: PLC0415
    from engine.decode.generate import Generation  # noqa: PLC0415
    from engine.decode.grammar_vocabulary import GrammarVocabulary  # noqa: PLC0415
    from engine.text.answer import AnswerStream  # noqa: PLC0415
    from engine.text.events import FinishReason  # noqa: PLC0415

    answer = AnswerStream(
        chat.tokenizer,
        request.conversation.tools.specs,
        starts_in_thinking=prompt.starts_in_thinking,
        stops=request.stops,
        new_call_id=lambda: f"call_{secrets.token_hex(12)}",
    )

    def constrain(wanted: Start) -> AnswerConstraint:
        return AnswerConstraint(wanted, GrammarVocabulary(chat.tokenizer))

    generation = Generation(
        loaded.model,
        start,
        loaded.limits,
        constrain=constrain,
        drafting=loaded.drafting,
        disk_reads=loaded.disk_reads,
    )
    for token in generation:
        update = answer.push([token.token_id])
        if printer is not None:
            printer.show(update)
        if update.stopped is not None:
            generation.close()
    done = generation.done
    assert done is not None  # noqa: S101  # the iterator ends with it
    is_cut = done.reason in {"length", "context", "repeat"}
    reason = FinishReason.LENGTH if is_cut else FinishReason.STOP
    update = answer.finish(reason)
    if printer is not None:
        printer.show(update)
    return Result(answer, answer.finish_reason(reason).value, done)


@dataclass(frozen=True, slots=True)
class Result:
    """A finished answer."""

    answer: AnswerStream
    finish_reason: str
    done: Done

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The tool calls that the answer ends with."""
        return self.answer.calls

    def report(self, model_name: str) -> dict[str, object]:
        """What `--json` prints."""
        timings = self.done.timings
        return {
            "model": model_name,
            "content": self.answer.content,
            "reasoning": self.answer.reasoning,
            "tool_calls": [
                {
                    "id": call.call_id,
                    "type": "function",
                    "function": {"name": call.name, "arguments": call.arguments},
                }
                for call in self.calls
            ],
            "finish_reason": self.finish_reason,
            "usage": {
                "prompt_tokens": timings.prompt_tokens,
                "completion_tokens": timings.generated_tokens,
                "total_tokens": timings.prompt_tokens + timings.generated_tokens,
                "completion_tokens_details": {"reasoning_tokens": self.answer.num_reasoning_tokens},
            },
            "timings": timings_report(timings),
        }


def timings_report(timings: Timings) -> dict[str, object]:
    """The timings under the names that llama.cpp gave them, and what was read from the disk."""
    num_read = timings.prompt_tokens - timings.cached_tokens
    num_steps = max(timings.generated_tokens - 1, 0)  # the first token comes with the prompt
    return {
        "cache_n": timings.cached_tokens,
        "prompt_n": num_read,
        "prompt_ms": round(timings.prompt_ms, 3),
        "prompt_per_second": round(_rate(num_read, timings.prompt_ms), 2),
        "predicted_n": timings.generated_tokens,
        "predicted_ms": round(timings.generated_ms, 3),
        "predicted_per_second": round(_rate(num_steps, timings.generated_ms), 2),
        **disk_report(timings.disk_prompt, timings.disk_answer, num_steps),
    }


def _rate(count: int, milliseconds: float) -> float:
    return count / milliseconds * 1000 if milliseconds > 0 else 0.0


def _safe_for(stream: TextIO, text: str) -> str:
    """The text as it is for a file or pipe; a terminal gets no control characters."""
    return without_controls(text) if stream.isatty() else text


class _Printer:
    """Writes an answer as it comes: text to standard output, thinking to standard error."""

    def __init__(self, *, show_thinking: bool) -> None:
        self._show_thinking = show_thinking
        self._is_dim = False
        self._ends_line = True

    def show(self, update: AnswerUpdate) -> None:
        from engine.text.events import ContentDelta, ReasoningDelta  # noqa: PLC0415

        for event in update.events:
            if isinstance(event, ReasoningDelta) and self._show_thinking:
                self._dim(is_dim=True)
                print(_safe_for(sys.stderr, event.text), end="", file=sys.stderr, flush=True)
            elif isinstance(event, ContentDelta):
                self._dim(is_dim=False)
                print(_safe_for(sys.stdout, event.text), end="", flush=True)
                self._ends_line = event.text.endswith("\n")

    def end(self, calls: Sequence[ToolCall]) -> None:
        """End the last line; calls follow, one JSON object a line."""
        self._dim(is_dim=False)
        if not self._ends_line:
            print()
        for call in calls:
            print(json.dumps({"name": call.name, "arguments": call.arguments}, ensure_ascii=False))
        sys.stdout.flush()

    def _dim(self, *, is_dim: bool) -> None:
        if is_dim == self._is_dim:
            return
        self._is_dim = is_dim
        if sys.stderr.isatty():
            print(_DIM if is_dim else _PLAIN, end="", file=sys.stderr, flush=True)
        elif not is_dim:
            print(file=sys.stderr, flush=True)
