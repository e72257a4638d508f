"""What front and worker say to each other: plain data, one JSON object a line.

The front writes to the worker's standard input and reads its standard output; the worker's logs go
to standard error. A worker whose input ends exits at once, so a dead front leaves no orphan.
Every message is a frozen dataclass; `encode` gives the line, `decode` the message back.

    front -> worker    load, start, cancel, force, status, quit
    worker -> front    progress, ready, failed, tokens, prompt_progress, done, status_report
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import ClassVar


class MessageError(Exception):
    """A line is not one of our messages: the other side is broken."""


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How tokens are chosen. temperature 0 is greedy; the neutral value of each field is noted."""

    temperature: float = 1.0
    top_k: int = 0  # 0 = off
    top_p: float = 1.0
    min_p: float = 0.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    penalty_last_n: int = 64  # generated tokens that penalties look at, -1 = all
    logit_bias: tuple[tuple[int, float], ...] = ()
    seed: int = 0  # the front draws one when the client gives none
    top_logprobs: int = -1  # -1 = none wanted; 0.. = the chosen token's and so many alternatives


@dataclass(frozen=True, slots=True)
class Load:
    """Load a model. `config` is the run config as JSON-ready data."""

    kind: ClassVar[str] = "load"
    config: dict[str, object]


@dataclass(frozen=True, slots=True)
class Start:
    """Generate: tokens of the prompt, how to sample, when to stop."""

    kind: ClassVar[str] = "start"
    request_id: str
    prompt: tuple[int, ...]
    max_tokens: int
    stop_ids: tuple[int, ...]
    sampling: SamplingParams
    repeat_stop_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Cancel:
    """End a request; it answers with `done` of reason `cancelled` unless it just ended."""

    kind: ClassVar[str] = "cancel"
    request_id: str


@dataclass(frozen=True, slots=True)
class Force:
    """Append these tokens to a running answer and go on from them (end of thinking, M19)."""

    kind: ClassVar[str] = "force"
    request_id: str
    token_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class StatusQuery:
    """Ask for a `status_report`."""

    kind: ClassVar[str] = "status"


@dataclass(frozen=True, slots=True)
class Quit:
    """Free everything and exit 0."""

    kind: ClassVar[str] = "quit"


@dataclass(frozen=True, slots=True)
class Progress:
    """How far loading is. `phase` is a short word such as `weights`."""

    kind: ClassVar[str] = "progress"
    phase: str
    done_bytes: int
    total_bytes: int


@dataclass(frozen=True, slots=True)
class Ready:
    """The model is loaded."""

    kind: ClassVar[str] = "ready"
    context: int
    ops: str  # implementation and instruction set, such as `host avx512`
    fingerprint: str  # changes with anything that can change results


@dataclass(frozen=True, slots=True)
class Failed:
    """Loading failed, or the worker cannot go on. The sentence is for the person."""

    kind: ClassVar[str] = "failed"
    code: str
    message: str
    params: dict[str, str | int | float | bool | None]


@dataclass(frozen=True, slots=True)
class TokenLogprobs:
    """Log-softmax of the raw logits for one generated token."""

    token_id: int
    logprob: float
    top: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, slots=True)
class PromptProgress:
    """Prompt tokens read so far, cached ones included."""

    kind: ClassVar[str] = "prompt_progress"
    request_id: str
    read: int
    total: int
    cached: int


@dataclass(frozen=True, slots=True)
class Tokens:
    """Newly generated tokens, in order; several when drafts were accepted."""

    kind: ClassVar[str] = "tokens"
    request_id: str
    token_ids: tuple[int, ...]
    logprobs: tuple[TokenLogprobs, ...] = ()


@dataclass(frozen=True, slots=True)
class Timings:
    """Counts and milliseconds of one request; finite always."""

    prompt_tokens: int = 0
    cached_tokens: int = 0
    prompt_ms: float = 0.0
    generated_tokens: int = 0
    generated_ms: float = 0.0
    draft_tokens: int = 0
    draft_accepted: int = 0


@dataclass(frozen=True, slots=True)
class Done:
    """A request has ended: reason `stop` (a stop id, which is the last token sent), `length`,
    `context` (the context is full), `repeat`, `cancelled` or `error` (then with a sentence).
    """

    kind: ClassVar[str] = "done"
    request_id: str
    reason: str
    timings: Timings
    message: str = ""


@dataclass(frozen=True, slots=True)
class StatusReport:
    """What the worker does now."""

    kind: ClassVar[str] = "status_report"
    running: int
    waiting: int
    context_used_tokens: int
    memory_bytes: int


Message = (
    Load
    | Start
    | Cancel
    | Force
    | StatusQuery
    | Quit
    | Progress
    | Ready
    | Failed
    | PromptProgress
    | Tokens
    | Done
    | StatusReport
)
