"""An answer while it grows: parts in lists, never one long text that is copied for each new word."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from app.chat.stream import CallGrown, ToolNews
from app.history.records import Message, MessageState, MessageStats, Problem, ToolCall, ToolState

OPEN_STATES = (ToolState.WRITING, ToolState.ASKING, ToolState.RUNNING)


class GrowingAnswer:
    """One answer, from its first part to its end.

    Attributes:
        message_id: of the message.
        num_chars: of the text so far.
    """

    def __init__(self, message: Message, clock: Callable[[], float] = time.monotonic) -> None:
        self.message_id = message.id
        self.num_chars = len(message.text)
        self._base = message
        self._texts: list[str] = []
        self._thinking: list[str] = []
        self._thinking_s = message.thinking_s
        self._thinking_since: float | None = None
        self._calls = list(message.tool_calls)
        self._clock = clock

    # -- what it is ------------------------------------------------------------------------------

    @property
    def has_text(self) -> bool:
        """Whether there is an answer yet, and not only thinking."""
        return bool(self._base.text.strip()) or any(text.strip() for text in self._texts)

    @property
    def has_thinking(self) -> bool:
        """Whether there is any thinking."""
        return bool(self._base.thinking or self._thinking)

    @property
    def has_calls(self) -> bool:
        """Whether tools were called."""
        return bool(self._calls)

    @property
    def thinking_s(self) -> float:
        """How long the thinking has taken so far."""
        if self._thinking_since is None:
            return self._thinking_s
        return self._thinking_s + self._clock() - self._thinking_since

    @property
    def asked_call(self) -> ToolCall | None:
        """The call that waits for the person, if one does."""
        return next((call for call in self._calls if call.state is ToolState.ASKING), None)

    @property
    def open_call(self) -> ToolCall | None:
        """The call that is being written, asked for or run."""
        return next((call for call in reversed(self._calls) if call.state in OPEN_STATES), None)

    def snapshot(self) -> Message:
        """The message with everything that has come."""
        return replace(
            self._base,
            text="".join([self._base.text, *self._texts]),
            thinking="".join([self._base.thinking, *self._thinking]),
            thinking_s=self.thinking_s,
            tool_calls=tuple(self._calls),
        )

    def without_growth(self) -> Message:
        """The same without the parts that are handed to the store one by one."""
        return replace(self._base, thinking_s=self.thinking_s, tool_calls=tuple(self._calls))

    def ended(
        self,
        state: MessageState,
        stats: MessageStats | None,
        problem: Problem | None = None,
        notes: tuple[str, ...] = (),
    ) -> Message:
        """The message as it stays; calls that are still open are lost."""
        self._end_thinking()
        self._calls = [
            replace(call, state=ToolState.LOST) if call.state in OPEN_STATES else call
            for call in self._calls
        ]
        return replace(self.snapshot(), state=state, stats=stats, problem=problem, notes=notes)

    # -- what comes ------------------------------------------------------------------------------

    def grow(self, text: str, *, is_thinking: bool) -> None:
        """Add a part."""
        if is_thinking:
            if self._thinking_since is None:
                self._thinking_since = self._clock()
            self._thinking.append(text)
            return
        self._end_thinking()
        self._texts.append(text)
        self.num_chars += len(text)

    def _end_thinking(self) -> None:
        self._thinking_s = self.thinking_s
        self._thinking_since = None

    def take_news(self, news: ToolNews) -> None:
        """Note what the engine says about a tool call."""
        if news.phase not in ("ask", "call", "result"):
            return
        self._end_thinking()
        data = news.data
        call = self._find(str(data.get("id")), data)
        match news.phase:
            case "ask":
                call = replace(
                    call,
                    state=ToolState.ASKING,
                    asked_at=time.time(),
                    answer_by_s=_number(data.get("timeout_s")),
                )
            case "call":
                call = replace(call, state=ToolState.RUNNING)
            case "result":
                state = ToolState.FAILED if data.get("is_error") else ToolState.DONE
                if call.state in (ToolState.ASKING, ToolState.REFUSED):
                    state = ToolState.REFUSED  # it never ran
                call = replace(call, state=state, result=str(data.get("content") or ""))
        self._put(call)

    def take_call(self, part: CallGrown) -> None:
        """Note a part of a call that the model is writing."""
        self._end_thinking()
        call_id = part.call_id or (self._calls[-1].id if self._calls else f"call_{part.index}")
        known = next((call for call in self._calls if call.id == call_id), None)
        if known is None:
            known = ToolCall(
                call_id, "", part.name, part.name, "", ToolState.WRITING, "", self.num_chars
            )
        self._put(replace(known, arguments=known.arguments + part.arguments))

    def answer_call(self, call_id: str, *, allow: bool) -> bool:
        """Note the person's answer; False when this call is not asked for."""
        call = self.asked_call
        if call is None or call.id != call_id:
            return False
        self._put(replace(call, state=ToolState.RUNNING if allow else ToolState.REFUSED))
        return True

    def _find(self, call_id: str, data: Mapping[str, object]) -> ToolCall:
        for call in self._calls:
            if call.id == call_id:
                return call
        arguments = data.get("arguments")
        return ToolCall(
            id=call_id,
            server=str(data.get("server") or ""),
            tool=str(data.get("tool") or ""),
            name=str(data.get("name") or ""),
            arguments=json.dumps(arguments, ensure_ascii=False) if arguments is not None else "",
            text_offset=self.num_chars,
        )

    def _put(self, call: ToolCall) -> None:
        for index, known in enumerate(self._calls):
            if known.id == call.id:
                self._calls[index] = call
                return
        self._calls.append(call)


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
