"""One answer from token ids to events: bytes to text, thinking and calls apart, stop strings.

Puts together the streaming detokenizer, the answer parser and the stop matcher, and keeps the whole
answer for clients that do not stream. Stop strings apply to the answer's text only, never to
thinking or call markup (spec/api.md, section 3). A turn-end token is never text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from engine.text.detokenizer import StreamingDetokenizer
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
from engine.text.parser import AnswerParser, ParseOutcome, Phase
from engine.text.stops import StopMatcher
from engine.text.tokenizer import Tokenizer

_TEXT_ONLY = -1  # a token id that is no tag, for text without a token of its own


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A complete call; `arguments` is one JSON object."""

    index: int
    call_id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class AnswerUpdate:
    """What some tokens added to an answer.

    Attributes:
        events: in order.
        stopped: the stop string that ended the answer, None while it goes on.
        num_tokens: how many of the pushed tokens belong to the answer (not those after its end).
        is_turn_end: a turn-end token has come; what follows it is ignored until `finish`.
        is_over: a stop string, or the one call that is wanted, has ended the answer.
    """

    events: tuple[Event, ...]
    stopped: str | None = None
    num_tokens: int = 0
    is_turn_end: bool = False
    is_over: bool = False


def structure_ids(tokenizer: Tokenizer) -> StructureIds:
    """The parser's structure ids in a tokenizer's vocabulary."""
    ids = tokenizer.structure
    return StructureIds(
        think_open=ids.think,
        think_close=ids.think_end,
        call_open=ids.tool_call,
        call_close=ids.tool_call_end,
        turn_end=tokenizer.eos_ids,
    )


class AnswerStream:
    """Push token ids as they come, in any division, then `finish`.

    A raw answer is the continuation of a text, not of a conversation: its tags are content. One that
    `ends_with_call` is over behind its first complete call: with the tag that closes it, so that the
    ids are those of the turn in which the call comes back, or with what comes in the tag's place.

    Attributes:
        num_reasoning_tokens: tokens of thinking so far, closing tags not counted.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        tools: Sequence[ToolSpec],
        *,
        starts_in_thinking: bool,
        stops: Sequence[str],
        new_call_id: Callable[[], str],
        is_raw: bool = False,
        ends_with_call: bool = False,
    ) -> None:
        structure = structure_ids(tokenizer)
        if is_raw:
            structure = StructureIds(None, None, None, None, structure.turn_end)
        self._tags = structure.tags()
        self._think_close = structure.think_close
        self._call_close = structure.call_close
        self._turn_end = structure.turn_end
        self._detokenizer = StreamingDetokenizer(tokenizer, show_control=is_raw)
        self._parser = AnswerParser(
            structure, tools, starts_in_thinking=starts_in_thinking, new_call_id=new_call_id
        )
        self._stops = StopMatcher(stops)
        self._ends_with_call = ends_with_call
        self._has_end_within = ends_with_call or any(stops)
        self._stopped: str | None = None
        self._has_the_call = False  # the one that is wanted
        self._is_over = False
        self._has_turn_end = False
        self._reasoning: list[str] = []
        self._content: list[str] = []
        self._open: dict[int, tuple[CallStart, list[str]]] = {}
        self._calls: list[ToolCall] = []
        self.num_reasoning_tokens = 0

    @property
    def phase(self) -> Phase:
        """What the model is writing at this moment."""
        return self._parser.phase

    @property
    def reasoning(self) -> str:
        """All thinking so far."""
        return "".join(self._reasoning)

    @property
    def content(self) -> str:
        """All of the answer's text so far."""
        return "".join(self._content)

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The complete calls so far; one that was cut is not among them."""
        return tuple(self._calls)

    @property
    def stopped(self) -> str | None:
        """The stop string that ended the answer, if one did."""
        return self._stopped

    @property
    def is_complete(self) -> bool:
        """Whether a stop string, or the one call that is wanted, has come."""
        return self._is_over or self._has_the_call

    @property
    def outcome(self) -> ParseOutcome:
        """Counters and whether a retry is due; final after `finish`."""
        return self._parser.outcome

    def finish_reason(self, reason: FinishReason) -> FinishReason:
        """The reason to report to the client, `reason` being why the tokens ended."""
        return self.outcome.finish_reason(FinishReason.STOP if self._stopped else reason)

    def push(self, token_ids: Sequence[int]) -> AnswerUpdate:
        """The events of the next tokens; those after the answer's end are ignored."""
        events: list[Event] = []
        num_tokens = 0
        run: list[int] = []  # tokens whose text is read at once
        for token_id in token_ids:
            if self._has_turn_end or self._is_over:
                break
            if token_id in self._turn_end:
                self._has_turn_end = True
                break
            num_tokens += 1
            if self._parser.phase is Phase.THINKING and token_id != self._think_close:
                self.num_reasoning_tokens += 1
            if not self._has_end_within and token_id not in self._tags:
                run.append(token_id)
                continue
            self._push_run(run, events)
            self._deliver(self._push_one(token_id), events)
            if self._has_the_call and token_id == self._call_close:
                self._is_over = True
        self._push_run(run, events)
        return self._update(events, num_tokens)

    def finish(self, reason: FinishReason) -> AnswerUpdate:
        """The events that the end of the answer decides.

        After a finish whose outcome says `needs_retry`, more tokens may be pushed (M19).
        """
        events: list[Event] = []
        self._has_turn_end = False
        if not self._is_over:
            self._deliver(self._parser.push(_TEXT_ONLY, self._detokenizer.flush()), events)
            self._deliver(self._parser.finish(reason), events)
            held = self._stops.flush()
            if held:
                events.append(ContentDelta(held))
        return self._update(events, 0)

    def _push_run(self, run: list[int], events: list[Event]) -> None:
        """Read tokens that are no tags; the phase does not change between them. Empties the run.

        Where a stop string or a call might end the answer, it would not be known after which token.
        """
        if run:
            text = self._detokenizer.push_all(run)
            run.clear()
            if text:
                self._deliver(self._parser.push(_TEXT_ONLY, text), events)

    def _push_one(self, token_id: int) -> list[Event]:
        # a tag ends an unfinished character before it (T15); its own text the parser knows
        is_tag = token_id in self._tags
        text = self._detokenizer.flush() if is_tag else self._detokenizer.push(token_id)
        return self._parser.push(token_id, text) if text or is_tag else []

    def _deliver(self, parsed: list[Event], events: list[Event]) -> None:
        """Appends what the stop strings let through, up to the answer's end."""
        for event in parsed:
            self._is_over = self._is_over or self._has_the_call
            if self._is_over:
                return
            if isinstance(event, ContentDelta):
                text, self._stopped = self._stops.push(event.text)
                self._is_over = self._stopped is not None
            else:
                text = self._stops.flush()
            if text:
                events.append(ContentDelta(text))
            if not isinstance(event, ContentDelta):
                events.append(event)
            self._has_the_call = self._ends_with_call and isinstance(event, CallEnd)

    def _update(self, events: list[Event], num_tokens: int) -> AnswerUpdate:
        merged = merge_events(events)
        for event in merged:
            self._keep(event)
        return AnswerUpdate(
            tuple(merged), self._stopped, num_tokens, self._has_turn_end, self._is_over
        )

    def _keep(self, event: Event) -> None:
        if isinstance(event, ReasoningDelta):
            self._reasoning.append(event.text)
        elif isinstance(event, ContentDelta):
            self._content.append(event.text)
        elif isinstance(event, CallStart):
            self._open[event.index] = (event, [])
        elif isinstance(event, CallDelta):
            self._open[event.index][1].append(event.arguments)
        elif isinstance(event, CallEnd):
            start, fragments = self._open.pop(event.index)
            self._calls.append(ToolCall(start.index, start.call_id, start.name, "".join(fragments)))
