"""Answers as a model writes them, cut into tokens in several ways, and what they must become.

In a corpus text the four tags stand for their token ids; `⟦<tool_call>⟧` is the same characters
spelled from ordinary tokens.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count

from engine.text.events import (
    CallDelta,
    CallEnd,
    CallStart,
    ContentDelta,
    Event,
    FinishReason,
    ReasoningDelta,
    StructureIds,
    ToolSpec,
    merge_events,
)
from engine.text.parser import AnswerParser, ParseOutcome

STRUCTURE = StructureIds(
    think_open=1, think_close=2, call_open=3, call_close=4, turn_end=frozenset({5, 6})
)
TAG_IDS = {"<think>": 1, "</think>": 2, "<tool_call>": 3, "</tool_call>": 4}
ORDINARY = 100

STRING = {"type": "string"}
TOOLS = (
    ToolSpec("read", {"type": "object", "properties": {"path": STRING}, "required": ["path"]}),
    ToolSpec("read_all", {"type": "object", "properties": {}}),
    ToolSpec(
        "write",
        {
            "type": "object",
            "properties": {"path": STRING, "content": STRING, "mode": {"type": "integer"}},
            "required": ["path", "content"],
        },
    ),
    ToolSpec("get_time", {}),
    ToolSpec("paint", {"properties": {"colour": {"enum": ["red", "blue"]}}}),
    ToolSpec("odd", {"properties": {"name": STRING, "arguments": STRING}}),
)

CHUNKINGS = ("1", "2", "7", "whole", "words")

_PARTS = re.compile(r"⟦([^⟦⟧]*)⟧|(</?think>|</?tool_call>)")
_WORDS = re.compile(r" ?\w+|\s+|[^\w\s]+")


def tokens(text: str, chunking: str) -> Iterator[tuple[int, str]]:
    """(id, text) pairs of a corpus text; ordinary text is cut by `chunking`."""
    run = ""
    pos = 0
    for part in _PARTS.finditer(text):
        run += text[pos : part.start()]
        pos = part.end()
        if part[2] is None:
            run += part[1]
            continue
        yield from ((ORDINARY, piece) for piece in pieces(run, chunking))
        run = ""
        yield TAG_IDS[part[2]], part[2]
    yield from ((ORDINARY, piece) for piece in pieces(run + text[pos:], chunking))


def pieces(text: str, chunking: str) -> list[str]:
    if chunking == "words":
        return _WORDS.findall(text)
    if chunking == "whole":
        return [text] if text else []
    size = int(chunking)
    return [text[start : start + size] for start in range(0, len(text), size)]


def plain(text: str) -> str:
    """The characters of a corpus text."""
    return _PARTS.sub(lambda part: part[1] if part[2] is None else part[2], text)


@dataclass
class Answer:
    events: list[Event]
    outcome: ParseOutcome
    most_held: int = 0
    reasoning: str = ""
    content: str = ""
    calls: list[tuple[str, str]] = field(default_factory=list)  # complete ones
    unfinished: list[tuple[str, str]] = field(default_factory=list)


def collect(events: list[Event], outcome: ParseOutcome, most_held: int = 0) -> Answer:
    answer = Answer(merge_events(events), outcome, most_held)
    names: dict[int, str] = {}
    arguments: dict[int, str] = {}
    ended: list[int] = []
    for event in answer.events:
        if isinstance(event, ReasoningDelta):
            answer.reasoning += event.text
        elif isinstance(event, ContentDelta):
            answer.content += event.text
        elif isinstance(event, CallStart):
            assert event.index == len(names)
            names[event.index], arguments[event.index] = event.name, ""
        elif isinstance(event, CallDelta):
            assert event.index not in ended
            assert event.arguments
            arguments[event.index] += event.arguments
        elif isinstance(event, CallEnd):
            ended.append(event.index)
    for index, name in names.items():
        kept = answer.calls if index in ended else answer.unfinished
        kept.append((name, arguments[index]))
    return answer


def parse(
    text: str,
    *,
    chunking: str = "whole",
    tools: tuple[ToolSpec, ...] = TOOLS,
    thinking: bool = False,
    reason: FinishReason = FinishReason.STOP,
) -> Answer:
    numbers = count()
    parser = AnswerParser(
        STRUCTURE,
        tools,
        starts_in_thinking=thinking,
        new_call_id=lambda: f"call_{next(numbers)}",
    )
    events: list[Event] = []
    most_held = 0
    for token_id, piece in tokens(text, chunking):
        events += parser.push(token_id, piece)
        most_held = max(most_held, parser.held_chars)
    events += parser.finish(reason)
    return collect(events, parser.outcome, most_held)


def call(name: str, *parameters: tuple[str, str]) -> str:
    """A well-formed call."""
    lines = [f"<tool_call>\n<function={name}>"]
    lines += [f"<parameter={key}>\n{value}\n</parameter>" for key, value in parameters]
    return "\n".join([*lines, "</function>\n</tool_call>"])
