"""A pass as a list of parts that can be run again: what `Ops.record` returns.

The parts of a pass (embedding, each layer, head) are calls of operations on buffers that stay in
place; what changes from pass to pass is in the contents of those buffers. So the same list serves
every pass of the same shape, and an implementation may keep the calls in a form of its own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence

Part = Callable[[], None]  # calls operations, nothing else


class Recording(ABC):
    """Parts in order."""

    @abstractmethod
    def run(self, first: int, stop: int) -> None:
        """Compute the parts `first` to `stop - 1`."""

    def cut(self, cuts: Hashable) -> None:
        """Say where the runs that follow may be cut into sides (`Ops.record_sides`)."""
        del cuts  # most are run whole


class CalledParts(Recording):
    """Parts that are called each time: the readable implementation, and the one for long passes."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self._parts = parts

    def run(self, first: int, stop: int) -> None:
        """Call them."""
        for part in self._parts[first:stop]:
            part()
