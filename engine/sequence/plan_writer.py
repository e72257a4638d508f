"""Writes the plan of a pass over text by the host library (engine/kernels/host/steps.cpp).

What is written is said, and written plainly, in `plan_builder`. A decode step has a dozen arrays of a
number each, and numpy takes a microsecond for each of them.
"""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING

from engine.kernels.library import HostLibrary
from engine.ops.plan import PassPlan
from engine.sequence.rope import RopeAngles

if TYPE_CHECKING:
    from engine.sequence.plan_builder import PlannedRows

_PLAN_ARRAYS = (
    *("token_ids", "positions", "row_seq", "seq_start", "seq_slot", "seq_half", "seq_length"),
    *("rope_cos", "rope_sin", "block_rope_cos", "block_rope_sin"),
)
_NUMBERS = ("num_known", "num_angles", "block_ratio", "max_rows", "max_sequences")


class _PlanArrays(ctypes.Structure):
    """`PlanArrays` of steps.cpp."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in (*_PLAN_ARRAYS, "text_cos", "text_sin")),
        *((name, ctypes.c_int64) for name in _NUMBERS),
    )


class PlanWriter:
    """Writes into the arrays of one plan, which are contiguous and stay where they are."""

    def __init__(
        self, library: HostLibrary, arrays: PassPlan, angles: RopeAngles, block_ratio: int
    ) -> None:
        self._function = library.plan
        self._arrays = arrays
        self._angles = angles
        self._known = angles.text_tables(1)
        self._fields = _PlanArrays(
            num_angles=angles.num_angles,
            block_ratio=block_ratio,
            max_rows=arrays.num_rows,
            max_sequences=arrays.num_sequences,
        )
        for name in _PLAN_ARRAYS:
            setattr(self._fields, name, getattr(arrays, name).ctypes.data)
        self._address = ctypes.addressof(self._fields)
        self._num_known = 0

    def write(self, entries: Sequence[PlannedRows]) -> None:
        """All but the page table.

        Raises:
            ValueError: the arrays have no room.
        """
        if len(entries) == 1:
            ((state, first, token_ids, base),) = entries
            count = len(token_ids)
            stop = first + count
            words = array("q", (state.slot, state.half, first, base, count, *token_ids))
        else:
            words, stop = array("q"), 0
            for state, first, token_ids, base in entries:
                count = len(token_ids)
                stop = max(stop, first + count)
                words.extend((state.slot, state.half, first, base, count))
            for entry in entries:
                words.extend(entry.token_ids)
        if stop > self._num_known:
            self._know(stop)
        if self._function(self._address, words.buffer_info()[0], len(entries)):
            raise ValueError("a plan does not fit into its arrays")

    def _know(self, stop: int) -> None:
        """Have the angles of text positions below `stop`."""
        cos, sin = self._known = self._angles.text_tables(stop)
        self._fields.text_cos, self._fields.text_sin = cos.ctypes.data, sin.ctypes.data
        self._fields.num_known = self._num_known = len(cos)
