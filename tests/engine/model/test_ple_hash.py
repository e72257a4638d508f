"""N-gram hashing against the worked examples, on its own and in any cut."""

from __future__ import annotations

import json

import numpy as np
import pytest

from engine.core.model_config import ModelConfig, PleConfig
from engine.model.ple_hash import PleHash
from tests.support.golden import GOLDEN, arrays, model_file

STORED = json.loads((GOLDEN / "ple_hash.json").read_text(encoding="utf-8"))


def real_config() -> PleConfig:
    return PleConfig(
        layers=(1,),
        ngram_size=STORED["ngram_size"],
        heads_per_ngram=STORED["heads_per_ngram"],
        conv_kernel=4,
        row_width=160,
        eos_token_id=STORED["eos_token_id"],
        image_token_id=248056,
        multipliers=tuple(STORED["layer_multipliers"]),
        head_offsets=tuple(STORED["head_offsets"]),
        head_sizes=tuple(STORED["head_vocab_sizes"]),
    )


@pytest.mark.parametrize("example", STORED["examples"], ids=lambda e: e["what"][:40])
def test_the_worked_examples_give_their_rows(example):
    rows = PleHash(real_config()).rows(example["tokens"], [])
    wanted = example["rows_per_position"]
    np.testing.assert_array_equal(rows[-len(wanted) :], wanted)


@pytest.mark.parametrize("case", ["full", "odd"])
@pytest.mark.parametrize("cut", [1, 2, 3, 50])
def test_a_cut_sequence_reads_the_rows_of_the_whole(case, cut):
    file = model_file(case)
    ple = ModelConfig.from_metadata(file.metadata, file.tensors).ple
    assert ple is not None
    tokens, wanted = arrays(case)["tokens"].tolist(), arrays(case)["ple_rows"]
    hashing = PleHash(ple)
    np.testing.assert_array_equal(hashing.rows(tokens, []), wanted)
    np.testing.assert_array_equal(hashing.rows(tokens[cut:], tokens[:cut]), wanted[cut:])
    one = hashing.rows(tokens[cut : cut + 1], tokens[:cut])
    np.testing.assert_array_equal(one, wanted[cut : cut + 1])


def test_an_end_of_text_hides_what_lies_before_it():
    hashing, eos = PleHash(real_config()), real_config().eos_token_id
    hidden = hashing.rows([846, 198, 7], [eos])
    np.testing.assert_array_equal(hashing.rows([846, 198, 7], [248045, eos]), hidden)
    np.testing.assert_array_equal(hashing.rows([846, 198, 7], []), hidden)  # as at the start
    seen = hashing.rows([eos], [248045])  # the token itself still sees its predecessor
    assert (seen != hashing.rows([eos], [])).all()


def test_few_rows_and_many_are_computed_alike_by_the_library_and_without_it():
    config = real_config()
    hashing, eos = PleHash(config), config.eos_token_id
    plain = PleHash(config, lambda: None)
    tokens = np.random.default_rng(5).integers(0, 248_000, 120)
    tokens[[7, 8, 40, 41, 43]] = eos
    whole = plain.rows(tokens, [])
    np.testing.assert_array_equal(hashing.rows(tokens, []), whole)
    np.testing.assert_array_equal(hashing.rows(tokens[3:], tokens[:3]), whole[3:])
    for count in (1, 2, 3, 4, 5, 6):
        parts = [
            hashing.rows(tokens[i : i + count], tokens[:i].tolist()) for i in range(0, 120, count)
        ]
        np.testing.assert_array_equal(np.concatenate(parts), whole)
        assert parts[0].dtype == np.int64


@pytest.mark.parametrize("lengths", [(1, 1, 1, 1), (3,), (1, 4, 2), (1, 30)])
def test_the_rows_of_several_sequences_are_written_one_behind_the_other(lengths):
    ple, rng = PleHash(real_config()), np.random.default_rng(3)
    sequences = [
        (rng.integers(0, 200, length).tolist(), rng.integers(0, 200, i).tolist())
        for i, length in enumerate(lengths)
    ]
    wanted = np.concatenate([ple.rows(ids, previous) for ids, previous in sequences])
    for hashing in (ple, PleHash(real_config(), lambda: None)):
        out = np.zeros_like(wanted)
        hashing.write(sequences, out)
        np.testing.assert_array_equal(out, wanted)


def test_rows_that_do_not_fit_are_refused():
    for out in (np.zeros((2, 3), np.int64), np.zeros((1, 16), np.int64)):
        with pytest.raises(ValueError, match="do not fit"):
            PleHash(real_config()).write([([5, 6], [])], out)
