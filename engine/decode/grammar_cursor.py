"""A place in a text that a grammar describes; earlier places stay usable (for drafts).

A matcher can be moved back, but there is one of it: places share it, and whichever is asked moves it
to where it stands. That works along one line of tokens, which is all that an answer needs: a place
that was given up is never asked again.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from llguidance import LLMatcher

from engine.core.errors import EngineError
from engine.ops.token_mask import TokenMask

# Processor time of one mask; the second one above it ends the answer. Asking for it takes a call of the
# system, so it is asked for from the first mask on that has taken so long by the clock.
MAX_MASK_S = 0.05


class ConstraintError(EngineError):
    """An answer's form cannot be enforced (any more)."""

    code = "constraint_failed"


@dataclass(slots=True, eq=False)
class _Shared:
    """One matcher, how many tokens it has read, and how often it took too long.

    Attributes:
        num_slow: masks that took too much processor time.
        is_suspect: one took too long by the clock.
    """

    matcher: LLMatcher
    num_read: int = 0
    num_slow: int = 0
    is_suspect: bool = False


class GrammarCursor:
    """A place behind some tokens of a grammar's text."""

    __slots__ = ("_num_read", "_shared")

    def __init__(self, matcher: LLMatcher) -> None:
        """The place before the first token; the matcher belongs to the cursor from now on."""
        self._shared = _Shared(matcher)
        self._num_read = 0

    def read(self, token_ids: list[int]) -> GrammarCursor | None:
        """The place behind these tokens, None where the grammar does not allow them.

        Raises:
            ConstraintError: the grammar's limits were exceeded.
        """
        shared = self._shared
        # Mostly it stands here already, and one call less counts for each token.
        matcher = shared.matcher if shared.num_read == self._num_read else self._moved()
        num_read: int = matcher.try_consume_tokens(token_ids)
        shared.num_read += num_read
        if num_read < len(token_ids):
            if matcher.is_error():  # from now on it refuses everything
                raise _too_complicated()
            return None
        place = GrammarCursor.__new__(GrammarCursor)
        place._shared = shared
        place._num_read = shared.num_read
        return place

    def read_known(self, token_ids: list[int]) -> GrammarCursor:
        """The place behind tokens that the grammar is known to allow: `read` would look at them twice.

        Raises:
            ConstraintError: the grammar's limits were exceeded (or it does not allow them).
        """
        shared, matcher = self._shared, self._moved()
        if not matcher.consume_tokens(token_ids):
            raise _too_complicated()
        shared.num_read += len(token_ids)
        place = GrammarCursor.__new__(GrammarCursor)
        place._shared = shared
        place._num_read = shared.num_read
        return place

    @property
    def is_done(self) -> bool:
        """Whether the text is complete, and nothing more may follow."""
        return self._moved().is_stopped()

    def write_mask(self, mask: TokenMask) -> None:
        """Make the mask the set of the tokens that may follow.

        Raises:
            ConstraintError: the grammar takes too long, or its limits were exceeded.
        """
        shared = self._shared
        matcher = shared.matcher if shared.num_read == self._num_read else self._moved()
        now = time.thread_time if shared.is_suspect else time.perf_counter
        began_at = now()
        matcher.unsafe_compute_mask_ptr(mask.address, mask.num_bytes)
        if now() - began_at > MAX_MASK_S:
            shared.num_slow += shared.is_suspect
            shared.is_suspect = True
        if shared.num_slow > 1 or matcher.is_error():
            raise _too_complicated()

    def forced(self) -> list[int]:
        """Tokens of which each is the only one that may come; often none.

        They spell what the grammar leaves no choice about, as the tokenizer cuts that text.
        """
        shared = self._shared
        matcher = shared.matcher if shared.num_read == self._num_read else self._moved()
        forced: list[int] = matcher.compute_ff_tokens()
        return forced

    def _moved(self) -> LLMatcher:
        """The matcher, at this place."""
        shared = self._shared
        if shared.num_read != self._num_read:
            is_possible = shared.num_read > self._num_read
            if not (is_possible and shared.matcher.rollback(shared.num_read - self._num_read)):
                raise ConstraintError("The answer's form got lost; ask again.")
            shared.num_read = self._num_read
        return shared.matcher


def _too_complicated() -> ConstraintError:
    return ConstraintError(
        "The form that this request asks of the answer takes too long to enforce; simplify its schema "
        "(patterns with large repetitions, long lists of alternatives)."
    )
