"""The JSON shapes of `/v1/chat/completions`: whole answers and stream chunks (spec/api.md 5)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from engine.core.disk_reads import disk_report, widest
from engine.server.answers import to_json
from engine.server.sse import data_event
from engine.server.steps import ChoiceEnd, Delta, PromptRead, Step
from engine.text.events import (
    CallDelta,
    CallEnd,
    CallStart,
    ContentDelta,
    ReasoningDelta,
)
from engine.worker.messages import Timings

JsonObject = dict[str, object]

_PLACE = "the content"  # where it goes in an event that is written once


@dataclass(frozen=True, slots=True)
class ChatHead:
    """What all chunks of an answer share."""

    completion_id: str
    created: int
    model: str
    include_usage: bool = False

    def chunk(self, fingerprint: str, choices: list[JsonObject]) -> JsonObject:
        """A stream chunk; `usage` is there, as null, only when the client asked for usage."""
        usage: JsonObject = {"usage": None} if self.include_usage else {}
        return {
            "id": self.completion_id,
            "object": "chat.completion.chunk",
            "created": self.created,
            "model": self.model,
            "system_fingerprint": fingerprint,
            "choices": choices,
            **usage,
        }


def chunk_choice(
    index: int,
    delta: Mapping[str, object],
    finish: str | None = None,
    logprobs: Iterable[JsonObject] = (),
) -> JsonObject:
    """One entry of a chunk's `choices`."""
    entries = list(logprobs)
    return {
        "index": index,
        "delta": dict(delta),
        "finish_reason": finish,
        "logprobs": {"content": entries, "refusal": None} if entries else None,
    }


class ContentEvents:
    """Events of plain content, which come by the thousand: all but the text is written once.

    Attributes:
        index: the choice that the content belongs to.
    """

    def __init__(self, head: ChatHead, fingerprint: str, index: int) -> None:
        self.index = index
        chunk = head.chunk(fingerprint, [chunk_choice(index, {"content": _PLACE})])
        # The last one: a model may be called anything, but its name stands before the choices.
        self._before, self._after = data_event(chunk).rsplit(to_json(_PLACE).encode(), 1)

    def event(self, text: str) -> bytes:
        """What `data_event` makes of a chunk with this content."""
        return self._before + to_json(text).encode("utf-8", "replace") + self._after


def delta_of(step: Delta) -> JsonObject | None:
    """The `delta` of a chunk; None for events that chat chunks do not show."""
    match step.event:
        case ReasoningDelta(text):
            # The empty `content` is on purpose: a release of Cline fails without the key.
            return {"content": "", "reasoning_content": text}
        case ContentDelta(text):
            return {"content": text}
        case CallStart(index, call_id, name):
            function: JsonObject = {"name": name, "arguments": ""}
            call: JsonObject = {"index": index, "id": call_id, "type": "function"}
            return {"tool_calls": [{**call, "function": function}]}
        case CallDelta(index, arguments):
            return {"tool_calls": [{"index": index, "function": {"arguments": arguments}}]}
        case CallEnd():
            return None


def progress_chunk_part(step: PromptRead) -> JsonObject:
    """The extra key of a chunk that tells how far the prompt has been read."""
    return {
        "prompt_progress": {
            "total": step.total,
            "cache": step.cached,
            "processed": step.read,
            "time_ms": step.elapsed_ms,
        }
    }


@dataclass(slots=True)
class UsageCount:
    """Counts over all choices of a request; the prompt counts once."""

    prompt: int
    cached: int = 0
    generated: int = 0
    reasoning: int = 0
    timings: list[Timings] = field(default_factory=list)

    def add(self, end: ChoiceEnd) -> None:
        """Count a choice that has ended."""
        if not self.timings:
            self.cached = end.timings.cached_tokens
        if end.prompt_tokens is not None:
            self.prompt = end.prompt_tokens
        self.generated += end.generated
        self.reasoning += end.reasoning
        self.timings.append(end.timings)

    def usage(self) -> JsonObject:
        """OpenAI's `usage`."""
        return {
            "prompt_tokens": self.prompt,
            "completion_tokens": self.generated,
            "total_tokens": self.prompt + self.generated,
            "prompt_tokens_details": {"cached_tokens": self.cached},
            "completion_tokens_details": {"reasoning_tokens": self.reasoning},
        }

    def timings_object(self) -> JsonObject:
        """The timings of all choices together."""
        total = Timings(
            prompt_tokens=self.prompt,
            cached_tokens=self.cached,
            prompt_ms=sum(timing.prompt_ms for timing in self.timings),
            generated_tokens=self.generated,
            generated_ms=sum(timing.generated_ms for timing in self.timings),
            draft_tokens=sum(timing.draft_tokens for timing in self.timings),
            draft_accepted=sum(timing.draft_accepted for timing in self.timings),
            drafters=tuple(drafter for timing in self.timings for drafter in timing.drafters),
            disk_prompt=widest(*(timing.disk_prompt for timing in self.timings)),
            disk_answer=widest(*(timing.disk_answer for timing in self.timings)),
        )
        return timings_object(total, num_answers=len(self.timings))


def timings_object(timings: Timings, num_answers: int = 1) -> JsonObject:
    """The timings under llama.cpp's names; always finite."""
    prompt_n = max(timings.prompt_tokens - timings.cached_tokens, 0)
    # The first token of an answer comes with the prompt's last pass, before `generated_ms` begins.
    num_steps = max(timings.generated_tokens - num_answers, 0)
    drafters: dict[str, int] = {}
    for name, offered, accepted in timings.drafters:
        for key, count in ((f"draft_n_{name}", offered), (f"draft_n_{name}_accepted", accepted)):
            drafters[key] = drafters.get(key, 0) + count
    return {
        "cache_n": timings.cached_tokens,
        "prompt_n": prompt_n,
        "prompt_ms": round(timings.prompt_ms, 3),
        "prompt_per_second": per_second(prompt_n, timings.prompt_ms),
        "predicted_n": timings.generated_tokens,
        "predicted_ms": round(timings.generated_ms, 3),
        "predicted_per_second": per_second(num_steps, timings.generated_ms),
        "draft_n": timings.draft_tokens,
        "draft_n_accepted": timings.draft_accepted,
        **drafters,
        **disk_report(timings.disk_prompt, timings.disk_answer, num_steps),
    }


def per_second(count: int, milliseconds: float) -> float:
    """A rate; 0 when no time passed."""
    return round(count / milliseconds * 1000, 3) if milliseconds > 0 else 0.0


class WholeChoice:
    """Collects the steps of one choice into a message."""

    def __init__(self, *, with_logprobs: bool) -> None:
        self._reasoning: list[str] = []
        self._content: list[str] = []
        self._calls: dict[int, tuple[CallStart, list[str]]] = {}
        self._complete: set[int] = set()
        self._logprobs: list[JsonObject] | None = [] if with_logprobs else None
        self._finish = "stop"

    def add(self, step: Step) -> None:
        """Take in one step."""
        if isinstance(step, ChoiceEnd):
            self._finish = step.finish
        if not isinstance(step, Delta):
            return
        match step.event:
            case ReasoningDelta(text):
                self._reasoning.append(text)
            case ContentDelta(text):
                self._content.append(text)
            case CallStart(index=index) as start:
                self._calls[index] = (start, [])
            case CallDelta(index, arguments):
                self._calls[index][1].append(arguments)
            case CallEnd(index):
                self._complete.add(index)
        if self._logprobs is not None:
            self._logprobs += step.logprobs

    def choice(self, index: int) -> JsonObject:
        """The entry of `choices`; a call that was cut is left out."""
        calls = [
            {
                "id": start.call_id,
                "type": "function",
                "function": {"name": start.name, "arguments": "".join(fragments)},
            }
            for number, (start, fragments) in sorted(self._calls.items())
            if number in self._complete
        ]
        content = "".join(self._content)
        message: JsonObject = {
            "role": "assistant",
            "content": None if calls and not content else content,
            "refusal": None,
        }
        if self._reasoning:
            message["reasoning_content"] = "".join(self._reasoning)
        if calls:  # an empty array makes some clients wait for calls for ever
            message["tool_calls"] = calls
        logprobs = None
        if self._logprobs is not None:
            logprobs = {"content": self._logprobs, "refusal": None}
        return {
            "index": index,
            "message": message,
            "finish_reason": self._finish,
            "logprobs": logprobs,
        }
