"""How much to draft: the one place that decides (docs/how-it-works/drafts.md).

A window of one token and n drafts commits 1 + p + p^2 + ... + p^n tokens on average, when a draft
behind right ones is right with probability p. The choice is what commits most per second, and it
must gain 5 % over no drafts. How often drafts were right is counted for each drafter and, for
look-up, by the length of the match; a request starts with what others have seen and soon follows
its own. What does not pay is tried again now and then, briefly.

The published rules are where it starts (and stays until counts say otherwise): look-up goes before
the draft head on matches of 8 tokens, or of 6 when the head agrees with its first two tokens; behind
the head's own drafts a match of 4 goes on; long blocks begin after two windows in a row whose drafts
were all right, and end three windows after that stopped.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.decode.draft.costs import PassCosts

SURE_MATCH = 8
AGREED_MATCH = 6
BEHIND_MATCH = 4
LONG_BLOCK = 15
MOST_OF_HEAD = 8
SHORT_BLOCK = 5
SATURATED_STEPS = 2
STEPS_AFTER = 3
LEAST_GAIN = 1.05
EXPLORE_EVERY = 96  # windows without drafts, where there could have been some
EXPLORED = 2  # drafts of such a trial
# The head costs something even where nothing is drafted: it must take note of every token.
HEAD_IDLE = 4  # windows in a row without drafts of it, after which a request goes on without it
HEAD_TRIED_EVERY = 64  # requests where it did not pay before
HEAD_TRIAL = 4  # windows of such a request
HEAD_TRIED_PROMPT = 2048  # tokens of such a request's prompt at most

# Matches of 3, 4-5, 6-7, 8-11, 12 and more tokens: right how often, before anything was counted.
_BUCKET_STARTS = (3, 4, 6, 8, 12)
_LOOKUP_RIGHT = (0.35, 0.5, 0.65, 0.8, 0.9)
_HEAD_RIGHT = 0.6
_NGRAM_RIGHT = 0.5

_GLOBAL_MEMORY = 512.0  # drafts that an engine's counts remember
_OWN_MEMORY = 48.0  # those of a request
_SHARED_WEIGHT = (
    12.0  # drafts of its own after which a request's counts weigh as much as all others'
)
_PRIOR_WEIGHT = 16.0


def bucket_of(num_matched: int) -> int:
    """Which class of matches one belongs to; the shortest is 0.

    >>> bucket_of(3), bucket_of(5), bucket_of(100)
    (0, 1, 4)
    """
    bucket = 0
    while bucket + 1 < len(_BUCKET_STARTS) and num_matched >= _BUCKET_STARTS[bucket + 1]:
        bucket += 1
    return bucket


@dataclass(slots=True)
class Counts:
    """Drafts that were tried behind right ones, and how many were right; old ones fade."""

    memory: float
    tried: float = 0.0
    right: float = 0.0

    def note(self, num_tried: int, num_right: int) -> None:
        """Some more."""
        keep = max(0.0, 1.0 - num_tried / self.memory)
        self.tried = self.tried * keep + num_tried
        self.right = self.right * keep + num_right

    def share(self, expected: float, weight: float) -> float:
        """How many are right, with `weight` imagined ones of which `expected` are."""
        return (self.right + weight * expected) / (self.tried + weight)


class Acceptance:
    """How often a drafter is right: one request's view, which starts with everybody's."""

    def __init__(self, shared: Counts, prior: float) -> None:
        self._shared = shared
        self._prior = prior
        self._own = Counts(_OWN_MEMORY)

    @property
    def probability(self) -> float:
        """Of a draft behind right ones."""
        return self._own.share(self._shared.share(self._prior, _PRIOR_WEIGHT), _SHARED_WEIGHT)

    def note(self, num_drafts: int, num_right: int) -> None:
        """A window: behind the first wrong draft nothing was tried."""
        num_tried = min(num_drafts, num_right + 1)
        self._own.note(num_tried, num_right)
        self._shared.note(num_tried, num_right)


def expected_tokens(probability: float, num_drafts: int) -> float:
    """Tokens that a window of so many drafts commits on average.

    >>> expected_tokens(0.5, 0), expected_tokens(0.5, 2), expected_tokens(1.0, 3)
    (1.0, 1.75, 4.0)
    """
    if probability >= 1.0:
        return num_drafts + 1.0
    return (1.0 - probability ** (num_drafts + 1)) / (1.0 - probability)


@dataclass(slots=True)
class DraftPolicy:
    """What all requests of an engine share.

    Attributes:
        costs: of passes.
        draft_s: of one draft of the head, seconds; 0 = not measured.
        feed_s: of a window that the head only takes note of.
        num_without_head: requests since the head was last used.
        num_measured: chains of the head, by their length; the first of each prepares what others use.
    """

    costs: PassCosts
    draft_s: float = 0.0
    feed_s: float = 0.0
    num_without_head: int = 0
    num_measured: dict[int, int] = field(default_factory=dict)
    lookup: tuple[Counts, ...] = field(
        default_factory=lambda: tuple(Counts(_GLOBAL_MEMORY) for _ in _BUCKET_STARTS)
    )
    head: Counts = field(default_factory=lambda: Counts(_GLOBAL_MEMORY))
    ngram: Counts = field(default_factory=lambda: Counts(_GLOBAL_MEMORY))

    def for_request(self) -> RequestPolicy:
        """The decisions of one request."""
        return RequestPolicy(self)

    def note_head(self, num_drafts: int, seconds: float) -> None:
        """Measured: so many drafts of the head, one after the other, took so long together."""
        count = self.num_measured.get(num_drafts, 0)
        self.num_measured[num_drafts] = count + 1
        if not count:
            return
        each = seconds / num_drafts
        self.draft_s = each if not self.draft_s else self.draft_s + 0.125 * (each - self.draft_s)

    def note_feed(self, seconds: float) -> None:
        """Measured: the head took note of a window."""
        known = self.feed_s
        self.feed_s = seconds if not known else known + 0.125 * (seconds - known)


class RequestPolicy:
    """Decides for one request, window by window."""

    def __init__(self, shared: DraftPolicy) -> None:
        self._shared = shared
        self._lookup = tuple(
            Acceptance(counts, prior)
            for counts, prior in zip(shared.lookup, _LOOKUP_RIGHT, strict=True)
        )
        self._head = Acceptance(shared.head, _HEAD_RIGHT)
        self._ngram = Acceptance(shared.ngram, _NGRAM_RIGHT)
        self._saturated = 0  # windows in a row whose drafts were all right
        self._long_left = 0  # windows for which blocks may still be long
        self._idle = 0  # windows without drafts where there could have been some
        self._head_idle = 0
        self._trial_left = 0  # windows in which the head drafts to see whether it pays by now
        self.uses_head = False

    def begin_head(self, num_prompt: int) -> bool:
        """Whether the head shall work for this request, which begins; asked once."""
        shared = self._shared
        if self._pays_head() or not shared.draft_s or not shared.costs.is_known:
            shared.num_without_head = 0
            self.uses_head = True
            return True
        shared.num_without_head += 1
        if shared.num_without_head >= HEAD_TRIED_EVERY and num_prompt <= HEAD_TRIED_PROMPT:
            shared.num_without_head = 0
            self.uses_head = True
            self._trial_left = HEAD_TRIAL
        return self.uses_head

    def lookup_length(self, num_matched: int, most: int, other_rows: int = 0) -> int:
        """How many looked-up tokens to draft; 0 = none.

        Args:
            num_matched: tokens of the match.
            most: drafts that the window has room for.
            other_rows: rows of other requests in the same pass.
        """
        probability = self._lookup[bucket_of(num_matched)].probability
        cap = min(most, LONG_BLOCK if self._long_left else SHORT_BLOCK)
        best, gain = self._best(probability, cap, other_rows, 0.0)
        if gain >= LEAST_GAIN:
            return best
        return self._explore(min(EXPLORED, cap))

    def head_length(self, most: int, other_rows: int = 0, num_sharing: int = 1) -> int:
        """How many drafts of the head to make; 0 = none.

        Args:
            most: drafts that the window has room for.
            other_rows: rows of other requests in the same pass.
            num_sharing: requests, this one included, that the head drafts for in the same passes of
                its own, so that each bears a part of their time.
        """
        draft_s = self._shared.draft_s / num_sharing
        best, gain = self._best(self._head.probability, most, other_rows, draft_s)
        gain = 1.0 + (gain - 1.0) * num_sharing  # what all of them gain, each as much
        if gain >= LEAST_GAIN:
            self._head_idle = 0
            return best
        if self._trial_left:
            self._trial_left -= 1
            return min(most, EXPLORED)
        self._head_idle += 1
        if self._head_idle >= HEAD_IDLE:
            self.uses_head = False
        return 0

    def _pays_head(self) -> bool:
        """Whether drafts of the head are known to be worth their time."""
        _, gain = self._best(self._head.probability, MOST_OF_HEAD, 0, self._shared.draft_s)
        return gain >= LEAST_GAIN

    def ngram_length(self, most: int, other_rows: int = 0) -> int:
        """How many drafts of the n-gram caches to verify; 0 = none."""
        cap = min(most, SHORT_BLOCK)
        best, gain = self._best(self._ngram.probability, cap, other_rows, 0.0)
        if gain >= LEAST_GAIN:
            return best
        return self._explore(min(EXPLORED, cap))

    def extension_length(self, num_matched: int, num_before: int, most: int) -> int:
        """How many looked-up tokens to put behind `num_before` drafts of the head that agree."""
        if num_matched < BEHIND_MATCH:
            return 0
        probability = self._lookup[bucket_of(num_matched)].probability
        reached = self._head.probability**num_before
        costs = self._shared.costs
        cap = min(most, (LONG_BLOCK if self._long_left else SHORT_BLOCK) - num_before)
        best, best_rate = 0, 0.0
        before = expected_tokens(self._head.probability, num_before)
        for count in range(cap + 1):
            tokens = before + reached * (expected_tokens(probability, count) - 1.0)
            rate = tokens / costs.of(1 + num_before + count)
            if rate > best_rate * (1.0 if count == 0 else 1.005):
                best, best_rate = count, rate
        return best

    def note_lookup(self, num_matched: int, num_drafts: int, num_right: int) -> None:
        """A window of looked-up drafts came back."""
        self._lookup[bucket_of(num_matched)].note(num_drafts, num_right)
        self._note_block(num_drafts, num_right)

    def note_head(self, num_drafts: int, num_right: int) -> None:
        """A window of the head's drafts came back."""
        self._head.note(num_drafts, num_right)

    def note_ngram(self, num_drafts: int, num_right: int) -> None:
        """A window of drafts of the n-gram caches came back."""
        self._ngram.note(num_drafts, num_right)

    def note_block(self, num_drafts: int, num_right: int) -> None:
        """A mixed window came back."""
        self._note_block(num_drafts, num_right)

    def _note_block(self, num_drafts: int, num_right: int) -> None:
        if num_drafts and num_right == num_drafts:
            self._saturated += 1
            if self._saturated >= SATURATED_STEPS:
                self._long_left = STEPS_AFTER
            return
        self._saturated = 0
        self._long_left = max(0, self._long_left - 1)

    def _best(
        self, probability: float, most: int, other_rows: int, draft_s: float
    ) -> tuple[int, float]:
        """The number of drafts that commits most per second, and its gain over none."""
        costs = self._shared.costs
        none_rate = (1.0 + other_rows) / costs.of(1 + other_rows)
        best, best_rate = 0, none_rate
        tokens, reached = 1.0 + other_rows, 1.0
        for count in range(1, most + 1):
            reached *= probability
            tokens += reached
            rate = tokens / (costs.of(1 + other_rows + count) + count * draft_s)
            if rate > best_rate:
                best, best_rate = count, rate
        return best, best_rate / none_rate

    def _explore(self, count: int) -> int:
        """A trial now and then: what did not pay may pay by now."""
        self._idle += 1
        if self._idle < EXPLORE_EVERY:
            return 0
        self._idle = 0
        return count
