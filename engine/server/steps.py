"""What to generate, and the steps in which an answer arrives: what `generation` and the protocols share."""

from __future__ import annotations

from dataclasses import dataclass

from engine.server.generation_request import GenerationRequest
from engine.server.tool_fields import ToolUse
from engine.text.events import Event
from engine.worker.messages import Constraint, SamplingParams, Timings

NO_TOOLS = ToolUse()


@dataclass(frozen=True, slots=True)
class GenerationPlan:
    """What to generate.

    Attributes:
        prompt: token ids.
        max_tokens: most tokens of one choice.
        constraint: what the answer may look like; None = anything.
        budget: most thinking tokens, None = no limit.
        choices: how many answers, one after the other; the seed grows by one for each.
        request: what an upstream is asked, which then has the prompt and the tokens.
        answer_start: text at the prompt's end that the answer goes on from.
        is_raw: the prompt is a text to go on with, not a conversation.
    """

    prompt: tuple[int, ...]
    starts_in_thinking: bool
    max_tokens: int
    sampling: SamplingParams
    stops: tuple[str, ...] = ()
    tools: ToolUse = NO_TOOLS
    constraint: Constraint | None = None
    budget: int | None = None
    choices: int = 1
    request: GenerationRequest | None = None
    answer_start: str = ""
    is_raw: bool = False


@dataclass(frozen=True, slots=True)
class Began:
    """The worker has started on a choice."""

    choice: int
    fingerprint: str


@dataclass(frozen=True, slots=True)
class PromptRead:
    """How much of the prompt has been read."""

    choice: int
    read: int
    total: int
    cached: int
    elapsed_ms: int


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of the answer; `logprobs` holds entries for the tokens of its text, if wanted."""

    choice: int
    event: Event
    logprobs: tuple[dict[str, object], ...] = ()


@dataclass(frozen=True, slots=True)
class ChoiceEnd:
    """A choice is complete.

    Attributes:
        finish: `stop`, `length` or `tool_calls`.
        generated: output tokens, thinking included, the turn-end token not.
        reasoning: tokens of thinking among them.
        stopped: the stop string that ended it, if one did.
        is_cancelled: its owner ended it; then `finish` is `stop`.
        prompt_tokens: tokens that were read for it, where that is not the plan's prompt alone.
    """

    choice: int
    finish: str
    generated: int
    reasoning: int
    timings: Timings
    stopped: str | None = None
    is_cancelled: bool = False
    prompt_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class ToolEvent:
    """Something about a tool that the server runs itself; `data` is for the client."""

    choice: int
    data: dict[str, object]


Step = Began | PromptRead | Delta | ToolEvent | ChoiceEnd
