"""One turn of a model that may call MCP tools: what the client sees of it, and which calls it made.

Calls of MCP tools are kept from the client, who could not answer them; its own tools' calls get the
indexes that are left. Text of a later turn is set off from the earlier one's by a blank line.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

from engine.server.steps import Delta
from engine.text.events import CallDelta, CallEnd, CallStart, ContentDelta, ReasoningDelta

BREAK = "\n\n"


@dataclass(slots=True)
class Call:
    """A call of an MCP tool; `arguments` joined are one JSON object."""

    call_id: str
    name: str
    arguments: list[str] = field(default_factory=list)
    is_complete: bool = False

    @property
    def arguments_text(self) -> str:
        """The arguments as JSON text."""
        return "".join(self.arguments) or "{}"


class Transcript:
    """What the client has seen of the whole answer so far."""

    def __init__(self) -> None:
        self.has_content = False
        self.has_reasoning = False
        self.num_own_calls = 0


class Turn:
    """Takes in the deltas of one turn, and says what of them goes to the client."""

    def __init__(self, names: AbstractSet[str], seen: Transcript) -> None:
        self.content: list[str] = []
        self.reasoning: list[str] = []
        self.calls: dict[int, Call] = {}
        self.own_calls: dict[int, int] = {}  # the parser's index to the client's
        self._names = names
        self._seen = seen
        self._break_content = seen.has_content
        self._break_reasoning = seen.has_reasoning

    def add(self, delta: Delta) -> Delta | None:
        """Take in one delta; what the client gets of it."""
        match delta.event:
            case ContentDelta(text):
                self.content.append(text)
                self._seen.has_content = self._seen.has_content or bool(text)
                broken = self._break_content and bool(text)
                self._break_content = self._break_content and not broken
                return replace(delta, event=ContentDelta(BREAK + text)) if broken else delta
            case ReasoningDelta(text):
                self.reasoning.append(text)
                self._seen.has_reasoning = self._seen.has_reasoning or bool(text)
                broken = self._break_reasoning and bool(text)
                self._break_reasoning = self._break_reasoning and not broken
                return replace(delta, event=ReasoningDelta(BREAK + text)) if broken else delta
            case CallStart() | CallDelta() | CallEnd():
                return self._add_call(delta, delta.event)

    @property
    def complete_calls(self) -> list[Call]:
        """The calls of MCP tools that were not cut."""
        return [call for call in self.calls.values() if call.is_complete]

    def _add_call(self, delta: Delta, event: CallStart | CallDelta | CallEnd) -> Delta | None:
        if isinstance(event, CallStart):
            if event.name in self._names:
                self.calls[event.index] = Call(event.call_id, event.name)
            else:
                self.own_calls[event.index] = self._seen.num_own_calls
                self._seen.num_own_calls += 1
        call = self.calls.get(event.index)
        if call is None:
            return replace(delta, event=replace(event, index=self.own_calls[event.index]))
        if isinstance(event, CallDelta):
            call.arguments.append(event.arguments)
        elif isinstance(event, CallEnd):
            call.is_complete = True
        return None
