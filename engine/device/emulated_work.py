"""What an emulated card still has to do, and in which order it does it: as late and as oddly as it may.

Each piece of work knows what must be done before it: what is in front of it in its stream, and events
that the stream waited for. Nothing runs until somebody waits; then what is needed runs, and perhaps
other things, in an order drawn at random among all that streams and events allow. So what is not
ordered by an event will sometimes happen in the wrong order, or not at all, and shows as a wrong result.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from enum import Enum

Action = Callable[[], None]


class Timing(Enum):
    """When work is done."""

    RANDOM = "random"  # what is waited for, and by chance some of the rest before it
    LATE = "late"  # only what is waited for
    EAGER = "eager"  # at once


class Work:
    """A launch, a copy, or a point in a stream.

    Attributes:
        action: does it; None for a point.
        before: what must be done first; empty once this is done.
        is_done: whether it is.
    """

    __slots__ = ("action", "before", "is_done")

    def __init__(self, action: Action | None, before: Sequence[Work]) -> None:
        self.action = action
        self.before = before
        self.is_done = False

    def do(self) -> None:
        """Do it; what is done needs nothing any more."""
        action = self.action
        self.is_done = True
        self.before = ()
        self.action = None
        if action is not None:
            action()


DONE = Work(None, ())
DONE.is_done = True


class Queue:
    """A stream's work, in order."""

    def __init__(self) -> None:
        self.last = DONE
        self._works: list[Work] = []

    def put(self, work: Work) -> None:
        """Behind everything else; `work.before` names the last one already."""
        self.last = work
        self._works.append(work)

    def pending(self) -> list[Work]:
        """What is not done, in order."""
        if self.last.is_done:
            self._works.clear()
        elif self._works and self._works[0].is_done:
            self._works = [work for work in self._works if not work.is_done]
        return self._works


def finish(
    wanted: Iterable[Work], others: Iterable[Queue], timing: Timing, chance: random.Random
) -> None:
    """Do what is wanted, everything that it needs, and what chance adds, in an order of chance.

    Args:
        wanted: what must be done in the end.
        others: queues of which more may be done.
        timing: how much more.
        chance: decides.
    """
    ends = [work for work in wanted if not work.is_done]
    if not ends:
        return
    if timing is Timing.RANDOM:
        for queue in others:
            pending = queue.pending()
            if pending and chance.random() < 0.5:
                ends.append(pending[chance.randrange(len(pending))])
    needed = ancestors(ends)
    if timing is Timing.EAGER or len(needed) == 1:
        for work in needed:
            work.do()
        return
    _do_all(needed, chance)


def _do_all(works: Sequence[Work], chance: random.Random) -> None:
    """Do works, of which each is behind what it needs, in any order that `before` allows."""
    missing: dict[Work, int] = {}
    after: dict[Work, list[Work]] = {}
    ready = []
    for work in works:
        blocking = [earlier for earlier in work.before if not earlier.is_done]
        missing[work] = len(blocking)
        if not blocking:
            ready.append(work)
        for earlier in blocking:
            after.setdefault(earlier, []).append(work)
    while ready:
        if len(ready) > 1:
            at = int(chance.random() * len(ready))
            ready[at], ready[-1] = ready[-1], ready[at]
        work = ready.pop()
        work.do()
        for later in after.get(work, ()):
            missing[later] -= 1
            if missing[later] == 0:
                ready.append(later)


def ancestors(ends: Iterable[Work]) -> list[Work]:
    """These and everything undone that they need, each behind what it needs."""
    found: dict[Work, bool] = {}  # True: everything that it needs is in `order`
    order: list[Work] = []
    stack = list(ends)
    while stack:
        work = stack[-1]
        if work.is_done or found.get(work):
            stack.pop()
            continue
        if work in found:
            found[work] = True
            order.append(work)
            stack.pop()
            continue
        found[work] = False
        stack.extend(earlier for earlier in work.before if not earlier.is_done)
    return order
