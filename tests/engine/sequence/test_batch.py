"""Batches, their plans and their results."""

from __future__ import annotations

import numpy as np
import pytest

from engine.ops.plan import PassPlan
from engine.sequence.batch import Batch, BatchEntry, LogitsWanted, PassResult, logit_rows
from engine.sequence.plan_builder import PlanBuilder, PlannedRows
from engine.sequence.rope import RopeAngles
from tests.support.golden import load_golden


def test_a_plan_describes_every_row_of_every_sequence():
    model = load_golden("full", "reference")
    first, second = model.new_sequence(), model.new_sequence()
    for sequence, length in ((first, 34), (second, 3)):
        sequence.begin_pass([1] * length, None)
        sequence.finish_pass(np.zeros((length, 4, 128), np.float32))
        sequence.commit(length)
    first.begin_pass([7, 8, 9], None)
    second.begin_pass([5], None)
    builder = PlanBuilder(8, 3, 8, 4, RopeAngles(16, 1e7, (3, 3, 2)))
    plan = builder.build([PlannedRows(first, 34, [7, 8, 9]), PlannedRows(second, 3, [5])])
    assert (plan.num_rows, plan.num_sequences) == (4, 2)
    assert plan.token_ids.tolist() == [7, 8, 9, 5]
    assert plan.positions.tolist() == [34, 35, 36, 3]
    assert plan.row_seq.tolist() == [0, 0, 0, 1]
    assert plan.seq_start.tolist() == [0, 3, 4]
    assert plan.seq_length.tolist() == [34, 3]
    assert plan.seq_slot.tolist() == [first.slot, second.slot]
    assert plan.seq_half.tolist() == [1, 1]
    assert plan.page_table.tolist() == [
        [*first.pages.pages, *[-1] * 6],
        [*second.pages.pages, *[-1] * 7],
    ]
    # The first frequency is 1: its angle is the position. Rows 35 and 3 complete blocks.
    np.testing.assert_allclose(plan.rope_sin[:, 0], np.sin([34, 35, 36, 3]), atol=1e-6)
    np.testing.assert_allclose(plan.block_rope_sin[[1, 3], 0], np.sin([32, 0]), atol=1e-6)


def test_a_plan_of_one_row_each_is_that_of_a_longer_pass():
    model = load_golden("full", "reference")
    sequences = [model.new_sequence() for _ in range(3)]
    lengths = (34, 3, 1)
    for sequence, length in zip(sequences, lengths, strict=True):
        sequence.begin_pass([1] * length, None)
        sequence.finish_pass(np.zeros((length, 4, 128), np.float32))
        sequence.commit(length)
        sequence.begin_pass([5, 6], None)
    steps, longer = (PlanBuilder(8, 3, 8, 4, RopeAngles(16, 1e7, (3, 3, 2))) for _ in range(2))
    pairs = list(zip(sequences, lengths, strict=True))
    longer_plan = longer.build([PlannedRows(s, n, [5, 6]) for s, n in pairs])
    # Behind a plan of other sequences, whose pages must not stay.
    steps.build([PlannedRows(sequences[1], 3, [5])])
    plan = steps.build([PlannedRows(s, n, [5]) for s, n in pairs])
    first = longer_plan.seq_start[:-1]
    assert (plan.num_rows, plan.num_sequences) == (3, 3)
    assert plan.seq_start.tolist() == [0, 1, 2, 3]
    for name in ("seq_slot", "seq_half", "seq_length", "page_table"):
        assert getattr(plan, name).tolist() == getattr(longer_plan, name).tolist()
    for name in ("token_ids", "positions", "row_seq", "rope_cos", "rope_sin"):
        assert getattr(plan, name).tolist() == getattr(longer_plan, name)[first].tolist()
    completes = [1]  # position 3 is the last of its block
    assert plan.block_rope_cos[completes].tolist() == longer_plan.block_rope_cos[[2]].tolist()
    assert plan.block_rope_sin[completes].tolist() == longer_plan.block_rope_sin[[2]].tolist()


def test_the_library_writes_the_plan_that_python_writes():
    model = load_golden("full", "reference")
    sequences = [model.new_sequence() for _ in range(3)]
    lengths = (70, 3, 1)
    for sequence, length in zip(sequences, lengths, strict=True):
        sequence.begin_pass([1] * length, None)
        sequence.finish_pass(np.zeros((length, 4, 128), np.float32))
        sequence.commit(length)
        sequence.begin_pass([5, 6, 7], None)
    page = sequences[0].pages.page_tokens
    first, second, third = sequences
    passes = [
        [PlannedRows(first, 70, [5, 6, 7])],
        [PlannedRows(first, 70, [5], page), PlannedRows(third, 1, [9])],
        [PlannedRows(second, 3, [8, 9]), PlannedRows(third, 1, [4]), PlannedRows(first, 68, [1])],
        [PlannedRows(second, 0, list(range(20)))],  # more rows than are kept
    ]
    quick = PlanBuilder(32, 3, 8, 4, RopeAngles(16, 1e7, (3, 3, 2)))
    plain = PlanBuilder(32, 3, 8, 4, RopeAngles(16, 1e7, (3, 3, 2)), library=lambda: None)
    for rows in passes:
        made, wanted = quick.build(rows), plain.build(rows)
        completes = wanted.positions % 4 == 3  # the angles of other blocks are not used
        for name in PassPlan.__slots__:
            ours, theirs = getattr(made, name), getattr(wanted, name)
            if name.startswith("block"):
                ours, theirs = ours[completes], theirs[completes]
            np.testing.assert_array_equal(ours, theirs, name)


def test_rows_with_logits_are_found_in_the_result():
    start = np.array([0, 3, 4, 6], np.int32)
    wanted = [LogitsWanted.LAST, LogitsWanted.NONE, LogitsWanted.ALL]
    rows = logit_rows(wanted, start)
    assert rows.tolist() == [2, 4, 5]
    logits = np.arange(3, dtype=np.float32)[:, None]
    streams = np.zeros((6, 2, 1), np.float32)
    result = PassResult(logits, rows, streams, start)
    assert result.logits_of(0).tolist() == [[0]]
    assert result.logits_of(1).tolist() == []
    assert result.logits_of(2).tolist() == [[1], [2]]
    assert result.streams_of(2).shape == (2, 2, 1)


def test_senseless_batches_are_refused():
    model = load_golden("full", "reference", max_rows=4)
    sequence = model.new_sequence()
    with pytest.raises(ValueError, match="needs tokens"):
        Batch([BatchEntry(sequence, [])])
    with pytest.raises(ValueError, match="rope positions of shape"):
        Batch([BatchEntry(sequence, [1, 2], LogitsWanted.LAST, np.zeros((3, 3), np.int32))])
    with pytest.raises(ValueError, match="needs entries"):
        Batch([])
    with pytest.raises(ValueError, match="twice"):
        Batch([BatchEntry(sequence, [1]), BatchEntry(sequence, [2])])
    with pytest.raises(ValueError, match="5 rows"):
        model.forward(Batch([BatchEntry(sequence, [1] * 5)]))
