"""From the steps of a generation to a response, whole or as events in OpenAI's order.

Both come from one `ResponseWriter`, so they carry the same content: a whole answer is the last event's
response. Events are numbered from 0 without gaps, and exactly one of completed, incomplete and failed
ends them (spec/api.md section 9.2). Knows nothing of HTTP.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from engine.server.front import new_id
from engine.server.responses_output import (
    CallItem,
    CustomCallItem,
    MessageItem,
    OutputEvent,
    OutputItem,
    ReasoningItem,
)
from engine.server.responses_tools import ResponsesTools
from engine.server.steps import ChoiceEnd, Delta, Step
from engine.text.events import (
    CallDelta,
    CallEnd,
    CallStart,
    ContentDelta,
    ReasoningDelta,
)

JsonObject = dict[str, object]


@dataclass(frozen=True, slots=True)
class ResponseHead:
    """What a response has from its first event on.

    Attributes:
        model: the name to echo.
        prompt_tokens: of the rendered input.
        settings: the request's, in effect.
        seals_reasoning: reasoning items carry `encrypted_content`.
    """

    model: str
    prompt_tokens: int
    settings: Mapping[str, object]
    tools: ResponsesTools
    seals_reasoning: bool = False


class ResponseWriter:
    """Call `start`, `add` for every step, and `fail` if there is no more; each gives events."""

    def __init__(self, head: ResponseHead) -> None:
        self._head = head
        self._id = new_id("resp_")
        self._created = int(time.time())
        self._sequence = 0
        self._items: list[OutputItem] = []
        self._open: OutputItem | None = None
        self._usage: JsonObject | None = None
        self._state: JsonObject = {"status": "in_progress", "error": None}
        self._state["incomplete_details"] = None

    def start(self) -> list[JsonObject]:
        """The first events."""
        return [self._lifecycle("created"), self._lifecycle("in_progress")]

    def keep_alive(self) -> JsonObject:
        """An event that changes nothing: clients count the silence between events, not comments."""
        return self._lifecycle("in_progress")

    def add(self, step: Step) -> list[JsonObject]:
        """The events of one step; the last step gives the terminal event."""
        if isinstance(step, Delta):
            return [self._numbered(event) for event in self._delta(step)]
        return self._end(step) if isinstance(step, ChoiceEnd) else []

    def fail(self, message: str) -> list[JsonObject]:
        """The terminal event of an answer that cannot be finished."""
        if self._open is not None:
            self._open.status = "incomplete"
        self._state["status"] = "failed"
        # Never null: Codex shows nothing of use without it.
        self._state["error"] = {"code": "server_error", "message": message}
        return [self._lifecycle("failed")]

    def response(self) -> JsonObject:
        """The response with what it holds so far."""
        return {
            "id": self._id,
            "object": "response",
            "created_at": self._created,
            **self._state,
            "background": False,
            "model": self._head.model,
            "output": [item.value() for item in self._items],
            **self._head.settings,
            "usage": self._usage,
        }

    def _delta(self, step: Delta) -> Iterator[OutputEvent]:
        match step.event:
            case ReasoningDelta(text):
                if not isinstance(self._open, ReasoningItem):
                    seals = self._head.seals_reasoning
                    yield from self._begin(ReasoningItem(len(self._items), seals=seals))
                yield from self._grow(text)
            case ContentDelta(text):
                if not isinstance(self._open, MessageItem):
                    if not text:  # the rest of a cut token, of text that never came
                        return
                    yield from self._begin(MessageItem(len(self._items)))
                if isinstance(self._open, MessageItem):
                    yield from self._open.add_tokens(text, step.logprobs)
            case CallStart() as start:
                tool = self._head.tools.find(start.name)
                kind = CustomCallItem if tool.is_custom else CallItem
                yield from self._begin(kind(len(self._items), start, tool))
            case CallDelta(arguments=arguments):
                yield from self._grow(arguments)
            case CallEnd():
                if isinstance(self._open, CallItem):
                    yield from self._open.end()
                yield from self._close(is_cut=False)

    def _begin(self, item: OutputItem) -> Iterator[OutputEvent]:
        yield from self._close(is_cut=False)
        self._items.append(item)
        self._open = item
        yield from item.opening()

    def _grow(self, text: str) -> Iterator[OutputEvent]:
        if self._open is not None:
            yield from self._open.add(text)

    def _close(self, *, is_cut: bool) -> Iterator[OutputEvent]:
        item, self._open = self._open, None
        if item is None:
            return
        if isinstance(item, CallItem):  # the one kind of item that says by itself that it is whole
            is_cut = not item.is_whole
        yield from item.closing(is_complete=not is_cut)

    def _end(self, end: ChoiceEnd) -> list[JsonObject]:
        is_cut = end.is_cancelled or end.finish == "length"
        events = [self._numbered(event) for event in self._close(is_cut=is_cut)]
        name = "incomplete" if is_cut else "completed"
        self._state["status"] = name
        if is_cut:
            reason = None if end.is_cancelled else "max_output_tokens"
            self._state["incomplete_details"] = {"reason": reason}
        else:
            self._state["completed_at"] = int(time.time())
        prompt = self._head.prompt_tokens if end.prompt_tokens is None else end.prompt_tokens
        self._usage = {
            "input_tokens": prompt,
            "input_tokens_details": {
                "cached_tokens": end.timings.cached_tokens,
                "cache_write_tokens": 0,
            },
            "output_tokens": end.generated,
            "output_tokens_details": {"reasoning_tokens": end.reasoning},
            "total_tokens": prompt + end.generated,
        }
        return [*events, self._lifecycle(name)]

    def _lifecycle(self, name: str) -> JsonObject:
        return self._numbered((f"response.{name}", {"response": self.response()}))

    def _numbered(self, event: OutputEvent) -> JsonObject:
        name, fields = event
        numbered = {"type": name, "sequence_number": self._sequence, **fields}
        self._sequence += 1
        return numbered
