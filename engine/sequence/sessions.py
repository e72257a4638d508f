"""Conversations stay warm: which states are kept, and which request goes on from one of them.

A state can be restored only as a whole, so it is kept at places (checkpoints) where later prompts are
likely to agree with this one: the end of the system turn, the beginning of the turn that is written,
the end of the answer, where a prompt parts from what is known, and every N tokens of a long prompt,
N growing with depth. A checkpoint shares key/value pages with its neighbours; the recurrent states
are a copy of their own, which makes it dear (118 MB for the large model, 0.3 MB for the bundled one).

What goes first when there is no room (docs/how-it-works/sessions.md): checkpoints that something
deeper of the same conversation has made superfluous, then the least recently used ones; those of
conversations that were gone on with later, system turns last. Pages belong to running requests before they belong to checkpoints: a pool that has none left
asks here (`give_back`) before anybody has to wait.

Knows nothing of pipes, texts or requests' rules; one request's part is in session_visit.py.
"""

from __future__ import annotations

import enum
from collections import Counter
from dataclasses import dataclass

from engine.memory.kv_pages import PagePool
from engine.sequence.prefix_tree import Place, PrefixTree, TokenArray
from engine.sequence.state import Checkpoint, SequenceState

_ROUNDS_KEPT = 2  # checkpoints of a conversation's last two requests are what it may go on from
_CONTINUED_SHARE = 2  # conversations that were gone on with are kept longer, up to 1/2 of all
_SYSTEM_SHARE = 4  # system turns are kept longest, up to 1/4 of all


class CheckpointKind(enum.IntEnum):
    """Why a state is kept; the higher, the longer."""

    STEP = 0  # on the way through a long prompt
    TURN = 1  # a conversation may go on from here
    SYSTEM = 2  # many conversations may begin with this


class Rank(enum.IntEnum):
    """What a checkpoint is worth; the least goes first."""

    LEFT_BEHIND = 0  # on the way through a prompt, or superseded by something deeper
    TURN = 1
    CONTINUED = 2  # of a conversation, not of a single request
    SYSTEM = 3


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

    @property
    def rank(self) -> Rank:
        """What it is worth, whatever else there is."""
        if self.kind is CheckpointKind.TURN and self.is_superseded:
            return Rank.LEFT_BEHIND
        return rank_of(self.kind, self.line)


def rank_of(kind: CheckpointKind, line: Line) -> Rank:
    """What a new checkpoint is worth."""
    if kind is CheckpointKind.TURN:
        return Rank.CONTINUED if line.rounds > 1 else Rank.TURN
    return Rank.SYSTEM if kind is CheckpointKind.SYSTEM else Rank.LEFT_BEHIND


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
        if state.length == 0 or not self._make_room(state.fixed_bytes, rank_of(kind, line)):
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

    def shrink(self) -> int:
        """Drop half of what is kept, what is missed least first: bytes of states that are free now.

        Their pages go back to the pool (`StateStore.forget_free_pages` gives these to the system).
        """
        before = self._used_bytes
        for place in self._by_value():
            if self._used_bytes <= before // 2:
                break
            self.drop(place)
        return before - self._used_bytes

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

    def _make_room(self, num_bytes: int, rank: Rank) -> bool:
        """Drop what is worth no more than a checkpoint of this rank, until there is room."""
        if num_bytes > self._budget_bytes:
            return False
        if self.has_room(num_bytes):
            return True
        ranks = self._ranks()
        for place in self._by_value():
            if ranks[id(place)] > rank:
                return False
            self.drop(place)
            if self.has_room(num_bytes):
                return True
        return False

    def _by_value(self) -> list[Place[Kept]]:
        """All checkpoints, those that are missed least first."""
        ranks = self._ranks()
        return sorted(self.tree, key=lambda place: (ranks[id(place)], _value_of(place).used_at))

    def _ranks(self) -> dict[int, Rank]:
        """What each checkpoint counts as, by its place's id.

        Only the newest keep a high rank, up to a share of all: system turns that change with every
        request must not drive out conversations, nor old conversations the new ones.
        """
        places = list(self.tree)
        places.sort(key=lambda place: -_value_of(place).used_at)
        room = {
            Rank.SYSTEM: max(1, len(places) // _SYSTEM_SHARE),
            Rank.CONTINUED: max(1, len(places) // _CONTINUED_SHARE),
        }
        ranks: dict[int, Rank] = {}
        for place in places:
            rank = _value_of(place).rank
            if rank in room:
                room[rank] -= 1
                if room[rank] < 0:
                    rank = Rank.TURN
            ranks[id(place)] = rank
        return ranks


def _value_of(place: Place[Kept]) -> Kept:
    if place.value is None:
        raise ValueError("nothing is kept here")
    return place.value
