"""Runs lists of recorded host operations on the threads of one context, in one of three ways."""

from __future__ import annotations

import ctypes
import enum
from collections.abc import Callable, Sequence

from engine.kernels.library import HostLibrary
from engine.ops.host_recording import RecordedCalls


class Way(enum.Enum):
    """How a list is run; the bits that it computes are the same."""

    TOGETHER = enum.auto()  # one operation after the other, each shared by the threads
    ALONE = enum.auto()  # by the calling thread
    SIDES = enum.auto()  # each thread runs a list of its own, for some of the pass's sequences


class _Side(ctypes.Structure):
    """`Side` of replay.cpp."""

    _fields_ = (
        ("context", ctypes.c_void_p),
        ("calls", ctypes.c_void_p),
        ("status", ctypes.c_int64),
        ("failed", ctypes.c_int64),
    )


class Sides:
    """Lists that do the work of one, each for some of its sequences; equal in their operations."""

    def __init__(self, lists: Sequence[RecordedCalls]) -> None:
        self.lists = tuple(lists)
        self.spans: dict[tuple[int, int], ctypes.Array[_Side]] = {}  # by first part and stop


class ListRunner:
    """Runs lists.

    Args:
        library: of the operations.
        context: threads that share operations; the caller's, and outlives this.
        fail: told a status that is not 0 and the operation's name; raises.
    """

    def __init__(
        self, library: HostLibrary, context: int, fail: Callable[[int, str], None]
    ) -> None:
        self._library = library
        self._context = context
        self._fail = fail
        self._failed = ctypes.c_int64(0)
        self._failed_address = ctypes.addressof(self._failed)
        self._lone: list[int] = []  # contexts of one thread each, for the calling one and for sides

    def together(self, calls: RecordedCalls, first: int, stop: int) -> None:
        """Run parts, each operation on all threads."""
        self._run(self._require_open(), calls, first, stop)

    def alone(self, calls: RecordedCalls, first: int, stop: int) -> None:
        """Run parts on the calling thread."""
        self._require_open()
        self._run(self._lone_contexts(1)[0], calls, first, stop)

    def sides(self, sides: Sides, first: int, stop: int) -> None:
        """Run the same parts of all sides at the same time."""
        context = self._require_open()
        lists = sides.lists
        fields = sides.spans.get((first, stop))
        if fields is None:
            lone = self._lone_contexts(len(lists))
            fields = (_Side * len(lists))(
                *(_Side(lone[i], side.address(first)) for i, side in enumerate(lists))
            )
            sides.spans[first, stop] = fields
        calls = lists[0]
        status = self._library.replay_sides(
            *(context, ctypes.addressof(fields), len(lists)),
            *(calls.count(first, stop), self._failed_address),
        )
        if status:
            self._fail(status, calls.name(first, self._failed.value))

    def close(self) -> None:
        """Free the contexts of one thread; nothing can be run afterwards."""
        contexts, self._lone, self._context = self._lone, [], 0
        for context in contexts:
            self._library.destroy(context)

    def _run(self, context: int, calls: RecordedCalls, first: int, stop: int) -> None:
        status = self._library.replay(
            context, calls.address(first), calls.count(first, stop), self._failed_address
        )
        if status:
            self._fail(status, calls.name(first, self._failed.value))

    def _lone_contexts(self, count: int) -> list[int]:
        while len(self._lone) < count:
            self._lone.append(self._library.create(1, object.__basicsize__))
        return self._lone

    def _require_open(self) -> int:
        if not self._context:
            raise RuntimeError("the operations of this recording are closed")
        return self._context
