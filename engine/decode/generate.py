"""Generation in this process: what `run`, `bench` and tests use instead of a worker.

The loop is the worker's own scheduler with room for one request:

    for token in generate(model, prompt_ids, SamplingParams(temperature=0), limits=limits):
        print(token.token_id)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from engine.core.disk_reads import DiskReads
from engine.core.errors import EngineError
from engine.decode.constraint import AnswerConstraint
from engine.decode.draft.drafting import Drafting
from engine.sequence.language_model import LanguageModel
from engine.sequence.scheduler import Event, Scheduler, SchedulerLimits
from engine.worker.messages import (
    Done,
    PromptProgress,
    SamplingParams,
    Start,
    TokenLogprobs,
    Tokens,
)

REQUEST_ID = "local"


@dataclass(frozen=True, slots=True)
class GeneratedToken:
    """One token of an answer, and its log probability when that was asked for."""

    token_id: int
    logprobs: TokenLogprobs | None = None


class Generation(Iterator[GeneratedToken]):
    """An answer as it is computed, token by token.

    Attributes:
        done: how it ended, None while it goes on.
    """

    def __init__(
        self,
        model: LanguageModel,
        start: Start,
        limits: SchedulerLimits,
        on_progress: Callable[[PromptProgress], None] | None = None,
        constrain: Callable[[Start], AnswerConstraint] | None = None,
        drafting: Drafting | None = None,
        disk_reads: Callable[[], tuple[DiskReads, ...]] = tuple,
    ) -> None:
        """Begin.

        Args:
            model: what computes.
            start: the request.
            limits: sizes that it is held to.
            on_progress: told how far the prompt has been read.
            constrain: makes what holds the answer to its form, if the request asks for one.
            drafting: guesses tokens.
            disk_reads: what has been read from the disk since the model is loaded.
        """
        self.done: Done | None = None
        self._request_id = start.request_id
        self._tokens: deque[GeneratedToken] = deque()
        self._on_progress = on_progress
        self._scheduler = Scheduler(
            model,
            limits,
            self._receive,
            constrain=constrain,
            drafting=drafting,
            disk_reads=disk_reads,
        )
        self._scheduler.submit(start)

    def __next__(self) -> GeneratedToken:
        """The next token.

        Raises:
            EngineError: the request cannot be computed; the sentence says why.
        """
        while not self._tokens:
            if self.done is not None:
                if self.done.reason == "error":
                    raise EngineError(self.done.message, code="generation_failed")
                raise StopIteration
            self._scheduler.step()
        return self._tokens.popleft()

    def force(self, token_ids: Iterable[int]) -> None:
        """Let these tokens follow the next one."""
        self._scheduler.force(self._request_id, token_ids)

    def close(self) -> None:
        """End the answer and give its sequence back; needed only before its end."""
        self._scheduler.close()
        self._tokens.clear()

    def _receive(self, event: Event) -> None:
        match event:
            case Tokens(_, token_ids, logprobs):
                for i, token_id in enumerate(token_ids):
                    self._tokens.append(GeneratedToken(token_id, logprobs[i] if logprobs else None))
            case Done():
                self.done = event
            case PromptProgress():
                if self._on_progress is not None:
                    self._on_progress(event)


def generate(
    model: LanguageModel,
    prompt_ids: Sequence[int],
    sampling: SamplingParams,
    max_tokens: int,
    stop_ids: Sequence[int],
    limits: SchedulerLimits,
    drafting: Drafting | None = None,
    disk_reads: Callable[[], tuple[DiskReads, ...]] = tuple,
) -> Generation:
    """The answer to a prompt; the final stop id, if any, is its last token."""
    start = Start(
        REQUEST_ID,
        prompt=tuple(prompt_ids),
        max_tokens=max_tokens,
        stop_ids=tuple(stop_ids),
        sampling=sampling,
    )
    return Generation(model, start, limits, drafting=drafting, disk_reads=disk_reads)
