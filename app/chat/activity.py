"""What a conversation is doing at the moment, as plain data for whoever shows it."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from engine.core.config import Effort


class Phase(enum.StrEnum):
    """What happens now."""

    IDLE = "idle"
    WAITING_FOR_ENGINE = (
        "waiting_for_engine"  # it starts, loads, restarts, or is stopped: see `wait`
    )
    QUEUED = "queued"  # other requests come first
    READING = "reading"  # the prompt: "reading 12,400 of 38,000 tokens"
    THINKING = "thinking"
    ANSWERING = "answering"
    WRITING_CALL = "writing_call"  # the model writes a tool call
    ASKING = "asking"  # a tool call waits for the person's consent
    RUNNING_TOOL = "running_tool"
    STOPPING = "stopping"


class Wait(enum.StrEnum):
    """Why the engine is waited for."""

    NOTHING = "nothing"
    STOPPED = "stopped"  # nobody has started it; the answer begins when somebody does
    STARTING = "starting"
    LOADING = "loading"  # with `Activity.load_share`
    RESTARTING = "restarting"  # it ended unexpectedly
    BUSY = "busy"  # its queue is full, or it is about to shut down


@dataclass(frozen=True, slots=True)
class Activity:
    """A moment of an answer; all counts are 0 until they are known.

    Attributes:
        phase: see `Phase`.
        message_id: the answer that is being made; None when idle.
        wait: why the engine is waited for.
        load_share: how much of the model is loaded, 0 to 1.
        prompt_tokens: of the whole prompt.
        prompt_read: of these, how many are done (remembered ones count as done).
        prompt_per_s: prompt tokens read in a second, remembered ones not counted.
        generated_tokens: so far, thinking included.
        tokens_per_s: over the last two seconds; 0 until that can be said.
        thinking_s: how long the thinking has taken.
        elapsed_s: since the person sent it.
        tool: name of the tool that is asked for, or runs.
        context_size: of the model; 0 = unknown.
    """

    phase: Phase = Phase.IDLE
    message_id: str | None = None
    wait: Wait = Wait.NOTHING
    load_share: float = 0.0
    prompt_tokens: int = 0
    prompt_read: int = 0
    prompt_per_s: float = 0.0
    generated_tokens: int = 0
    tokens_per_s: float = 0.0
    thinking_s: float = 0.0
    elapsed_s: float = 0.0
    tool: str = ""
    context_size: int = 0

    @property
    def is_busy(self) -> bool:
        """Whether an answer is being made."""
        return self.phase is not Phase.IDLE

    @property
    def can_answer_now(self) -> bool:
        """Whether "answer now" would change something."""
        early = (Phase.QUEUED, Phase.READING, Phase.THINKING)
        return self.phase in early

    @property
    def context_used(self) -> int:
        """Tokens of the context that are taken up."""
        return self.prompt_tokens + self.generated_tokens


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What the engine says about its model (`/props`).

    Attributes:
        name: under which it is served.
        context_size: in tokens; 0 = not known yet.
        sees_pictures: it has an image encoder.
        efforts: thinking levels that it knows.
        default_effort: used when a conversation names none.
        sampling: the values that hold when a conversation names none, such as `temperature`.
    """

    name: str = ""
    context_size: int = 0
    sees_pictures: bool = False
    efforts: tuple[Effort, ...] = tuple(Effort)
    default_effort: Effort = Effort.HIGH
    sampling: tuple[tuple[str, float], ...] = ()

    @property
    def is_known(self) -> bool:
        """Whether an engine has been asked."""
        return self.context_size > 0
