"""`engine demo`: three questions that show the bundled model at work: a meaning, a copy, a tool call.

What is printed is what the model answers; where it is wrong, the demo shows it wrong.
"""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from engine.commands import Subparsers
from engine.commands.card_words import say_card_check
from engine.core.config_flags import add_config_flags, config_from_arguments
from engine.core.processor import warn_of_processor
from engine.worker.blas_threads import limit_blas_threads

if TYPE_CHECKING:  # imported when used: `--help` and wrong flags must answer at once
    from engine.commands.run import Result
    from engine.core.config import RunConfig
    from engine.text.prompt import ChatFormat
    from engine.worker.loading import LoadedModel

MEANING = "What does the word teacher mean?"
COPY = "Repeat this text: The old clock in the hall has not been right since the long winter."
WEATHER = "What is the weather of Lisbon?"
TOOL: dict[str, object] = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get the weather of a city",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
        },
    },
}
TOOL_RESULT = "21 degrees"
# Greedy and without thinking, so that everybody sees the same answers.
FIXED: dict[str, object] = {"temperature": 0, "reasoning_effort": "none", "max_tokens": 200}


def add_parser(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    parser = subparsers.add_parser("demo", help="show the bundled model at work")
    add_config_flags(parser)


def run(arguments: argparse.Namespace) -> int:
    """Ask and print; 0.

    Raises:
        EngineError: the model or a setting cannot be used.
    """
    limit_blas_threads()
    config = config_from_arguments(arguments)
    warn_of_processor(config)

    from engine.core.gguf_header import read_model_header  # noqa: PLC0415
    from engine.text.prompt import ChatFormat  # noqa: PLC0415
    from engine.worker.loading import load_model  # noqa: PLC0415

    header = read_model_header(config.model_path)
    chat = ChatFormat.from_metadata(header.metadata, header.paths[0].name)
    loaded = load_model(config, say_card_check, parallel=1, header=header)
    try:
        for question in (MEANING, COPY):
            _ask(loaded, chat, config, [_said(question)])
        _show_tool(loaded, chat, config)
    finally:
        loaded.close()
    return 0


def _said(question: str) -> dict[str, object]:
    return {"role": "user", "content": question}


def _ask(
    loaded: LoadedModel,
    chat: ChatFormat,
    config: RunConfig,
    messages: list[dict[str, object]],
    tools: list[dict[str, object]] | None = None,
) -> Result:
    from engine.commands.run import answer_with  # noqa: PLC0415

    if messages[-1]["role"] == "user":
        print(f"Question: {messages[-1]['content']}", flush=True)
    body = {**FIXED, "messages": messages, **({"tools": tools} if tools else {})}
    result = answer_with(loaded, chat, config, body)
    print()
    return result


def _show_tool(loaded: LoadedModel, chat: ChatFormat, config: RunConfig) -> None:
    """Offer a tool, show the call, hand back a made-up result and show the answer."""
    print("A tool is offered: get_weather(city).")
    messages = [_said(WEATHER)]
    calls = _ask(loaded, chat, config, messages, [TOOL]).calls
    if not calls:
        print("The model called no tool this time.")
        return
    written = [
        {
            "id": call.call_id,
            "type": "function",
            "function": {"name": call.name, "arguments": call.arguments},
        }
        for call in calls
    ]
    messages.append({"role": "assistant", "content": "", "tool_calls": written})
    messages += [
        {"role": "tool", "tool_call_id": call.call_id, "content": TOOL_RESULT} for call in calls
    ]
    print(f"The tool (played by this demo) answers: {json.dumps(TOOL_RESULT)}")
    _ask(loaded, chat, config, messages, [TOOL])
