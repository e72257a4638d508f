"""Recorded calls of host operations, run by the library in one go (engine/kernels/host/replay.cpp).

While a recording is made the operations compute nothing: their functions are replaced by ones that
note the arguments. These are addresses, of weights' structures and of numpy array objects, so the
recording keeps alive what its maker names, and reads the arrays' contents when it is run.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence

from engine.kernels.library import OPERATIONS, HostFunction, HostLibrary

MOST_ARGUMENTS = 16


class RecordedCall(ctypes.Structure):
    """`RecordedCall` of replay.cpp."""

    _fields_ = (
        ("function", ctypes.c_void_p),
        ("num_arguments", ctypes.c_int64),
        ("arguments", ctypes.c_int64 * MOST_ARGUMENTS),
    )


class Recorder:
    """Stands in for the functions of a variant and notes their calls."""

    def __init__(self, library: HostLibrary, variant: str) -> None:
        self._addresses = library.addresses(variant)
        self._calls: list[RecordedCall] = []
        self._names: list[str] = []
        self._part_starts = [0]
        self.functions: dict[str, HostFunction] = {
            name: functools.partial(self._note, name) for name in OPERATIONS
        }

    def _note(self, name: str, _context: int, *arguments: int | float | None) -> int:
        call = RecordedCall(function=self._addresses[name], num_arguments=len(arguments))
        for index, argument in enumerate(arguments):
            if isinstance(argument, float):
                raise TypeError(f"the operation {name} takes a number and cannot be recorded")
            call.arguments[index] = argument or 0
        self._calls.append(call)
        self._names.append(name)
        return 0

    def end_part(self) -> None:
        """What comes now belongs to the next part."""
        self._part_starts.append(len(self._calls))

    def finish(self, keep: Sequence[object]) -> RecordedCalls:
        """The calls noted so far; `keep` owns everything that they point to."""
        return RecordedCalls(self._calls, self._names, self._part_starts, keep)


class RecordedCalls:
    """Calls in memory of the library's layout, cut into parts."""

    def __init__(
        self,
        calls: Sequence[RecordedCall],
        names: Sequence[str],
        part_starts: Sequence[int],
        keep: Sequence[object],
    ) -> None:
        self._memory = (RecordedCall * max(len(calls), 1))(*calls)
        self._address = ctypes.addressof(self._memory)
        self._names = tuple(names)
        self._starts = tuple(part_starts)
        self._keep = tuple(keep)

    def address(self, first: int) -> int:
        """Where the part `first` begins."""
        return self._address + self._starts[first] * ctypes.sizeof(RecordedCall)

    def count(self, first: int, stop: int) -> int:
        """How many calls the parts `first` to `stop - 1` have."""
        return self._starts[stop] - self._starts[first]

    def name(self, first: int, index: int) -> str:
        """The operation of a call, counted from the part `first` on."""
        return self._names[self._starts[first] + index]
