"""Conversations stay warm: which states are kept, and which request goes on from one of them.

A state can be restored only as a whole, so it is kept at places (checkpoints) where later prompts are
likely to agree with this one: the end of the system turn, the beginning of the turn that is written,
the end of the answer, where a prompt parts from what is known, and every N tokens of a long prompt,
N growing with depth. A checkpoint shares key/value pages with its neighbours; the recurrent states
are a copy of their own, which makes it dear (118 MB for the large model, 0.3 MB for the bundled one).

What goes first when there is no room (docs/how-it-works/sessions.md): checkpoints that something
deeper of the same conversation has made superfluous, then the least recently used ones, system turns
last. Pages belong to running requests before they belong to checkpoints: a pool that has none left
asks here (`give_back`) before anybody has to wait.

The prompt's last token is always computed, since its logits are wanted; so a repeated prompt goes on
from the beginning of its last turn. Knows nothing of pipes, texts or requests' rules.
"""

from __future__ import annotations

import enum
import logging
from collections import Counter
from dataclasses import dataclass

from engine.memory.kv_pages import PagePool
from engine.ops.base import CHUNK_TOKENS
from engine.sequence.prefix_tree import Place, PrefixTree, TokenArray, token_array
from engine.sequence.state import Checkpoint, SequenceState

logger = logging.getLogger(__name__)

FIRST_STEP = 1024  # tokens of a prompt after which a checkpoint is kept in mid-prompt
_DEPTH_PER_STEP = 2  # further ones come after a step of 1/2 of the depth
_LEAST_SHARED = 128  # a common beginning of so many tokens more than is kept gets a checkpoint
_ROUNDS_KEPT = 2  # checkpoints of a conversation's last two requests are what it may go on from
_SYSTEM_SHARE = 4  # system turns are kept longest, as long as they are at most 1/4 of all


class CheckpointKind(enum.IntEnum):
    """Why a state is kept; the higher, the longer."""

    STEP = 0  # on the way through a long prompt
    TURN = 1  # a conversation may go on from here
    SYSTEM = 2  # many conversations may begin with this


@dataclass(slots=True, eq=False)
class Line:
    """Requests that went on from one another: one conversation.

    Attributes:
        rounds: how many there were.
    """

    rounds: int = 0


@dataclass(slots=True, eq=False)
class Kept:
    """A checkpoint in the tree.

    Attributes:
        round: the line's request that made or last used it.
        used_at: a count that grows with every use of any checkpoint.
    """

    checkpoint: Checkpoint
    kind: CheckpointKind
    line: Line
    round: int
    used_at: int

    @property
    def is_superseded(self) -> bool:
        """Whether the conversation has gone on so far that it will hardly come back to here."""
        return self.line.rounds - self.round >= _ROUNDS_KEPT


@dataclass(frozen=True, slots=True)
class SessionFigures:
    """How much is kept: conversations, tokens of all checkpoints, bytes."""

    sessions: int = 0
    tokens: int = 0
    num_bytes: int = 0


class Sessions:
    """All checkpoints of one model.

    Args:
        pages: the pool whose pages the checkpoints hold; it is told to ask here when it is empty.
        budget_bytes: for the states of checkpoints, without pages.
        page_bytes: of one page, for the figures.
    """

    def __init__(self, pages: PagePool, budget_bytes: int, page_bytes: int = 0) -> None:
        self.tree: PrefixTree[Kept] = PrefixTree()
        self.changes = 0  # grows when a checkpoint is added
        self._budget_bytes = budget_bytes
        self._page_bytes = page_bytes
        self._pages: Counter[int] = Counter()  # by how many checkpoints each page is held
        self._used_bytes = 0
        self._uses = 0
        pages.give_back = self.give_back
        self._pool = pages

    @property
    def figures(self) -> SessionFigures:
        """How much is kept."""
        kept = [_value_of(place) for place in self.tree]
        lines = {id(one.line) for one in kept if one.kind is CheckpointKind.TURN}
        page_bytes = len(self._pages) * self._page_bytes
        return SessionFigures(len(lines), self.tree.num_tokens, self._used_bytes + page_bytes)

    @property
    def held_pages(self) -> frozenset[int]:
        """The pages that checkpoints hold."""
        return frozenset(self._pages)

    def use(self, place: Place[Kept]) -> Kept:
        """Note that a request goes on from here."""
        kept = _value_of(place)
        self._uses += 1
        kept.used_at = self._uses
        return kept

    def keep(
        self, tokens: TokenArray, state: SequenceState, kind: CheckpointKind, line: Line
    ) -> bool:
        """Keep the state after these tokens, if it is worth what must go for it.

        Args:
            tokens: all tokens of the state.
            state: stands at exactly these.
            kind: why.
            line: the conversation that it belongs to.

        Returns:
            Whether the state is kept now.
        """
        if len(tokens) != state.length:
            raise ValueError(f"{len(tokens)} tokens, but a state after {state.length}")
        there = self.tree.at(tokens)
        if there is not None:
            self._uses += 1
            there.used_at, there.kind = self._uses, max(there.kind, kind)
            if there.kind is not CheckpointKind.SYSTEM:
                there.line, there.round = line, line.rounds
            return True
        if state.length == 0 or not self._make_room(state.fixed_bytes, kind):
            return False
        self.add(tokens, state.snapshot(), kind, line)
        return True

    def add(
        self, tokens: TokenArray, checkpoint: Checkpoint, kind: CheckpointKind, line: Line
    ) -> None:
        """Own a checkpoint; the budget must have room for it."""
        self._uses += 1
        self.changes += 1
        self._used_bytes += checkpoint.num_bytes
        self._pages.update(checkpoint.pages.pages)
        self.tree.put(tokens, Kept(checkpoint, kind, line, line.rounds, self._uses))

    def has_room(self, num_bytes: int) -> bool:
        """Whether a state of so many bytes can be added without another's loss."""
        return self._used_bytes + num_bytes <= self._budget_bytes

    def drop(self, place: Place[Kept]) -> None:
        """Forget a checkpoint."""
        kept = _value_of(place)
        self.tree.remove(place)
        self._used_bytes -= kept.checkpoint.num_bytes
        self._pages.subtract(kept.checkpoint.pages.pages)
        for page in kept.checkpoint.pages.pages:
            if not self._pages[page]:
                del self._pages[page]
        kept.checkpoint.release()

    def clear(self) -> None:
        """Forget everything."""
        for place in self.tree:
            self.drop(place)

    def give_back(self) -> bool:
        """Drop the checkpoint that is missed least, for its pages; False when there is none.

        Those that hold a page alone come first: dropping others would free nothing yet.
        """
        order = self._by_value()
        if not order:
            return False
        alone = (place for place in order if self._frees_a_page(_value_of(place)))
        self.drop(next(alone, order[0]))
        return True

    def by_worth(self) -> list[Place[Kept]]:
        """All checkpoints, the most valuable first."""
        return self._by_value()[::-1]

    def _frees_a_page(self, kept: Kept) -> bool:
        return any(not self._pool.is_shared(page) for page in kept.checkpoint.pages.pages)

    def _make_room(self, num_bytes: int, kind: CheckpointKind) -> bool:
        """Drop what is worth no more than a checkpoint of this kind, until there is room."""
        if num_bytes > self._budget_bytes:
            return False
        if self.has_room(num_bytes):
            return True
        ranks = self._ranks()
        for place in self._by_value():
            if ranks[id(place)] > kind:
                return False
            self.drop(place)
            if self.has_room(num_bytes):
                return True
        return False

    def _by_value(self) -> list[Place[Kept]]:
        """All checkpoints, those that are missed least first."""
        ranks = self._ranks()
        return sorted(self.tree, key=lambda place: (ranks[id(place)], _value_of(place).used_at))

    def _ranks(self) -> dict[int, CheckpointKind]:
        """What each checkpoint counts as, by its place's id."""
        ranks: dict[int, CheckpointKind] = {}
        systems: list[Place[Kept]] = []
        for place in self.tree:
            kept = _value_of(place)
            if kept.kind is CheckpointKind.SYSTEM:
                systems.append(place)
            elif kept.is_superseded:
                ranks[id(place)] = CheckpointKind.STEP
            else:
                ranks[id(place)] = kept.kind
        # System turns that change with every request must not drive out the conversations.
        systems.sort(key=lambda place: -_value_of(place).used_at)
        most = max(1, len(self.tree) // _SYSTEM_SHARE)
        for index, place in enumerate(systems):
            ranks[id(place)] = CheckpointKind.SYSTEM if index < most else CheckpointKind.TURN
        return ranks


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

    def resume(self, state: SequenceState) -> bool:
        """Bring a new sequence as far as a checkpoint does; whether it went any further.

        May be called again until something was computed: what others have read meanwhile counts.
        """
        sessions = self._sessions
        if sessions is None or state.length != self.num_cached or self._changes == sessions.changes:
            return False
        self._changes = sessions.changes
        self._plan_branch(sessions)
        place = sessions.tree.deepest(self._prompt, self._most)
        if place is None or place.depth <= self.num_cached:
            return False
        kept = sessions.use(place)
        state.restore(kept.checkpoint)
        self.num_cached = place.depth
        self._next_step = next_step(place.depth)
        self._join(kept)
        self._mine = [self._prompt[: place.depth]]
        return True

    def next_stop(self, length: int) -> int:
        """The length at which the next pass over the prompt must end at the latest."""
        return min((stop for stop in self._stops if stop > length), default=len(self._prompt))

    def note(self, state: SequenceState) -> None:
        """After a pass over the prompt was committed: keep the state if it is worth it."""
        length = state.length
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


def _value_of(place: Place[Kept]) -> Kept:
    if place.value is None:
        raise ValueError("nothing is kept here")
    return place.value
