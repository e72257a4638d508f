"""Cuts a small pass between its sequences, so that threads can compute it side by side.

Each side is a pass of its own: some sequences of the plan, with their rows of what goes in and comes
out. What lies in between it keeps in buffers of its own, because those of a pass serve one layer after
the other, and another side may be in another layer.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable
from dataclasses import dataclass

from engine.model.workspace import RowBuffers
from engine.ops.plan import PassPlan

Cuts = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """Some sequences of a pass.

    Attributes:
        plan: views of the pass's plan. Sequences and rows keep the numbers that they have there, so
            that `seq_start` begins with `first`, and the page table is that of all.
        rows: buffers of its rows.
        first: its first row in the pass.
        stop: behind its last one.
    """

    plan: PassPlan
    rows: RowBuffers
    first: int
    stop: int


@functools.lru_cache(maxsize=1024)  # asked for with every pass
def side_cuts(starts: tuple[int, ...], num_sides: int) -> Cuts:
    """Where a pass is cut: (sequence, row) of each side's begin, and the numbers of both at the end.

    Sides hold sequences that follow each other, each at least one, and about as many rows.

    Args:
        starts: first row of each sequence, and the number of rows.
        num_sides: how many sides there may be.
    """
    num_sequences, num_rows = len(starts) - 1, starts[-1]
    num_sides = min(num_sides, num_sequences)
    cuts = [0]
    for side in range(1, num_sides):
        wanted = num_rows * side / num_sides
        most = num_sequences - (num_sides - side)  # the other sides need some too
        candidates = range(cuts[-1] + 1, most + 1)
        cuts.append(min(candidates, key=lambda sequence: abs(starts[sequence] - wanted)))
    return tuple((sequence, starts[sequence]) for sequence in (*cuts, num_sequences))


def cut_pass(
    plan: PassPlan, rows: RowBuffers, cuts: Cuts, rows_of: Callable[[int, int], RowBuffers]
) -> list[Side]:
    """The sides of a pass.

    Args:
        plan: of the pass.
        rows: its buffers.
        cuts: of `side_cuts`.
        rows_of: buffers of their own for side i, of so many rows.
    """
    sides = []
    for i, ((begin, first), (end, stop)) in enumerate(itertools.pairwise(cuts)):
        own = dataclasses.replace(
            rows_of(i, stop - first),
            streams=rows.streams[first:stop],
            ids=rows.ids[first:stop],
            ple_rows=rows.ple_rows[first:stop],
        )
        sides.append(Side(_part_of(plan, begin, end, first, stop), own, first, stop))
    return sides


def _part_of(plan: PassPlan, begin: int, end: int, first: int, stop: int) -> PassPlan:
    """The sequences `begin` to `end - 1`, whose rows are `first` to `stop - 1`."""
    return PassPlan(
        token_ids=plan.token_ids[first:stop],
        positions=plan.positions[first:stop],
        row_seq=plan.row_seq[first:stop],
        seq_start=plan.seq_start[begin : end + 1],
        seq_slot=plan.seq_slot[begin:end],
        seq_half=plan.seq_half[begin:end],
        seq_length=plan.seq_length[begin:end],
        page_table=plan.page_table,
        rope_cos=plan.rope_cos[first:stop],
        rope_sin=plan.rope_sin[first:stop],
        block_rope_cos=plan.block_rope_cos[first:stop],
        block_rope_sin=plan.block_rope_sin[first:stop],
    )
