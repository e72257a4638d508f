"""One request while it runs: its sequence, and the choice of its next tokens."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from engine.core.disk_reads import DiskReads, difference
from engine.decode.constraint import AnswerConstraint
from engine.decode.draft.drafting import RequestDrafts
from engine.decode.logprobs import token_logprobs
from engine.decode.rules import GOES_ON, AnswerRules
from engine.decode.sampling import Sampler
from engine.ops.best_logits import BestLogits, FloatArray, RowLogits
from engine.ops.token_mask import TokenMask
from engine.sequence.session_visit import Visit
from engine.sequence.state import SequenceState
from engine.worker.messages import Start, Timings, TokenLogprobs

MOST_OF_FORM = 16  # tokens at once that an answer's form leaves no choice about
WINDOW_ROWS = 32  # an answer's pending tokens are computed at once up to so many


class Chosen(NamedTuple):  # made for each token: a frozen dataclass takes three times as long
    """What follows in an answer.

    Attributes:
        token_ids: new tokens; the first was drawn, others were forced.
        logprobs: of each of them, where they are wanted.
        reason: why the answer ends behind them; None = it goes on.
    """

    token_ids: tuple[int, ...]
    logprobs: tuple[TokenLogprobs, ...]
    reason: str | None


@dataclass(slots=True, eq=False)
class RunningRequest:
    """A running request. Tokens behind the state's length are still to be computed.

    Attributes:
        tokens: of prompt and answer.
        began_at: when it was admitted, seconds.
        first_token_at: when its prompt had been read.
        served: number of the last pass that read some of its prompt.
        forced: tokens that follow the next one.
        shortage: why the request pauses: no pages are left.
        is_held: it pauses because nobody takes its tokens.
        drafts: what may come next; None = nothing is drafted.
        disk: what had been read from the disk when it was admitted, and when its prompt had been read.
    """

    start: Start
    state: SequenceState
    rules: AnswerRules
    sampler: Sampler
    visit: Visit
    began_at: float
    tokens: list[int] = field(default_factory=list)
    constraint: AnswerConstraint | None = None
    first_token_at: float | None = None
    served: int = 0
    forced: deque[int] = field(default_factory=deque)
    is_cancelled: bool = False
    shortage: str = ""
    is_held: bool = False
    drafts: RequestDrafts | None = None
    disk: list[tuple[DiskReads, ...]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.tokens = list(self.start.prompt)

    @property
    def is_paused(self) -> bool:
        """Whether nothing is computed for it now: its reader is slow, or pages are missing."""
        return self.is_held or bool(self.shortage)

    @property
    def num_pending(self) -> int:
        """Tokens that are still to be computed."""
        return len(self.tokens) - self.state.length

    @property
    def is_window(self) -> bool:
        """Whether a step of it is short: the next token of its answer is wanted."""
        pending = self.num_pending
        return pending == 1 or (self.first_token_at is not None and pending <= WINDOW_ROWS)

    @property
    def takes_few(self) -> bool:
        """Whether the largest logits of each row will mostly do for its next tokens."""
        return self.start.sampling.top_logprobs < 0 and self.sampler.takes_few

    def choose(self, logits: RowLogits) -> Chosen:
        """Draw the next token and add what must follow it.

        What must follow: what the rules put in, and what the answer's form leaves no choice about.

        Raises:
            EngineError: there is no next token: the logits, or the answer's form, cannot be used.
        """
        return self.take(self._draw(logits), logits)

    def take(self, token_id: int, logits: RowLogits) -> Chosen:
        """Add the next token, which `choose` would have drawn, and what must follow it.

        Raises:
            EngineError: the answer's form cannot be used.
        """
        num_top, constraint = self.start.sampling.top_logprobs, self.constraint
        outcome = self.rules.accept(token_id)
        following: int | None = None  # what the form leaves no choice about
        if outcome is GOES_ON and num_top < 0 and not self.forced:
            following = None if constraint is None else constraint.take_forced()
            if following is None:  # as behind most tokens
                self.sampler.note(token_id)
                self.tokens.append(token_id)
                return Chosen((token_id,), (), None)
        added: list[int] = []
        logprobs: list[TokenLogprobs] = []
        if outcome.is_kept:
            added.append(token_id)
            self.sampler.note(token_id)
            if num_top >= 0:
                every = logits.all_logits() if isinstance(logits, BestLogits) else logits
                logprobs.append(token_logprobs(every, token_id, num_top))
        self.forced.extendleft(reversed(outcome.append))
        self.rules.drop_late(self.forced)
        while outcome.reason is None:
            if following is not None:
                token_id, following = following, None
            elif self.forced:
                token_id = self.forced.popleft()
                if constraint is not None:
                    constraint.advance(token_id)
            else:
                # Where log-probabilities are wanted, the model is asked about every token.
                may_follow = num_top < 0 and len(added) < MOST_OF_FORM
                must = constraint.take_forced() if constraint is not None and may_follow else None
                if must is None:
                    break
                token_id = must
            outcome = self.rules.accept(token_id, is_forced=True)
            self.forced.extendleft(reversed(outcome.append))
            self.rules.drop_late(self.forced)
            added.append(token_id)
            self.sampler.note(token_id)
            if num_top >= 0:
                logprobs.append(TokenLogprobs(token_id, 0.0))  # it was certain
        self.tokens.extend(added)
        return Chosen(tuple(added), tuple(logprobs), outcome.reason)

    def draw_window(
        self, logits: FloatArray | Sequence[RowLogits], drafts: Sequence[int]
    ) -> list[int]:
        """What would be drawn from the first rows of a window, where that is known at once.

        Args:
            logits: of 1 + drafts rows, as for `verify`.
            drafts: the tokens that were guessed.
        """
        if self.constraint is not None or not isinstance(logits, np.ndarray):
            return []
        return self.sampler.sample_window(logits, drafts)

    def timings(self, now: float, disk: tuple[DiskReads, ...] = ()) -> Timings:
        """Counts and times up to now; `disk` is what has been read from the disk by now."""
        first_at = self.first_token_at if self.first_token_at is not None else now
        return Timings(
            prompt_tokens=len(self.start.prompt),
            cached_tokens=self.visit.num_cached,
            prompt_ms=(first_at - self.began_at) * 1000,
            generated_tokens=self.rules.num_generated,
            generated_ms=(now - first_at) * 1000,
            draft_tokens=0 if self.drafts is None else self.drafts.num_offered,
            draft_accepted=0 if self.drafts is None else self.drafts.num_accepted,
            drafters=() if self.drafts is None else self.drafts.by_drafter,
            disk_prompt=difference((*self.disk[1:], disk)[0], self.disk[0]) if self.disk else (),
            disk_answer=difference(disk, self.disk[1]) if len(self.disk) > 1 else (),
        )

    def _draw(self, logits: RowLogits) -> int:
        if self.constraint is None:
            return self._sample(logits)
        return self.constraint.choose(logits, self._sample, self._sample_for_any_mask)

    def _sample(self, logits: RowLogits, mask: TokenMask | None = None) -> int:
        return self.sampler.sample(logits, mask, use_penalties=not self.rules.is_in_call)

    def _sample_for_any_mask(self, logits: RowLogits) -> int | None:
        return self.sampler.sample_for_any_mask(logits, use_penalties=not self.rules.is_in_call)
