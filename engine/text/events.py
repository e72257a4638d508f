"""What the answer parser reads and says: structure ids in, events out.

An event is one step of an answer: some reasoning, some content, or a piece of a tool call. The
HTTP layer turns events into the deltas of its protocol. Nothing here knows a protocol or a model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum


class FinishReason(Enum):
    """Why an answer ended. A caller passes the first three; `TOOL_CALLS` is a result only."""

    STOP = "stop"  # a turn-end token or a stop string
    LENGTH = "length"  # max_tokens, or the end of the context
    CANCELLED = "cancelled"  # the client went away or asked to stop
    TOOL_CALLS = "tool_calls"  # a turn that was not cut delivered at least one complete call


class Tag(Enum):
    """The four tags that are single tokens; the value is the tag's text."""

    THINK_OPEN = "<think>"
    THINK_CLOSE = "</think>"
    CALL_OPEN = "<tool_call>"
    CALL_CLOSE = "</tool_call>"


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    """More text of the model's thinking."""

    text: str


@dataclass(frozen=True, slots=True)
class ContentDelta:
    """More text of the answer itself."""

    text: str


@dataclass(frozen=True, slots=True)
class CallStart:
    """A tool call whose function is known; its arguments follow."""

    index: int
    call_id: str
    name: str


@dataclass(frozen=True, slots=True)
class CallDelta:
    """More of a call's arguments; all fragments of a call joined are one JSON object."""

    index: int
    arguments: str


@dataclass(frozen=True, slots=True)
class CallEnd:
    """The call is complete. A call without this event was cut and must not be run."""

    index: int


Event = ReasoningDelta | ContentDelta | CallStart | CallDelta | CallEnd


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool that the request declares.

    Attributes:
        name: as the client wrote it; matched exactly.
        parameters: JSON schema of the arguments object.
        is_strict: the schema holds to the letter; else only what keeps calls readable.
    """

    name: str
    parameters: Mapping[str, object]
    is_strict: bool = False


@dataclass(frozen=True, slots=True)
class StructureIds:
    """Token ids of the tags (None: the vocabulary has no such token) and of the turn's end."""

    think_open: int | None
    think_close: int | None
    call_open: int | None
    call_close: int | None
    turn_end: frozenset[int]

    def tags(self) -> dict[int, Tag]:
        """The tag of every structural id."""
        pairs = (
            (self.think_open, Tag.THINK_OPEN),
            (self.think_close, Tag.THINK_CLOSE),
            (self.call_open, Tag.CALL_OPEN),
            (self.call_close, Tag.CALL_CLOSE),
        )
        return {token_id: tag for token_id, tag in pairs if token_id is not None}


def merge_events(events: list[Event]) -> list[Event]:
    """The same events with neighbouring text of one kind joined."""
    if len(events) < 2:
        return events
    merged: list[Event] = []
    run: list[str] = []
    previous: Event | None = None
    for event in [*events, None]:
        if event is not None and _continues(previous, event):
            run.append(_text_of(event))
            continue
        if previous is not None:
            merged.append(_with_text(previous, "".join(run)))
        previous = event
        run = [] if event is None else [_text_of(event)]
    return merged


def _continues(previous: Event | None, event: Event) -> bool:
    if isinstance(event, CallDelta):
        return isinstance(previous, CallDelta) and previous.index == event.index
    return isinstance(event, ReasoningDelta | ContentDelta) and type(previous) is type(event)


def _text_of(event: Event) -> str:
    if isinstance(event, CallDelta):
        return event.arguments
    return event.text if isinstance(event, ReasoningDelta | ContentDelta) else ""


def _with_text(event: Event, text: str) -> Event:
    if isinstance(event, CallDelta):
        return CallDelta(event.index, text)
    if isinstance(event, ReasoningDelta):
        return ReasoningDelta(text)
    return ContentDelta(text) if isinstance(event, ContentDelta) else event
