"""Drafts of running requests: what the scheduler asks before a pass and tells after it.

    drafting.begin(request)                  # a request starts
    drafts = drafting.drafts_of(request, most)        # the window is the newest token and these
    drafting.note(request, drafts, num_accepted)      # what verification said
    drafting.tell(parts)                     # rows were computed and committed

Drafters are asked after a pass, so that the head works for all requests at once. One drafter decides
about a window (`policy`): the head, look-up, or look-up behind drafts of the head that it agrees with.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from engine.core.errors import EngineError, ResourceError
from engine.decode.draft.head import HeadDrafter, Told
from engine.decode.draft.lookup import SHORTEST_MATCH, LookupIndex
from engine.decode.draft.ngram import NgramDrafter
from engine.decode.draft.ngram_sources import NgramSources
from engine.decode.draft.policy import (
    AGREED_MATCH,
    BEHIND_MATCH,
    SURE_MATCH,
    DraftPolicy,
    RequestPolicy,
)
from engine.decode.verify import num_common

if TYPE_CHECKING:
    from engine.sequence.batch import PassResult
    from engine.sequence.running_request import RunningRequest

logger = logging.getLogger(__name__)

FloatArray = npt.NDArray[np.float32]

DRAFTERS = ("mtp", "lookup", "ngram")
MOST_DRAFTS = 15
MOST_HEAD_DRAFTS = 8
LOW_SHARE = 0.05  # of the head's drafts: fewer right ones mean that the head is of another model
LOW_AFTER = 200  # drafts
# Where nothing is drafted, tokens are looked up several at a time, soon so many: what is between two
# passes runs from cold caches, 16 microseconds a look, where a token of a small model takes 250.
LOOK_EVERY = 8
SINGLES_NOTED = 8  # one of so many steps without drafts is timed, once they are known


@dataclass(frozen=True, slots=True)
class DraftSettings:
    """What the run config says.

    Attributes:
        use_lookup: look the newest tokens up in what the context holds.
        use_head: let the draft head draft.
        most_head: longest chain of the head.
        min_p: a chain ends at a draft that the head gives less.
        is_fixed: draft as much as allowed whatever it costs; for tests and measurements.
    """

    use_lookup: bool = True
    use_head: bool = True
    most_head: int = 3
    min_p: float = 0.0
    is_fixed: bool = False


@dataclass(slots=True)
class DrafterCounts:
    """Tokens of one drafter that were offered for verification, and those accepted."""

    offered: int = 0
    accepted: int = 0


def _no_counts() -> dict[str, DrafterCounts]:
    return {name: DrafterCounts() for name in DRAFTERS}


@dataclass(slots=True, eq=False)
class RequestDrafts:
    """One request's drafting.

    Attributes:
        policy: its decisions.
        index: of its tokens; None = no look-up.
        ngram: n-gram caches; None = not used.
        counts: by drafter.
        source: who made the drafts that are not the head's.
        num_indexed: tokens that the index has.
        next_drafts: for the next window.
        num_of_head: how many of them, from the first on, the head made.
        num_matched: of the look-up among them.
        made_at: number of the request's tokens that they follow.
        uses_head: whether the head takes note of this request.
        min_p: its chains end at a draft that it gives less.
        num_idle: looks in a row that gave no drafts.
        next_look: number of the request's tokens before which drafters need not be asked.
        unsaid: streams of the newest token of a restored sequence, which the head needs.
    """

    policy: RequestPolicy
    index: LookupIndex | None
    ngram: NgramDrafter | None = None
    counts: dict[str, DrafterCounts] = field(default_factory=_no_counts)
    source: str = "lookup"
    num_indexed: int = 0
    next_drafts: list[int] = field(default_factory=list)
    num_of_head: int = 0
    num_matched: int = 0
    made_at: int = -1
    uses_head: bool = False
    min_p: float = 0.0
    num_idle: int = 0
    next_look: int = 0
    unsaid: FloatArray | None = None

    @property
    def has_any(self) -> bool:
        """Whether any drafter may have something to offer now."""
        return bool(
            self.num_matched >= SHORTEST_MATCH or self.next_drafts or self.ngram is not None
        )

    def rest(self) -> None:
        """Say when the next look is due: at once where there are drafts, else later and later."""
        if self.next_drafts or self.uses_head or self.ngram is not None:
            self.num_idle = 0
            return
        self.num_idle += 1
        self.next_look = self.num_indexed + min(1 << self.num_idle, LOOK_EVERY)

    @property
    def num_offered(self) -> int:
        """Drafts of all drafters that were verified."""
        return sum(counts.offered for counts in self.counts.values())

    @property
    def by_drafter(self) -> tuple[tuple[str, int, int], ...]:
        """Name, offered and accepted tokens of each drafter that offered any."""
        return tuple(
            (name, counts.offered, counts.accepted)
            for name, counts in self.counts.items()
            if counts.offered
        )

    @property
    def num_accepted(self) -> int:
        """Those that became part of the answer."""
        return sum(counts.accepted for counts in self.counts.values())


class Computed(NamedTuple):  # made for each token: a frozen dataclass takes three times as long
    """Rows of a request that a pass computed and that count.

    Attributes:
        request: whose.
        first: position of the first row.
        result: of the pass; its arrays are views that the next pass overwrites.
        entry: which part of it.
        goes_on: whether a window follows: drafts are wanted.
    """

    request: RunningRequest
    first: int
    result: PassResult
    entry: int
    goes_on: bool

    def streams(self) -> FloatArray:
        """Streams of the committed rows, `[n, hc, H]`."""
        return self.result.streams_of(self.entry)[: self.request.state.length - self.first]


class Drafting:
    """The drafters of a loaded model."""

    def __init__(
        self,
        settings: DraftSettings,
        policy: DraftPolicy,
        head: HeadDrafter | None = None,
        ngrams: NgramSources | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._settings = settings
        self._policy = policy
        self._head = head if settings.use_head else None
        self._ngrams = ngrams
        self._clock = clock
        self._use_lookup = settings.use_lookup and _has_lookup()
        self._is_warned = False
        self._num_single = 0  # steps of one row
        self._head_s = 0.0  # of the newest step, what the head took
        self.totals = _no_counts()

    def begin(self, request: RunningRequest) -> None:
        """A request starts; its sequence may have been restored."""
        index = LookupIndex() if self._use_lookup else None
        ngram = None if self._ngrams is None else self._ngrams.drafter()
        drafts = RequestDrafts(self._policy.for_request(), index, ngram)
        if self._head is not None:
            num_prompt = len(request.start.prompt)
            drafts.uses_head = self._settings.is_fixed or drafts.policy.begin_head(num_prompt)
            tuning = dict(request.start.tuning)  # calibration compares values
            drafts.min_p = tuning.get("spec_min_p", self._settings.min_p)
        request.drafts = drafts

    def resumed(self, request: RunningRequest) -> None:
        """A request's sequence was restored to some length."""
        state, drafts = request.state, request.drafts
        if drafts is None or not drafts.uses_head or state.last_streams is None:
            return
        if state.mtp_length == state.length - 1:
            drafts.unsaid = state.last_streams[None].copy()

    def end(self, request: RunningRequest) -> None:
        """A request is over."""
        drafts = request.drafts
        if self._ngrams is not None and drafts is not None and drafts.ngram is not None:
            self._ngrams.learn(drafts.ngram)
        request.drafts = None

    def drafts_of(self, request: RunningRequest, most: int) -> Sequence[int]:
        """Drafts for the window behind the request's newest token, at most so many."""
        drafts = request.drafts
        if drafts is None or drafts.made_at != len(request.tokens):
            return ()
        most = min(most, request.rules.num_left - 1)
        return drafts.next_drafts[: max(0, most)]

    @property
    def learns(self) -> bool:
        """Whether something is kept over a restart."""
        return self._ngrams is not None and self._ngrams.learns

    def save(self) -> None:
        """Write what is kept over a restart."""
        if self._ngrams is None:
            return
        try:
            self._ngrams.save()
        except ResourceError as error:
            logger.warning("%s", error)

    def note_step(self, num_rows: int, num_requests: int, seconds: float) -> None:
        """A step took so long, with all that was done in it.

        Args:
            num_rows: of its pass; 0 = it held more than windows, and says nothing about their costs.
            num_requests: in the pass.
            seconds: what it took.
        """
        head_s, self._head_s = self._head_s, 0.0
        if num_rows == 1:
            self._num_single += 1
            if self._num_single > SINGLES_NOTED and self._num_single % SINGLES_NOTED:
                return
        self._policy.costs.note(num_rows, seconds - head_s, num_requests)

    def note(self, request: RunningRequest, num_offered: int, num_accepted: int) -> None:
        """The first `num_offered` drafts of a request were verified."""
        drafts = request.drafts
        if drafts is None:
            return
        of_head = min(drafts.num_of_head, num_offered)
        policy = drafts.policy
        if of_head:
            right = min(num_accepted, of_head)
            policy.note_head(of_head, right)
            self._count(drafts, "mtp", of_head, right)
        rest = num_offered - of_head
        if rest and of_head and num_accepted >= of_head:
            policy.note_lookup(drafts.num_matched, rest, num_accepted - of_head)
        elif rest and drafts.source == "ngram":
            policy.note_ngram(rest, num_accepted)
        elif rest and not of_head:
            policy.note_lookup(drafts.num_matched, rest, num_accepted)
        elif of_head:
            policy.note_block(num_offered, num_accepted)
        if rest:
            self._count(drafts, drafts.source, rest, max(0, num_accepted - of_head))

    def tell(self, parts: Sequence[Computed], num_others: int = 0) -> None:
        """Rows were committed, and the tokens after them are chosen: draft what may follow.

        Args:
            parts: of requests that are due.
            num_others: requests that shared the pass and are not.
        """
        other_rows = num_others + len(parts) - 1
        num_sharing = 0 if self._head is None else sum(map(_wants_head, parts))
        lengths = [self._look(part, other_rows, num_sharing) for part in parts]
        if self._head is not None and num_sharing:
            self._tell_head(self._head, parts, lengths)
        for part in parts:
            drafts = part.request.drafts
            if drafts is None or not part.goes_on:
                continue
            # Most tokens of a chat follow nothing that was there before: then this was all.
            # And before a token without drafts was timed there is nothing to compare drafts with.
            if drafts.has_any and (self._settings.is_fixed or self._policy.costs.is_known):
                self._decide(part.request, drafts, other_rows)
            if not self._settings.is_fixed:
                drafts.rest()

    # -- one request's drafts --------------------------------------------------------------------

    def _look(self, part: Computed, other_rows: int, num_sharing: int) -> int:
        """Bring the index up to date; how many drafts the head should make.

        Args:
            part: what was computed.
            other_rows: rows of other requests in the next pass, without their drafts.
            num_sharing: requests for which the head drafts at the same time.
        """
        request, drafts = part.request, part.request.drafts
        if drafts is None or not part.goes_on:
            return 0
        drafts.made_at = -1
        drafts.next_drafts = []
        drafts.num_of_head = drafts.num_matched = 0
        fresh = request.tokens[drafts.num_indexed :]
        drafts.num_indexed = len(request.tokens)
        if drafts.ngram is not None:
            drafts.ngram.append(fresh)
        if drafts.index is not None:
            drafts.index.append(fresh)
            drafts.num_matched = drafts.index.num_matched
        if self._head is None or not drafts.uses_head or request.num_pending != 1:
            return 0
        most = min(self._settings.most_head, request.rules.num_left - 1)
        if most < 1:
            return 0
        if self._settings.is_fixed:
            return most
        if not self._policy.costs.is_known:
            return 0
        if drafts.num_matched >= SURE_MATCH and drafts.policy.lookup_length(
            drafts.num_matched, MOST_DRAFTS
        ):
            return 0
        length = drafts.policy.head_length(most, other_rows, num_sharing)
        drafts.uses_head = drafts.policy.uses_head
        return length

    def _decide(self, request: RunningRequest, drafts: RequestDrafts, other_rows: int) -> None:
        """Which drafts the next window has."""
        if request.num_pending != 1:
            return
        chain, matched = drafts.next_drafts, drafts.num_matched
        drafts.num_of_head = len(chain)
        drafts.made_at = len(request.tokens)
        drafts.source = "lookup"
        if drafts.index is None or matched < SHORTEST_MATCH:
            self._ask_ngrams(drafts, other_rows)
            return
        looked = drafts.index.draft(MOST_DRAFTS)
        agreed = num_common(looked, chain)
        is_sure = not chain or matched >= SURE_MATCH or (matched >= AGREED_MATCH and agreed >= 2)
        if is_sure:
            length = MOST_DRAFTS
            if not self._settings.is_fixed:
                length = drafts.policy.lookup_length(matched, MOST_DRAFTS, other_rows)
            if length > len(chain) or not chain:
                drafts.next_drafts, drafts.num_of_head = looked[:length], 0
        elif agreed == len(chain) and matched >= BEHIND_MATCH:
            more = drafts.policy.extension_length(matched, agreed, MOST_DRAFTS - agreed)
            drafts.next_drafts = looked[: agreed + more]

    def _ask_ngrams(self, drafts: RequestDrafts, other_rows: int) -> None:
        """Drafts of the n-gram caches, where nobody else has any."""
        if drafts.ngram is None or drafts.next_drafts:
            return
        length = MOST_DRAFTS
        if not self._settings.is_fixed:
            length = drafts.policy.ngram_length(MOST_DRAFTS, other_rows)
        if length:
            drafts.source = "ngram"
            drafts.next_drafts = drafts.ngram.draft(length)

    def _count(self, drafts: RequestDrafts, name: str, offered: int, accepted: int) -> None:
        for counts in (drafts.counts[name], self.totals[name]):
            counts.offered += offered
            counts.accepted += accepted
        head = self.totals["mtp"]
        if self._is_warned or head.offered < LOW_AFTER:
            return
        if head.accepted < LOW_SHARE * head.offered:
            self._is_warned = True
            logger.warning(
                "%d of %d drafts of the draft head were right: it does not seem to belong to this "
                "model. Check mtp_file, or fetch it again (`python -m installer --repair`).",
                head.accepted,
                head.offered,
            )

    # -- the head --------------------------------------------------------------------------------

    def _tell_head(
        self, head: HeadDrafter, parts: Sequence[Computed], lengths: Sequence[int]
    ) -> None:
        told, owners = [], []
        for part, num_drafts in zip(parts, lengths, strict=True):
            rows = self._told(head, part, num_drafts)
            if rows is not None:
                told.append(rows)
                owners.append(part.request)
        if not told:
            return
        began_at = self._clock()
        try:
            chains = head.take_note(told)
        except ResourceError:
            return  # the pages are wanted by answers; the head begins anew later
        except EngineError as error:
            logger.warning("the draft head is not used any more: %s", error)
            self._head = None
            return
        seconds = self._head_s = self._clock() - began_at
        num_drafts = max(map(len, chains), default=0)
        num_rows = sum(len(rows.next_tokens) for rows in told)
        if num_drafts:
            self._policy.note_head(num_drafts, seconds)
        elif num_rows <= 1 + MOST_DRAFTS:
            self._policy.note_feed(seconds)
        for request, chain in zip(owners, chains, strict=True):
            if request.drafts is not None:
                request.drafts.next_drafts = chain

    def _told(self, head: HeadDrafter, part: Computed, num_drafts: int) -> Told | None:
        """What of a part the head takes note of."""
        request, first = part.request, part.first
        drafts = request.drafts
        if drafts is None or not drafts.uses_head:
            return None
        streams = part.streams()
        if drafts.unsaid is not None:
            streams = np.concatenate([drafts.unsaid, streams])
            first -= 1
            drafts.unsaid = None
        wanted = head.first_wanted(len(request.start.prompt))
        if first < wanted:
            streams = streams[wanted - first :]
            first = wanted
        next_tokens = request.tokens[first + 1 : first + 1 + len(streams)]
        if not next_tokens:
            return None
        return Told(
            state=request.state,
            first=first,
            streams=streams[: len(next_tokens)],
            next_tokens=next_tokens,
            num_drafts=num_drafts,
            sampler=request.sampler,
            min_p=drafts.min_p,
        )


def _wants_head(part: Computed) -> bool:
    return part.request.drafts is not None and part.request.drafts.uses_head


def _has_lookup() -> bool:
    """Whether this machine can index tokens."""
    try:
        LookupIndex()
    except ResourceError as error:
        logger.warning("prompt look-up is not used: %s", error)
        return False
    return True
