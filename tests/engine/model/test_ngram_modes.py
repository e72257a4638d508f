import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from engine.core.config import NgramMode, RunConfig
from engine.core.errors import ModelFileError
from engine.core.gguf_header import read_model_header
from engine.core.ngram_mode import NgramPlan
from engine.core.ngram_numbers import TABLE_NAME
from engine.gguf.reader import GgufFile
from engine.memory.ngram_table import NgramTable
from engine.memory.ngram_table_modes import open_ngram_table
from engine.model.trunk import Model
from engine.sequence.batch import Batch, BatchEntry, LogitsWanted
from tests.support.golden import (
    GOLDEN,
    OPS_NAMES,
    arrays,
    forward,
    golden_limits,
    make_golden_ops,
    run_tokens,
)

CASES = ("full", "odd", "quant-Q4_K_M")
MODES = (NgramMode.MAPPED, NgramMode.RAM, NgramMode.DIRECT)


@contextlib.contextmanager
def loaded(path: Path, ops_name: str, mode: NgramMode, cache_rows: int = 5000) -> Iterator[Model]:
    """A model whose n-gram table is read in this mode."""
    header, limits = read_model_header(path), golden_limits()
    config = RunConfig(ngram_mode=mode, ngram_cache_rows=cache_rows)
    ops = make_golden_ops(ops_name, limits)
    table = open_ngram_table(header, NgramPlan(mode, 0, 0, ""), config)
    assert isinstance(table, NgramTable) == (mode is NgramMode.DIRECT)
    assert (table is None) == (mode is NgramMode.MAPPED)
    with GgufFile(header) as file:
        try:
            yield Model.load(file, ops, limits, table=table)
        finally:
            ops.close()
            if isinstance(table, NgramTable):
                table.close()


def all_logits(model: Model, tokens: list[int]) -> list[np.ndarray]:
    """A prompt in chunks, single tokens, and a window of which two are committed, then one more."""
    state = model.new_sequence()
    logits = [run_tokens(model, state, tokens[:60], chunk=33)]
    logits += [run_tokens(model, state, [token]) for token in tokens[60:70]]
    window = forward(model, state, tokens[70:76], LogitsWanted.ALL)
    logits.append(window.logits.copy())
    state.commit(2)
    other = model.new_sequence()
    both = model.forward(Batch([BatchEntry(state, tokens[72:73]), BatchEntry(other, tokens[:40])]))
    logits.append(both.logits.copy())
    other.commit(40)
    state.commit(1)
    return logits


@pytest.mark.parametrize("ops_name", OPS_NAMES)
@pytest.mark.parametrize("case", CASES)
def test_logits_are_the_same_bits_in_every_mode(case: str, ops_name: str):
    tokens = [int(token) for token in arrays(case)["tokens"]][:80]
    found = []
    for mode, cache_rows in (*((mode, 5000) for mode in MODES), (NgramMode.DIRECT, 16)):
        with loaded(GOLDEN / f"{case}.gguf", ops_name, mode, cache_rows) as model:
            found.append(all_logits(model, tokens))
    for others in found[1:]:
        for wanted, got in zip(found[0], others, strict=True):
            np.testing.assert_array_equal(wanted, got)


@pytest.mark.parametrize("ops_name", OPS_NAMES)
def test_announced_tokens_find_their_rows_read(ops_name: str):
    tokens = [int(token) for token in arrays("full")["tokens"]][:40]
    with loaded(GOLDEN / "full.gguf", ops_name, NgramMode.DIRECT) as model:
        rows = model.ngram_rows
        assert rows is not None
        state = model.new_sequence()
        run_tokens(model, state, tokens[:20])
        rows.expect(tokens[20:23], tokens[:20])
        while rows.figures.reads and rows.figures.cached_rows < wanted_rows(model, tokens, 23):
            rows.table.advance()
        reads, waits = rows.figures.reads, rows.figures.waits
        run_tokens(model, state, tokens[20:23])
        assert (rows.figures.reads, rows.figures.waits) == (reads, waits)


def wanted_rows(model: Model, tokens: list[int], count: int) -> int:
    assert model._hash is not None
    return len(np.unique(model._hash.rows(tokens[:count], [])))


@pytest.mark.parametrize("ops_name", OPS_NAMES)
def test_a_table_that_cannot_be_read_fails_that_pass_and_the_next_one_works(
    ops_name: str, tmp_path: Path
):
    path = tmp_path / "full.gguf"
    shutil.copyfile(GOLDEN / "full.gguf", path)
    tokens = [int(token) for token in arrays("full")["tokens"]][:30]
    place = read_model_header(path)
    shard, info = place.tensors[TABLE_NAME]
    first = place.shards[shard].data_start + info.offset
    with loaded(GOLDEN / "full.gguf", ops_name, NgramMode.MAPPED) as model:
        wanted = run_tokens(model, model.new_sequence(), tokens)
    # A model whose weights are of the whole file and whose table is of one that is cut.
    table = NgramTable(path, first, *info.shape, info.type)
    limits = golden_limits()
    ops = make_golden_ops(ops_name, limits)
    with GgufFile.open(GOLDEN / "full.gguf") as file:
        model = Model.load(file, ops, limits, table=table)
        state = model.new_sequence()
        os.truncate(path, first)
        with pytest.raises(ModelFileError, match=r"n-gram table in .*full\.gguf cannot be read"):
            forward(model, state, tokens)
        with pytest.raises(ModelFileError, match="cannot be read at byte"):
            forward(model, state, tokens[:1])  # a recorded pass
        assert state.length == 0
        shutil.copyfile(GOLDEN / "full.gguf", path)
        np.testing.assert_array_equal(run_tokens(model, state, tokens), wanted)
    ops.close()
    table.close()
