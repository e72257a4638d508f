"""What of a window becomes part of the answer (docs/how-it-works/drafts.md).

A window is the newest token of an answer and drafts of what may follow. The model has computed
logits behind each of them; now tokens are chosen one after the other as they would have been without
drafts: with the same constraint, penalties, random numbers and stop rules. As long as what was chosen
is what was drafted, the next logits are those of the true answer.

So output is the same token for token, sampled output for the same seed too: a draw depends on seed
and position alone. A draft is accepted with the probability that the model gives it, which is what
rejection sampling comes to for a token that was not drawn (a point mass). Drafts of the draft head
are drawn with the random number of their position, so both agree more often than two independent
draws would.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from engine.core.errors import EngineError
from engine.ops.best_logits import FloatArray, RowLogits

if TYPE_CHECKING:
    from engine.sequence.running_request import Chosen
    from engine.worker.messages import TokenLogprobs


class Chooser(Protocol):
    """Chooses the next token of an answer; what verification needs of a request."""

    def choose(self, logits: RowLogits) -> Chosen:
        """Draw the next token and add what must follow it."""

    def take(self, token_id: int, logits: RowLogits) -> Chosen:
        """Add the next token, which `choose` would have drawn, and what must follow it."""


class Verified(NamedTuple):  # made for each token: a frozen dataclass takes three times as long
    """What follows from a window.

    Attributes:
        num_accepted: drafts that are part of the answer, from the first on: the state is to be
            committed up to the last of them.
        token_ids: new tokens of the answer, accepted drafts first.
        logprobs: of each of them, where they are wanted.
        reason: why the answer ends behind them; None = it goes on.
    """

    num_accepted: int
    token_ids: tuple[int, ...]
    logprobs: tuple[TokenLogprobs, ...]
    reason: str | None


def verify(
    request: Chooser,
    logits: Sequence[RowLogits] | FloatArray,
    drafts: Sequence[int],
    drawn: Sequence[int] = (),
) -> Verified:
    """Choose tokens of a window.

    Args:
        request: chooses.
        logits: of 1 + drafts rows, behind the newest token and behind each draft.
        drafts: the tokens that were guessed.
        drawn: what would be drawn from the first rows, as far as drafts before them are right.

    Raises:
        EngineError: there is no next token, before any could be chosen.
    """
    if not drafts:
        chosen = request.choose(logits[0])
        return Verified(0, chosen.token_ids, chosen.logprobs, chosen.reason)
    token_ids: list[int] = []
    logprobs: list[TokenLogprobs] = []
    accepted = 0
    while True:
        try:
            if accepted < len(drawn):
                chosen = request.take(drawn[accepted], logits[accepted])
            else:
                chosen = request.choose(logits[accepted])
        except EngineError:
            if not token_ids:
                raise
            # Let the last draft be computed once more, alone: then the error is the only outcome.
            return Verified(accepted - 1, tuple(token_ids), tuple(logprobs), None)
        token_ids.extend(chosen.token_ids)
        logprobs.extend(chosen.logprobs)
        matched = num_common(chosen.token_ids, drafts[accepted : accepted + len(chosen.token_ids)])
        accepted += matched
        # What was forced behind a chosen token can agree with drafts too.
        if chosen.reason is not None or not chosen.token_ids or matched < len(chosen.token_ids):
            return Verified(accepted, tuple(token_ids), tuple(logprobs), chosen.reason)


def num_common(first: Sequence[int], second: Sequence[int]) -> int:
    """Length of the common beginning.

    >>> num_common((1, 2, 3), (1, 2, 4, 5)), num_common((), (1,))
    (2, 0)
    """
    count = 0
    for a, b in zip(first, second, strict=False):
        if a != b:
            break
        count += 1
    return count
