"""Small passes cut between their sequences give the bits of whole ones, whoever computes which side."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.errors import ResourceError
from engine.core.gguf_header import read_model_header
from engine.core.ngram_numbers import TABLE_NAME
from engine.gguf.reader import GgufFile
from engine.memory.ngram_table import NgramTable
from engine.model.sides import side_cuts
from engine.model.trunk import Model
from engine.ops import host_replay
from engine.ops.host_runner import ListRunner, Way
from engine.sequence.batch import Batch, BatchEntry, LogitsWanted
from tests.support.golden import GOLDEN, arrays, golden_limits, load_golden, make_golden_ops
from tests.support.mixed_life import a_mixed_life, finish

ALL = (LogitsWanted.ALL,)


class Held(host_replay.ThreadTrial):
    """Sides wherever there are any."""

    def __init__(self, ways: tuple[Way, ...]) -> None:
        super().__init__(ways)
        self.way = ways[-1]
        self.is_settled = True

    def has_run(self, _: float) -> None:
        """Nothing is tried again."""


@pytest.fixture
def sides_run(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Passes run in sides; of how many each that did was."""
    counts: list[int] = []
    run = ListRunner.sides

    def counted(self, sides, first, stop):
        counts.append(len(sides.lists))
        run(self, sides, first, stop)

    monkeypatch.setattr(host_replay, "ThreadTrial", Held)
    monkeypatch.setattr(ListRunner, "sides", counted)
    return counts


def life(model: Model, case: str, wanted: Sequence[LogitsWanted] = ALL) -> list[np.ndarray]:
    return a_mixed_life(model, arrays(case)["tokens"].tolist(), 7, wanted, num_sequences=5)


@pytest.mark.parametrize("threads", [2, 3, 8])
@pytest.mark.parametrize("case", ["full", "nople", "odd", "quant-Q4_K_M"])
def test_sides_have_the_bits_of_a_whole_pass(case, threads, sides_run):
    wanted = life(load_golden(case, "host", threads=1, max_sequences=5), case)
    assert not sides_run  # one thread has none
    got = life(load_golden(case, "host", threads=threads, max_sequences=5), case)
    assert max(sides_run) == min(threads, 5)
    assert len(sides_run) > 15
    for a, b in zip(got, wanted, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_pass_without_logits_of_all_rows_is_not_cut(sides_run):
    wanted = tuple(LogitsWanted)
    whole = life(load_golden("full", "host", threads=1, max_sequences=5), "full", wanted)
    got = life(load_golden("full", "host", threads=2, max_sequences=5), "full", wanted)
    for a, b in zip(got, whole, strict=True):
        np.testing.assert_array_equal(a, b)
    model = load_golden("full", "host", threads=2)
    entries = [BatchEntry(model.new_sequence(), [5, 6], LogitsWanted.LAST) for _ in range(2)]
    before = len(sides_run)
    model.forward(Batch(entries))
    assert len(sides_run) == before


def test_a_pass_of_one_sequence_is_not_cut(sides_run):
    model = load_golden("full", "host", threads=2)
    model.forward(Batch([BatchEntry(model.new_sequence(), [5, 6, 7], LogitsWanted.ALL)]))
    assert not sides_run


def test_a_pass_whose_experts_are_watched_is_not_cut(sides_run):
    num_rows = []

    class Watch:
        def chosen(self, layer_idx, x, expert_ids):
            num_rows.append(len(expert_ids))

    model = load_golden("full", "host", threads=2)
    model.watch_experts(Watch())
    model.forward(
        Batch([BatchEntry(model.new_sequence(), [5], LogitsWanted.ALL) for _ in range(2)])
    )
    assert num_rows == [2] * model.config.num_layers
    assert not sides_run


def test_a_pass_that_reads_a_table_on_the_disk_is_not_cut(sides_run):
    """Its reader is for one thread at a time."""
    path, limits = GOLDEN / "full.gguf", golden_limits(threads=2)
    header = read_model_header(path)
    shard, info = header.tensors[TABLE_NAME]
    first = header.shards[shard].data_start + info.offset
    table = NgramTable(path, first, *info.shape, info.type)
    ops = make_golden_ops("host", limits)
    with GgufFile(header) as file:
        model = Model.load(file, ops, limits, table=table)
        entries = [BatchEntry(model.new_sequence(), [5], LogitsWanted.ALL) for _ in range(2)]
        model.forward(Batch(entries))
    assert not sides_run
    ops.close()
    table.close()


def test_parts_of_a_pass_may_be_run_in_different_ways(sides_run, monkeypatch):
    """A pass that is left after some layers begins whole and goes on in sides."""
    tokens = arrays("full")["tokens"].tolist()

    def run(threads: int) -> bytes:
        model = load_golden("full", "host", threads=threads)
        entries = [
            BatchEntry(model.new_sequence(), tokens[i : i + 2], LogitsWanted.ALL) for i in range(3)
        ]
        return finish(model.layers(Batch(entries))).logits.tobytes()

    monkeypatch.setattr("engine.model.passes.STEP_S", 1e-9)
    wanted = run(1)
    turns = itertools.count()
    whole = ListRunner.together
    halves = ListRunner.sides

    def by_turns(self, sides, first, stop):
        if next(turns) % 2:
            halves(self, sides, first, stop)
        else:
            for side in sides.lists:
                whole(self, side, first, stop)

    monkeypatch.setattr(ListRunner, "sides", by_turns)
    assert run(2) == wanted
    assert next(turns) > 3


def test_windows_of_as_many_rows_have_one_recording_however_they_are_cut(sides_run, monkeypatch):
    """There are hundreds of ways to cut sixteen rows."""
    made, per_cut = [], []
    model = load_golden("full", "host", threads=3)
    record, record_sides = model.ops._record, model.ops.record_sides

    def counted(parts, keep, new_sides):
        made.append(len(parts))
        return record_sides(parts, keep, new_sides)

    def counted_list(parts, keep):
        per_cut.append(len(parts))
        return record(parts, keep)

    monkeypatch.setattr(model.ops, "record_sides", counted)
    monkeypatch.setattr(model.ops, "_record", counted_list)
    states = [model.new_sequence() for _ in range(3)]
    for counts in [(1, 2, 4), (4, 2, 1), (3, 3, 1), (1, 2, 4)]:
        entries = [
            BatchEntry(state, [5 + i for i in range(count)], LogitsWanted.ALL)
            for state, count in zip(states, counts, strict=True)
        ]
        model.forward(Batch(entries))
        for state in states:
            state.commit(1)
    assert len(made) == 1
    assert len(per_cut) == 1 + 3 * 3  # the whole, and three sides for each way to cut it
    assert sides_run == [3] * 4


def test_a_side_that_fails_ends_the_pass_with_its_reason(sides_run, monkeypatch):
    model = load_golden("full", "host", threads=2)
    entries = [BatchEntry(model.new_sequence(), [5], LogitsWanted.ALL) for _ in range(2)]
    model.forward(Batch(entries))
    for entry in entries:
        entry.state.commit(1)
    library = model.ops._library
    monkeypatch.setattr(library, "replay_sides", lambda *_: 2)
    with pytest.raises(ResourceError, match="not enough memory for the operation"):
        model.forward(Batch(entries))
    monkeypatch.undo()
    assert len(model.forward(Batch(entries)).logits) == 2


@given(st.lists(st.integers(1, 9), min_size=1, max_size=16), st.integers(1, 20))
def test_sides_hold_every_sequence_once_and_about_as_many_rows(counts, num_sides):
    starts = (0, *itertools.accumulate(counts))
    cuts = side_cuts(starts, num_sides)
    assert cuts[0] == (0, 0)
    assert cuts[-1] == (len(counts), starts[-1])
    assert len(cuts) - 1 == min(num_sides, len(counts))
    sizes = []
    for (begin, first), (end, stop) in itertools.pairwise(cuts):
        assert begin < end
        assert (starts[begin], starts[end]) == (first, stop)
        sizes.append(stop - first)
    assert max(sizes) <= starts[-1] / len(sizes) + 2 * max(counts)


def test_four_sequences_of_one_row_make_two_sides_of_two():
    assert side_cuts((0, 1, 2, 3, 4), 2) == ((0, 0), (2, 2), (4, 4))
    assert side_cuts((0, 1, 2, 3, 4), 16) == ((0, 0), (1, 1), (2, 2), (3, 3), (4, 4))
    assert side_cuts((0, 6, 7, 8, 9), 2) == ((0, 0), (1, 6), (4, 9))
