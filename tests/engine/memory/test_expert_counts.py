"""Counts of which experts are used, and their file."""

import json

import numpy as np
import pytest

from engine.core.errors import ConfigError
from engine.memory.expert_counts import ExpertCounts, ExpertCountsError, open_counts


@pytest.fixture
def counts():
    counts = ExpertCounts((2, 4), "a model")
    counts.add(1, np.array([[0, 3], [3, -1]], np.int32))
    counts.add(0, np.array([[2]], np.int32))
    return counts


def test_choices_are_counted_and_negative_ones_are_none(counts):
    assert counts.counts.tolist() == [[0, 0, 1, 0], [1, 0, 0, 2]]


def test_the_file_gives_the_counts_back(tmp_path, counts):
    path = tmp_path / "Zähler" / "experts.json"
    counts.save(path)
    again = ExpertCounts.read(path, "a model", (2, 4))
    assert (again.counts == counts.counts).all()
    again.add(0, np.array([[2]], np.int32))
    assert again.counts[0, 2] == 2


@pytest.mark.parametrize(
    ("change", "error", "sentence"),
    [
        ({"model": "another"}, ExpertCountsError, "another model"),
        ({"counts": [[1, 2], [3]]}, ExpertCountsError, "no counts"),
        ({"counts": [[1, 2, 3, 4]]}, ExpertCountsError, "this model's experts"),
        ({"counts": [[0, 0, 0, 0], [0, 0, 0, -1]]}, ExpertCountsError, "this model's experts"),
        ({"counts": "none"}, ExpertCountsError, "no counts"),
        ({"format": 2}, ConfigError, "newer version"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_and_counting_begins_anew(
    tmp_path, counts, caplog, change, error, sentence
):
    path = tmp_path / "experts.json"
    counts.save(path)
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(error, match=sentence):
        ExpertCounts.read(path, "a model", (2, 4))
    assert open_counts(path, "a model", (2, 4)).is_empty
    assert "begins anew" in caplog.text


def test_without_a_file_nothing_is_known(tmp_path):
    assert open_counts(tmp_path / "missing.json", "a model", (2, 4)).is_empty


def test_counts_never_overflow(counts):
    counts.counts[1, 3] = 1 << 40
    counts.add(1, np.array([[3]], np.int32))
    assert counts.counts[1, 3] == ((1 << 40) + 1) // 2
