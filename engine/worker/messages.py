"""What front and worker say to each other: plain data, one JSON object a line.

The front writes to the worker's standard input and reads its standard output; the worker's logs go
to standard error. A worker whose input ends exits at once, so a dead front leaves no orphan.
Every message is a frozen dataclass; `encode` gives the line, `decode` the message back.

    front -> worker    load, start, cancel, force, hold, status, quit
    worker -> front    progress, ready, failed, tokens, prompt_progress, done, status_report
"""

from __future__ import annotations

import json
import re
import typing
from dataclasses import dataclass
from typing import ClassVar

from engine.core.disk_reads import DiskReads
from engine.worker.plain_data import DataError, from_plain, to_plain

# A prompt of a million tokens is 8 MB; a longer line comes from something else than our code.
MAX_LINE_BYTES = 64 * 1024 * 1024


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
class ParameterRule:
    """One parameter of a tool, as a call's grammar knows it.

    Attributes:
        name: between `<parameter=` and `>`.
        is_required: a call without it is not complete.
        grammar: what follows the opening line up to the closing tag and its newline, as a grammar
            of llguidance; empty = raw text, which nothing restricts but the closing tag.
    """

    name: str
    is_required: bool
    grammar: str = ""


@dataclass(frozen=True, slots=True)
class ToolRule:
    """A tool that may be called."""

    name: str
    parameters: tuple[ParameterRule, ...] = ()


@dataclass(frozen=True, slots=True)
class Constraint:
    """What an answer may look like, enforced while tokens are chosen; thinking stays free.

    Made by `engine.text.grammar`. The worker needs `call_open_id` and `call_close_id` with it.

    Attributes:
        calls: `banned` (the call token never comes), `allowed` (a call may come; once its token is
            there, the rules of `tools` hold) or `required` (nothing but calls).
        tools: which may be called.
        is_parallel: one answer may hold several calls.
        document: grammar of llguidance for the whole answer, unless that is calls; empty = free text.
    """

    calls: str
    tools: tuple[ToolRule, ...] = ()
    is_parallel: bool = True
    document: str = ""

    def __post_init__(self) -> None:
        if self.calls not in {"banned", "allowed", "required"}:
            raise ValueError(f"calls cannot be {self.calls!r}")


@dataclass(frozen=True, slots=True)
class Start:
    """Generate: tokens of the prompt, how to sample, when to stop.

    Attributes:
        request_id: the front's name for the request, unique among running ones.
        prompt: at least one token.
        max_tokens: most tokens to generate, the final stop id not counted.
        stop_ids: tokens that end the answer.
        sampling: how tokens are chosen.
        repeat_stop_tokens: end when one token comes so often in a row; 0 = never.
        think_close_id: the token that ends thinking, for the rules below; -1 = none.
        rescue_ids: tokens that take the place of a stop id which comes before `think_close_id`,
            once (a model that stops in mid-thought, M19 of the tools format).
        think_budget: most tokens before `think_close_id`; 0 = no limit.
        budget_ids: what is appended when the budget is used up; ends with `think_close_id` and
            what follows it.
        call_open_id: penalties are off from this token ...
        call_close_id: ... to this one (arguments must reproduce text); -1 = none.
        constraint: what the answer may look like after its thinking; None = anything.
        shared_prefix: so many first tokens other conversations may begin with too (the system
            turn); 0 = nothing is known.
        turn_start: where the turn that is to be written begins in the prompt. A later prompt of the
            conversation agrees up to there, whatever it makes of this answer; 0 = unknown.
        tuning: run config settings that hold for this request alone, while calibration compares
            them; those that only a new load can change are ignored.
    """

    kind: ClassVar[str] = "start"
    request_id: str
    prompt: tuple[int, ...]
    max_tokens: int
    stop_ids: tuple[int, ...]
    sampling: SamplingParams
    repeat_stop_tokens: int = 0
    think_close_id: int = -1
    rescue_ids: tuple[int, ...] = ()
    think_budget: int = 0
    budget_ids: tuple[int, ...] = ()
    call_open_id: int = -1
    call_close_id: int = -1
    constraint: Constraint | None = None
    shared_prefix: int = 0
    turn_start: int = 0
    tuning: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Cancel:
    """End a request; it answers with `done` of reason `cancelled` unless it just ended."""

    kind: ClassVar[str] = "cancel"
    request_id: str


@dataclass(frozen=True, slots=True)
class Force:
    """Append these tokens to a running answer and go on from them (end of thinking).

    They follow the token that is being computed when the message arrives, count as generated and
    are sent like others. Ignored when the request has ended.
    """

    kind: ClassVar[str] = "force"
    request_id: str
    token_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Hold:
    """Stop generating for a request, or go on: its reader is slow. Ignored when it has ended."""

    kind: ClassVar[str] = "hold"
    request_id: str
    is_held: bool


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
    card_notice: str = ""  # why a graphics card that is there is not used, in sentences
    cards: tuple[str, ...] = ()  # keys of the checks of those that compute and were not asked for


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
    """Counts and milliseconds of one request; finite always.

    `generated_tokens` counts forced tokens and not the final stop id; `prompt_ms` runs from the
    request's first pass to its first token, `generated_ms` from there to its end. `drafters`: of each
    that drafted its name, tokens that it offered, and those accepted. `disk_prompt` and `disk_answer`:
    what the process read from the disk in these two times, for other requests too.
    """

    prompt_tokens: int = 0
    cached_tokens: int = 0
    prompt_ms: float = 0.0
    generated_tokens: int = 0
    generated_ms: float = 0.0
    draft_tokens: int = 0
    draft_accepted: int = 0
    drafters: tuple[tuple[str, int, int], ...] = ()
    disk_prompt: tuple[DiskReads, ...] = ()
    disk_answer: tuple[DiskReads, ...] = ()


@dataclass(frozen=True, slots=True)
class Done:
    """A request has ended.

    The reason is `stop` (a stop id came, which is the last token sent), `length`, `context` (the
    context is full), `repeat`, `cancelled` or `error` (then with a sentence).
    """

    kind: ClassVar[str] = "done"
    request_id: str
    reason: str
    timings: Timings
    message: str = ""


@dataclass(frozen=True, slots=True)
class StatusReport:
    """What the worker does now: an answer, or a sign of life in a long pass.

    `warm_sessions` are conversations that can be gone on with; their checkpoints hold the states
    after `warm_tokens` tokens (those that several share counted once) in `warm_bytes` of memory.
    `disk`: what was read since the model is loaded.
    """

    kind: ClassVar[str] = "status_report"
    running: int
    waiting: int
    context_used_tokens: int
    memory_bytes: int
    warm_sessions: int = 0
    warm_tokens: int = 0
    warm_bytes: int = 0
    disk: tuple[DiskReads, ...] = ()


Message = (
    Load
    | Start
    | Cancel
    | Force
    | Hold
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

_KINDS: dict[str, type[Message]] = {cls.kind: cls for cls in typing.get_args(Message)}


def encode(message: Message) -> bytes:
    """The message as one line, its newline included.

    Non-ASCII characters are escaped: a file name of undecodable bytes (lone surrogates) survives.

    Raises:
        MessageError: a value cannot be said in JSON (NaN, for one).
    """
    if type(message) is Tokens and not message.logprobs:
        return _encoded_tokens(message)
    plain = {"kind": message.kind, **typing.cast("dict[str, object]", to_plain(message))}
    try:
        line = json.dumps(plain, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError) as error:
        raise MessageError(f"the message {message.kind} cannot be sent: {error}") from error
    return line.encode("ascii") + b"\n"


# What `_encoded_tokens` writes, for names and numbers that JSON would read as they stand.
_TOKENS_LINE = re.compile(
    rb'\{"kind":"tokens","request_id":"([ !#-\[\]-~]*)",'
    rb'"token_ids":\[((?:0|[1-9]\d{0,11})(?:,(?:0|[1-9]\d{0,11}))*)\],"logprobs":\[\]\}\n?'
)


def _encoded_tokens(message: Tokens) -> bytes:
    """The line of the one message that comes by the thousand; the same as JSON would give."""
    ids = ",".join(map(str, message.token_ids))
    name = json.dumps(message.request_id)
    line = f'{{"kind":"tokens","request_id":{name},"token_ids":[{ids}],"logprobs":[]}}\n'
    return line.encode("ascii")


def decode(line: bytes) -> Message:
    """The message in one line.

    Raises:
        MessageError: not JSON, an unknown kind, a missing or unknown field, or a wrong type.
    """
    if len(line) > MAX_LINE_BYTES:
        raise MessageError(f"a line has {len(line)} bytes, more than any message")
    tokens = _TOKENS_LINE.fullmatch(line)
    if tokens is not None:
        return Tokens(tokens[1].decode("ascii"), tuple(map(int, tokens[2].split(b","))))
    try:
        plain = json.loads(line, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise MessageError(f"a line is not JSON: {error}") from error
    if not isinstance(plain, dict):
        raise MessageError("a line is not a JSON object")
    kind = plain.pop("kind", None)
    cls = _KINDS.get(kind) if isinstance(kind, str) else None
    if cls is None:
        raise MessageError(f"a line has the unknown kind {kind!r:.80}")
    try:
        return from_plain(cls, plain, cls.kind)
    except DataError as error:
        raise MessageError(str(error)) from error


def _refuse_constant(word: str) -> float:
    raise ValueError(f"{word} is not a number")
