"""Makes the plan of a pass: the ragged batch as small arrays, in buffers allocated once.

There are two sets of buffers, each in one block: one for passes of few rows, which come again and again
and whose block is small enough to be copied as a whole each time, and one for all others. Text is
written by the host library where there is one (`plan_writer`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from engine.kernels.library import HostLibrary, loaded_library
from engine.ops.plan import PassPlan
from engine.sequence.plan_writer import PlanWriter
from engine.sequence.rope import RopeAngles, RopePositions
from engine.sequence.state import SequenceState

_KEPT_ROWS = 16  # plans of passes with at most so many rows are kept: they come again and again


ArrayPart = tuple[tuple[int, ...], npt.DTypeLike]
NewArrays = Callable[..., list[npt.NDArray[Any]]]  # takes any number of `ArrayPart`


def numpy_arrays(*parts: ArrayPart) -> list[npt.NDArray[Any]]:
    """Zeroed arrays of these shapes and types."""
    return [np.zeros(shape, dtype) for shape, dtype in parts]


class PlannedRows(NamedTuple):  # made for each token: a frozen dataclass takes three times as long
    """Rows of one sequence: tokens for the positions from `first` on.

    Attributes:
        state: the sequence.
        first: position of the first row.
        token_ids: one for each row.
        base: where the cache begins that they read, at a page's start; nothing before exists.
    """

    state: SequenceState
    first: int
    token_ids: Sequence[int]
    base: int = 0


class _Buffers:
    """The arrays of plans of at most so many rows, and the views of them that are kept."""

    def __init__(
        self, max_rows: int, max_sequences: int, max_pages: int, num_angles: int, new: NewArrays
    ) -> None:
        rows: ArrayPart = ((max_rows,), np.int32)
        sequences: ArrayPart = ((max_sequences,), np.int32)
        angles: ArrayPart = ((max_rows, num_angles), np.float32)
        self.arrays = PassPlan(
            *new(
                *(rows, rows, rows),
                ((max_sequences + 1,), np.int32),
                *(sequences, sequences, sequences),
                ((max_sequences, max_pages), np.int32),
                *(angles, angles, angles, angles),
            )
        )
        self.arrays.page_table[...] = -1
        self.pages: list[list[int]] = [[] for _ in range(max_sequences)]  # as in the page table
        self.kept: dict[tuple[int, int], PassPlan] = {}  # by rows and sequences
        self.writer: PlanWriter | None = None


class PlanBuilder:
    """Buffers for plans of at most `max_rows` rows and `max_sequences` sequences."""

    def __init__(
        self,
        max_rows: int,
        max_sequences: int,
        max_pages: int,
        block_ratio: int,
        angles: RopeAngles,
        new_arrays: NewArrays = numpy_arrays,
        library: Callable[[], HostLibrary | None] = loaded_library,
    ) -> None:
        self._ratio = block_ratio
        self._angles = angles
        num_small = min(max_rows, _KEPT_ROWS)
        self._small = _Buffers(num_small, max_sequences, max_pages, angles.num_angles, new_arrays)
        self._large = self._small
        if max_rows > num_small:
            self._large = _Buffers(
                max_rows, max_sequences, max_pages, angles.num_angles, new_arrays
            )
        loaded = library()
        if loaded is not None:
            for buffers in (self._small, self._large):
                buffers.writer = PlanWriter(loaded, buffers.arrays, angles, block_ratio)

    def build(self, entries: Sequence[PlannedRows]) -> PassPlan:
        """The plan, as views that the next call overwrites."""
        num_rows = sum([len(entry.token_ids) for entry in entries])
        buffers = self._small if num_rows <= _KEPT_ROWS else self._large
        for s, entry in enumerate(entries):
            pages = entry.state.pages.pages
            if entry.base:
                pages = pages[entry.base // entry.state.pages.page_tokens :]
            if buffers.pages[s] != pages:
                _write_pages(buffers, s, pages)
        if buffers.writer is not None and _is_text(entries):
            buffers.writer.write(entries)
        else:
            self._write(buffers.arrays, entries)
        return _views(buffers, num_rows, len(entries))

    def _write(self, a: PassPlan, entries: Sequence[PlannedRows]) -> None:
        """All but the page table, in Python: rows of images too."""
        row = 0
        for s, entry in enumerate(entries):
            state, count = entry.state, len(entry.token_ids)
            part = slice(row, row + count)
            a.token_ids[part] = entry.token_ids
            first = entry.first - entry.base
            a.positions[part] = range(first, first + count)
            a.row_seq[part] = s
            a.seq_start[s] = row
            a.seq_slot[s] = state.slot
            a.seq_half[s] = state.half
            a.seq_length[s] = first
            self._write_angles(a, state.rope, entry.first, part)
            row += count
        a.seq_start[len(entries)] = row

    def _write_angles(self, a: PassPlan, rope: RopePositions, first: int, part: slice) -> None:
        """Angles of the rows, and of the first token of the block that a row may complete."""
        angles = self._angles
        cos, sin = a.rope_cos[part], a.rope_sin[part]
        block_cos, block_sin = a.block_rope_cos[part], a.block_rope_sin[part]
        block_first = first - (self._ratio - 1)
        if not rope.is_text:
            positions = np.arange(first, first + len(cos))
            angles.write(rope.at(positions), cos, sin)
            block_starts = np.maximum(positions - (self._ratio - 1), 0)
            angles.write(rope.at(block_starts), block_cos, block_sin)
            return
        angles.write_text(first, cos, sin)
        unused = max(0, -block_first)  # rows before the first block's end
        angles.write_text(block_first + unused, block_cos[unused:], block_sin[unused:])


def _is_text(entries: Sequence[PlannedRows]) -> bool:
    for entry in entries:  # a loop, since this is asked for each token  # noqa: SIM110
        if not entry.state.rope.is_text:
            return False
    return True


def _write_pages(buffers: _Buffers, s: int, pages: list[int]) -> None:
    table = buffers.arrays.page_table
    table[s, : len(pages)] = pages
    table[s, len(pages) :] = -1
    buffers.pages[s] = pages.copy()


def _views(buffers: _Buffers, row: int, num_sequences: int) -> PassPlan:
    """The used part of the arrays; the same object for each small shape."""
    kept = buffers.kept.get((row, num_sequences))
    if kept is not None:
        return kept
    a = buffers.arrays
    plan = PassPlan(
        token_ids=a.token_ids[:row],
        positions=a.positions[:row],
        row_seq=a.row_seq[:row],
        seq_start=a.seq_start[: num_sequences + 1],
        seq_slot=a.seq_slot[:num_sequences],
        seq_half=a.seq_half[:num_sequences],
        seq_length=a.seq_length[:num_sequences],
        page_table=a.page_table[:num_sequences],
        rope_cos=a.rope_cos[:row],
        rope_sin=a.rope_sin[:row],
        block_rope_cos=a.block_rope_cos[:row],
        block_rope_sin=a.block_rope_sin[:row],
    )
    if row <= _KEPT_ROWS:
        buffers.kept[row, num_sequences] = plan
    return plan
