"""One request's use of the warm conversations: where it goes on from, and what it leaves behind.

    visit = Visit(sessions, prompt, shared_prefix, turn_start)
    visit.resume(state)                     # the sequence stands at `num_cached` now
    ...                                     # passes that end at `next_stop` at the latest
    visit.note(state)                       # after each of them was committed
    visit.end(state, tokens)                # before the sequence is released

The prompt's last token is always computed, since its logits are wanted; so a repeated prompt goes on
from the beginning of its last turn. Without sessions a visit only says where to cut.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from engine.ops.base import CHUNK_TOKENS
from engine.sequence.prefix_tree import TokenArray, num_common, token_array
from engine.sequence.sessions import CheckpointKind, Kept, Line, Sessions
from engine.sequence.state import SequenceState

logger = logging.getLogger(__name__)

FIRST_STEP = 1024  # tokens of a prompt after which a checkpoint is kept in mid-prompt
_DEPTH_PER_STEP = 2  # further ones come after a step of 1/2 of the depth
_LEAST_SHARED = 128  # a common beginning of so many tokens more than is kept gets a checkpoint


class Visit:
    """One request's use of the sessions, from its first token to its last.

    Attributes:
        num_cached: tokens that were not computed, because a checkpoint had them.
    """

    def __init__(
        self,
        sessions: Sessions | None,
        prompt: tuple[int, ...],
        shared_prefix: int = 0,
        turn_start: int = 0,
    ) -> None:
        self._sessions = sessions
        self._prompt = token_array(prompt)
        self._most = len(prompt) - 1  # the last token is computed: its logits are wanted
        if turn_start <= 0:
            turn_start = self._most // CHUNK_TOKENS * CHUNK_TOKENS
        # Cut there with or without a cache: how a prompt is cut can show in the last bits, and a
        # repeated prompt, which goes on from such a place, shall get the answer that it got.
        stops = {shared_prefix: CheckpointKind.SYSTEM, turn_start: CheckpointKind.TURN}
        self._stops = {length: kind for length, kind in stops.items() if 0 < length <= self._most}
        self._line = Line(rounds=1)
        self._next_step = FIRST_STEP
        self._changes = -1
        self._mine: list[TokenArray] = []  # what was kept for this request, or used by it
        self.num_cached = 0
        self._num_read = 0

    def resume(self, state: SequenceState) -> bool:
        """Bring a new sequence as far as a checkpoint does; whether it went any further.

        May be called again until something was computed: what others have read meanwhile counts.
        """
        sessions = self._sessions
        has_begun = self._num_read != self.num_cached
        if sessions is None or has_begun or self._changes == sessions.changes:
            return False
        self._changes = sessions.changes
        self._plan_branch(sessions)
        place = sessions.tree.deepest(self._prompt, self._most)
        if place is None or place.depth <= self.num_cached:
            return False
        kept = sessions.use(place)
        state.restore(kept.checkpoint)
        self.num_cached = self._num_read = place.depth
        self._next_step = next_step(place.depth)
        self._join(kept)
        self._mine = [self._prompt[: place.depth]]
        return True

    def should_wait(self, others: Iterable[Visit]) -> bool:
        """Whether another request is about to have what this one would read; ask before it begins.

        Args:
            others: requests that are read before this one.
        """
        if self._sessions is None or self._num_read != self.num_cached:
            return False
        for other in others:
            goal = other.next_stop(other._num_read)
            if (
                goal - self.num_cached >= CHUNK_TOKENS
                and goal in other._stops
                and num_common(other._prompt, self._prompt[: self._most]) >= goal
            ):
                return True
        return False

    def next_stop(self, length: int) -> int:
        """The length at which the next pass over the prompt must end at the latest."""
        return min((stop for stop in self._stops if stop > length), default=len(self._prompt))

    def note(self, state: SequenceState) -> None:
        """After a pass over the prompt was committed: keep the state if it is worth it."""
        length = self._num_read = state.length
        if length > self._most:
            return
        kind = self._stops.get(length)
        if kind is None:
            is_near_stop = self.next_stop(length) - length < FIRST_STEP // 2
            if length < self._next_step or is_near_stop:
                return
            kind = CheckpointKind.STEP
        self._keep(self._prompt[:length], state, kind)
        self._next_step = next_step(length)

    def end(self, state: SequenceState, tokens: list[int], *, is_sound: bool = True) -> None:
        """The request ends, its sequence is about to go: keep what it has come to.

        Args:
            state: with at least one token computed or cached.
            tokens: at least those of the state.
            is_sound: False when something went wrong that the states may be the cause of; then
                none that it used or made is kept.
        """
        sessions = self._sessions
        if sessions is None:
            return
        if not is_sound:
            for beginning in self._mine:
                place = sessions.tree.deepest(beginning, len(beginning))
                if place is not None and place.depth == len(beginning):
                    sessions.drop(place)
        elif state.length > self.num_cached:
            self._keep(token_array(tokens[: state.length]), state, CheckpointKind.TURN)

    def _keep(self, tokens: TokenArray, state: SequenceState, kind: CheckpointKind) -> None:
        if self._sessions is None:
            return
        try:
            is_kept = self._sessions.keep(tokens, state, kind, self._line)
        except MemoryError:
            logger.warning("there is no memory for keeping a conversation warm; going on without")
            return
        if is_kept:
            self._mine.append(tokens)

    def _join(self, kept: Kept) -> None:
        """Belong to the conversation whose newest state this is; else to a new one."""
        if kept.kind is CheckpointKind.TURN and kept.round == kept.line.rounds:
            self._line = kept.line
            self._line.rounds += 1
            kept.round = self._line.rounds

    def _plan_branch(self, sessions: Sessions) -> None:
        """Keep a state where this prompt parts from what is known: a third one may part there too."""
        shared = sessions.tree.num_shared(self._prompt[: self._most])
        shared = shared // CHUNK_TOKENS * CHUNK_TOKENS  # a cut there changes no bit
        place = sessions.tree.deepest(self._prompt, self._most)
        depth = 0 if place is None else place.depth
        if shared - depth >= _LEAST_SHARED:
            self._stops.setdefault(shared, CheckpointKind.TURN)


def next_step(depth: int) -> int:
    """Where the checkpoint after one at `depth` lies when nothing else calls for one.

    >>> next_step(0), next_step(1024), next_step(30_000)
    (1024, 2048, 45000)
    """
    return depth + max(FIRST_STEP, depth // _DEPTH_PER_STEP)
