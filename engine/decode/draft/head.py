"""Drafts of the model's own draft head (MTP, spec section 7), for several requests at once.

The head has a cache of its own with an entry for each token of a sequence, made from the trunk's
streams of that token and from the token after it. So it takes note of what the trunk computes, pass
by pass, and drafts in a chain: its own streams and the drafted token make the next entry, which is
thrown away afterwards. It looks back at most `HEAD_WINDOW` tokens of a prompt, and begins anew at a
page's start when it has not been told everything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

from engine.model.mtp import DraftEntry
from engine.ops.best_logits import BestLogits, RowLogits
from engine.sequence.batch import LogitsForm, LogitsWanted, PassResult

if TYPE_CHECKING:
    from engine.sequence.state import SequenceState

FloatArray = npt.NDArray[np.float32]
_Next = RowLogits | int  # logits of a draft, or the best token

HEAD_WINDOW = 32_768


class DraftHead(Protocol):
    """A loaded head."""

    def forward(
        self, entries: Sequence[DraftEntry], form: LogitsForm = LogitsForm.ALL
    ) -> PassResult:
        """Append entries and predict; less than all logits do where only that is asked for."""


class TokenDrawer(Protocol):
    """Draws as the answer's own sampler will."""

    @property
    def takes_best(self) -> bool:
        """Whether each token is that of the largest logit."""

    @property
    def takes_few(self) -> bool:
        """Whether the largest logits will do."""

    def sample(self, logits: RowLogits, *, use_penalties: bool = True, ahead: int = 0) -> int:
        """The token that would come `ahead` tokens after the next one."""


@dataclass(slots=True, eq=False)
class Told:
    """What the head is to take note of: rows that the trunk has computed.

    Attributes:
        state: of the sequence, committed.
        first: position of the first row.
        streams: `[n, hc, H]` of the rows.
        next_tokens: the token after each row.
        num_drafts: drafts that are wanted behind them.
        sampler: draws them.
        min_p: they end at one that the head itself gives less than this.
    """

    state: SequenceState
    first: int
    streams: FloatArray
    next_tokens: Sequence[int]
    num_drafts: int
    sampler: TokenDrawer
    min_p: float = 0.0


class HeadDrafter:
    """Keeps the head's entries of all sequences in step, and drafts."""

    def __init__(self, head: DraftHead, max_rows: int, page_tokens: int) -> None:
        """Begin.

        Args:
            head: what computes.
            max_rows: entries of one pass.
            page_tokens: of a page of the key/value cache.
        """
        self._head = head
        self._max_rows = max_rows
        self._page_tokens = page_tokens

    def first_wanted(self, prompt_length: int) -> int:
        """From which position on the head should take note of a prompt: a page's start."""
        return max(0, prompt_length - HEAD_WINDOW) // self._page_tokens * self._page_tokens

    def take_note(self, told: Sequence[Told]) -> list[list[int]]:
        """Make entries of rows, and the drafts that are wanted behind them, one list for each.

        Raises:
            EngineError: there is no room for the entries, or they cannot be computed.
        """
        ready = [entry for part in told if (entry := self._entry(part)) is not None]
        drafts: list[list[int]] = [[] for _ in told]
        if not ready:
            return drafts
        chains = self._feed(ready)
        order = {id(part): index for index, part in enumerate(told)}
        for part, chain in self._chain(chains):
            drafts[order[id(part)]] = chain
        return drafts

    def _entry(self, part: Told) -> tuple[Told, DraftEntry] | None:
        """The entries to make of some rows; None when the head has lost the thread."""
        state, skip = part.state, 0
        if state.mtp_length != part.first:
            # Begin anew with the first page that is wholly told.
            base = -(-part.first // self._page_tokens) * self._page_tokens
            skip = base - part.first
            if state.mtp_length > part.first or skip >= len(part.next_tokens):
                return None
            state.restart_mtp(base)
        wanted = LogitsWanted.LAST if part.num_drafts else LogitsWanted.NONE
        return part, DraftEntry(state, part.streams[skip:], part.next_tokens[skip:], wanted)

    def _feed(
        self, ready: Sequence[tuple[Told, DraftEntry]]
    ) -> list[tuple[Told, FloatArray, _Next]]:
        """Make the entries, as many at a time as fit; streams and logits of those to go on from."""
        chains: list[tuple[Told, FloatArray, _Next]] = []
        batch: list[tuple[Told, DraftEntry]] = []
        num_rows = 0
        for part, whole in ready:
            entry = self._feed_beginning(whole)
            if num_rows + len(entry.next_tokens) > self._max_rows and batch:
                chains += self._run(batch)
                batch, num_rows = [], 0
            batch.append((part, entry))
            num_rows += len(entry.next_tokens)
        return chains + self._run(batch)

    def _feed_beginning(self, entry: DraftEntry) -> DraftEntry:
        """What is left of an entry when all of it but a last pass was made.

        A pass of the trunk may have more rows than one of the head, and the first after a restored
        sequence tells one row more than it has.
        """
        while len(entry.next_tokens) > self._max_rows:
            size = self._max_rows
            beginning = DraftEntry(
                entry.state, entry.streams[:size], entry.next_tokens[:size], LogitsWanted.NONE
            )
            self._forward([beginning], [])
            entry = DraftEntry(
                entry.state, entry.streams[size:], entry.next_tokens[size:], entry.logits
            )
        return entry

    def _run(
        self, batch: Sequence[tuple[Told, DraftEntry]]
    ) -> list[tuple[Told, FloatArray, _Next]]:
        entries = [entry for _, entry in batch]
        result = self._forward(entries, [part for part, _ in batch if part.num_drafts])
        return [
            (part, result.streams_of(i)[-1:].copy(), _next_of(result, i))
            for i, (part, _) in enumerate(batch)
            if part.num_drafts
        ]

    def _forward(self, entries: Sequence[DraftEntry], drafting: Sequence[Told]) -> PassResult:
        """A pass; without logits where nobody who drafts looks at more than the best token."""
        form = LogitsForm.ALL
        if all(part.sampler.takes_best and part.min_p <= 0 for part in drafting):
            form = LogitsForm.BEST
        elif all(part.sampler.takes_few for part in drafting):
            form = LogitsForm.CANDIDATES
        return self._head.forward(entries, form)

    def _chain(self, chains: list[tuple[Told, FloatArray, _Next]]) -> list[tuple[Told, list[int]]]:
        """Draft on from logits, all sequences side by side."""
        lengths = [part.state.mtp_length for part, _, _ in chains]
        drafts: list[list[int]] = [[] for _ in chains]
        going = list(range(len(chains)))
        streams = [chain[1] for chain in chains]
        following = [chain[2] for chain in chains]
        try:
            while going:
                still: list[int] = []
                for i in going:
                    part = chains[i][0]
                    token = _token_of(part, following[i], len(drafts[i]))
                    if token is None:
                        continue
                    drafts[i].append(token)
                    if len(drafts[i]) < part.num_drafts:
                        still.append(i)
                going = still
                if not going:
                    break
                result = self._forward(
                    [DraftEntry(chains[i][0].state, streams[i], [drafts[i][-1]]) for i in going],
                    [chains[i][0] for i in going],
                )
                for place, i in enumerate(going):
                    streams[i] = result.streams_of(place)[-1:].copy()
                    following[i] = _next_of(result, place)
        finally:
            for (part, _, _), length in zip(chains, lengths, strict=True):
                part.state.truncate_mtp(length)
        return [(chain[0], drafted) for chain, drafted in zip(chains, drafts, strict=True)]


def _next_of(result: PassResult, entry: int) -> _Next:
    best = result.best_of(entry)
    if best is not None:
        return int(best[-1])
    if result.candidates is not None:
        return result.candidates.kept(result.last_row_of(entry))
    logits: FloatArray = result.logits_of(entry)[-1].copy()
    return logits


def _token_of(part: Told, following: _Next, ahead: int) -> int | None:
    """The token that is drafted; None where the chain ends: no usable or no probable one."""
    if isinstance(following, int):
        return following if following >= 0 else None
    if isinstance(following, BestLogits) and not following.is_usable:
        return None
    token = part.sampler.sample(following, ahead=ahead)
    if part.min_p > 0 and _share_of(following, token) < part.min_p:
        return None
    return token


def _share_of(logits: RowLogits, token_id: int) -> float:
    """Probability of a token by softmax."""
    if isinstance(logits, BestLogits):
        return logits.share_of(token_id)
    top = float(logits.max())
    return float(np.exp(logits[token_id] - top) / np.exp(logits - top).sum())
