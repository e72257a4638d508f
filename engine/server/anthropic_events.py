"""The answers of `/v1/messages`: stream events and whole messages (spec/api.md section 9.3).

    message_start, ping
    content_block_start, content_block_delta*, content_block_stop       per block, one after the other
    message_delta, message_stop

A whole message is put together from the same block events, so both carry the same content.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass

from engine.server.steps import ChoiceEnd
from engine.text.events import (
    CallDelta,
    CallEnd,
    CallStart,
    ContentDelta,
    Event,
    ReasoningDelta,
)

JsonObject = dict[str, object]

STOP_REASONS = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use"}
CALL_PREFIX = "call_"
ANTHROPIC_CALL_PREFIX = "toolu_"


@dataclass(frozen=True, slots=True)
class MessageHead:
    """What is known of a message before its first token."""

    message_id: str
    model: str
    prompt_tokens: int

    def message(
        self,
        content: list[JsonObject],
        usage: JsonObject,
        stop_reason: str | None = None,
        stop_sequence: str | None = None,
    ) -> JsonObject:
        """The message object, whole or as a stream begins with it."""
        return {
            "id": self.message_id,
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": content,
            "stop_reason": stop_reason,
            "stop_sequence": stop_sequence,
            "usage": usage,
        }

    def usage(self, cached: int, generated: int, prompt: int | None = None) -> JsonObject:
        """Anthropic's counts: `input_tokens` are those that no cache had."""
        prompt = self.prompt_tokens if prompt is None else prompt
        return {
            "input_tokens": max(prompt - cached, 0),
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": min(cached, prompt),
            "output_tokens": generated,
        }

    def usage_of(self, end: ChoiceEnd) -> JsonObject:
        """The counts of an answer that has ended."""
        return self.usage(end.timings.cached_tokens, end.generated, end.prompt_tokens)


def message_start(head: MessageHead, cached: int) -> JsonObject:
    """The first event."""
    return {"type": "message_start", "message": head.message([], head.usage(cached, 0))}


def message_delta(head: MessageHead, end: ChoiceEnd) -> JsonObject:
    """The last event but one: how the answer ended, and its counts."""
    reason, sequence = stop_of(end)
    return {
        "type": "message_delta",
        "delta": {"stop_reason": reason, "stop_sequence": sequence},
        "usage": head.usage_of(end),
    }


def stop_of(end: ChoiceEnd) -> tuple[str, str | None]:
    """`stop_reason` and `stop_sequence`."""
    reason = STOP_REASONS[end.finish]
    if reason == "end_turn" and end.stopped is not None:
        return "stop_sequence", end.stopped
    return reason, None


class BlockEvents:
    """Divides an answer into content blocks, which follow each other without gaps.

    Attributes:
        cut: indexes of the `tool_use` blocks whose call was not completed.
    """

    def __init__(self) -> None:
        self.cut: set[int] = set()
        self._index = -1  # of the last block that was begun
        self._kind = ""  # of the block that is open
        self._call_is_complete = False
        self._thinking = hashlib.sha256()

    def add(self, event: Event) -> Iterator[JsonObject]:
        """The stream events for one event of the answer."""
        match event:
            case ReasoningDelta(text):
                if text:
                    yield from self._ensure("thinking")
                    self._thinking.update(text.encode("utf-8", "replace"))
                    yield self._delta({"type": "thinking_delta", "thinking": text})
            case ContentDelta(text):
                if text:
                    yield from self._ensure("text")
                    yield self._delta({"type": "text_delta", "text": text})
            case CallStart(_, call_id, name):
                yield from self._close()
                yield self._open(
                    {
                        "type": "tool_use",
                        "id": anthropic_call_id(call_id),
                        "name": name,
                        "input": {},
                    }
                )
            case CallDelta(_, arguments):
                yield self._delta({"type": "input_json_delta", "partial_json": arguments})
            case CallEnd():
                self._call_is_complete = True
                yield from self._close()

    def finish(self) -> Iterator[JsonObject]:
        """The events at the end of the answer: there is always a block."""
        if self._index < 0:
            yield from self._ensure("text")
        yield from self._close()

    def _ensure(self, kind: str) -> Iterator[JsonObject]:
        if self._kind == kind:
            return
        yield from self._close()
        if kind == "thinking":
            self._thinking = hashlib.sha256()
            yield self._open({"type": kind, "thinking": "", "signature": ""})
        else:
            yield self._open({"type": kind, "text": ""})

    def _open(self, block: JsonObject) -> JsonObject:
        self._index += 1
        self._kind = str(block["type"])
        self._call_is_complete = False
        return {"type": "content_block_start", "index": self._index, "content_block": block}

    def _close(self) -> Iterator[JsonObject]:
        if not self._kind:
            return
        if self._kind == "thinking":
            # Clients want one and send it back; whether it is ours is never asked.
            signature = base64.b64encode(self._thinking.digest()).decode("ascii")
            yield self._delta({"type": "signature_delta", "signature": signature})
        if self._kind == "tool_use" and not self._call_is_complete:
            self.cut.add(self._index)
        self._kind = ""
        yield {"type": "content_block_stop", "index": self._index}

    def _delta(self, delta: JsonObject) -> JsonObject:
        return {"type": "content_block_delta", "index": self._index, "delta": delta}


def anthropic_call_id(call_id: str) -> str:
    """The id under which Anthropic's clients know a call."""
    return ANTHROPIC_CALL_PREFIX + call_id.removeprefix(CALL_PREFIX)


class WholeContent:
    """Puts the blocks of a whole message together from stream events."""

    def __init__(self) -> None:
        self._events = BlockEvents()
        self._blocks: list[JsonObject] = []
        self._texts: list[list[str]] = []
        self._signatures: dict[int, str] = {}

    def add(self, event: Event) -> None:
        """Take in one event of the answer."""
        for block_event in self._events.add(event):
            self._take(block_event)

    def blocks(self) -> list[JsonObject]:
        """All blocks; a call that was cut is left out, and there is always one."""
        for block_event in self._events.finish():
            self._take(block_event)
        blocks = [
            self._complete(index, block)
            for index, block in enumerate(self._blocks)
            if index not in self._events.cut
        ]
        return blocks or [{"type": "text", "text": ""}]

    def _take(self, event: JsonObject) -> None:
        block, delta = event.get("content_block"), event.get("delta")
        if isinstance(block, dict):
            self._blocks.append(block)
            self._texts.append([])
        elif isinstance(delta, dict):
            if "signature" in delta:
                self._signatures[len(self._blocks) - 1] = delta["signature"]
            else:
                texts = (delta.get(key) for key in ("text", "thinking", "partial_json"))
                self._texts[-1] += [text for text in texts if text is not None]

    def _complete(self, index: int, block: JsonObject) -> JsonObject:
        text = "".join(self._texts[index])
        match block["type"]:
            case "tool_use":
                return {**block, "input": json.loads(text or "{}")}
            case "thinking":
                return {**block, "thinking": text, "signature": self._signatures[index]}
        return {**block, "text": text}
