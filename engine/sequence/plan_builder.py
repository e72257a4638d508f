"""Makes the plan of a pass: the ragged batch as small arrays, in buffers allocated once.

There are two sets of buffers, each in one block: one for passes of few rows, which come again and again
and whose block is small enough to be copied as a whole each time, and one for all others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from engine.ops.plan import PassPlan
from engine.sequence.rope import RopeAngles, RopePositions
from engine.sequence.state import SequenceState

_KEPT_ROWS = 16  # plans of passes with at most so many rows are kept: they come again and again


ArrayPart = tuple[tuple[int, ...], npt.DTypeLike]
NewArrays = Callable[..., list[npt.NDArray[Any]]]  # takes any number of `ArrayPart`


def numpy_arrays(*parts: ArrayPart) -> list[npt.NDArray[Any]]:
    """Zeroed arrays of these shapes and types."""
    return [np.zeros(shape, dtype) for shape, dtype in parts]


@dataclass(frozen=True, slots=True, eq=False)
class PlannedRows:
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
    ) -> None:
        self._ratio = block_ratio
        self._counting = np.arange(max_sequences + 1, dtype=np.int32)
        self._angles = angles
        num_small = min(max_rows, _KEPT_ROWS)
        self._small = _Buffers(num_small, max_sequences, max_pages, angles.num_angles, new_arrays)
        self._large = self._small
        if max_rows > num_small:
            self._large = _Buffers(
                max_rows, max_sequences, max_pages, angles.num_angles, new_arrays
            )

    def build(self, entries: Sequence[PlannedRows]) -> PassPlan:
        """The plan, as views that the next call overwrites."""
        num_rows = sum([len(entry.token_ids) for entry in entries])
        buffers = self._small if num_rows <= _KEPT_ROWS else self._large
        if all(len(e.token_ids) == 1 and e.state.rope.is_text and not e.base for e in entries):
            return self._build_steps(buffers, entries)
        a = buffers.arrays
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
            pages = state.pages.pages
            if entry.base:
                pages = pages[entry.base // state.pages.page_tokens :]
            _write_pages(buffers, s, pages)
            self._write_angles(a, state.rope, entry.first, part)
            row += count
        num_sequences = len(entries)
        a.seq_start[num_sequences] = row
        return _views(buffers, row, num_sequences)

    def _build_steps(self, buffers: _Buffers, entries: Sequence[PlannedRows]) -> PassPlan:
        """One row of text for each sequence: all of them written at once."""
        a, angles, num = buffers.arrays, self._angles, len(entries)
        positions = a.positions[:num]
        positions[...] = a.seq_length[:num] = [entry.first for entry in entries]
        a.token_ids[:num] = [entry.token_ids[0] for entry in entries]
        a.row_seq[:num] = self._counting[:num]
        a.seq_start[: num + 1] = self._counting[: num + 1]
        a.seq_slot[:num] = [entry.state.slot for entry in entries]
        a.seq_half[:num] = [entry.state.half for entry in entries]
        for s, entry in enumerate(entries):
            _write_pages(buffers, s, entry.state.pages.pages)
        angles.write_texts(positions, a.rope_cos[:num], a.rope_sin[:num])
        block_starts = np.maximum(positions - (self._ratio - 1), 0)
        angles.write_texts(block_starts, a.block_rope_cos[:num], a.block_rope_sin[:num])
        return _views(buffers, num, num)

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


def _write_pages(buffers: _Buffers, s: int, pages: list[int]) -> None:
    if buffers.pages[s] != pages:
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
