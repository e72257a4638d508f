"""Experts are asked for before they are computed with; the system is a fake that notes what it is asked."""

import errno

import numpy as np
import pytest

from engine.core.disk_reads import DiskReads
from engine.core.errors import ModelFileError
from engine.memory.expert_counts import ExpertCounts
from engine.memory.expert_map import ExpertMap, StackedMatrix
from engine.memory.expert_reader import LEAST_PRECISION, ExpertReader

PAGE = 4096
X = np.zeros((1, 8), np.float32)


class FakePages:
    """Memory that begins empty and holds what was waited for."""

    def __init__(self, *, can_tell=True, can_wait=True, fails=()):
        self.there = set()
        self.requests = []
        self.random = []
        self.can_tell, self.can_wait, self.fails = can_tell, can_wait, set(fails)

    def missing_bytes(self, ranges):
        if not self.can_tell:
            return None
        return [0 if one in self.there else one[1] for one in ranges]

    def expect_random(self, ranges):
        self.random += ranges

    def request(self, ranges):
        self.requests.append(list(ranges))

    def wait(self, ranges):
        if self.fails & set(ranges):
            raise OSError(errno.EFAULT, "Bad address")
        self.there |= set(ranges)
        return self.can_wait


class FixedGuess:
    """Says the same each time."""

    def __init__(self, experts):
        self.experts = np.array(experts, np.int64)
        self.asked = []

    def guess(self, layer_idx, x):
        self.asked.append(layer_idx)
        return self.experts


def expert_map(num_layers=2, num_experts=8):
    return ExpertMap(
        tuple(
            (
                StackedMatrix((layer * 100 + 1) * PAGE, PAGE, "teil.gguf"),
                StackedMatrix((layer * 100 + 51) * PAGE, 2 * PAGE, "teil.gguf"),
            )
            for layer in range(num_layers)
        ),
        num_experts,
    )


def reader_of(pages, kept=(), **options):
    mask = np.zeros((2, 8), np.bool_)
    for place in kept:
        mask[place] = True
    return ExpertReader(expert_map(), pages, mask, **options)


def ids(*rows):
    return np.array(rows, np.int32)


def test_all_matrices_of_the_chosen_experts_are_asked_for_at_once_and_each_once():
    pages = FakePages()
    reader = reader_of(pages)
    reader.chosen(0, X, ids([3, 1], [1, -1]))
    assert pages.requests == [expert_map().ranges(0, [1, 3])]
    assert reader.reads.reads == 4
    assert reader.reads.num_bytes == 6 * PAGE
    reader.chosen(0, X, ids([1, 3]))
    assert len(pages.requests) == 1  # they are there
    assert (reader.reads.reads, reader.reads.hits) == (4, 4)


def test_what_is_kept_is_never_looked_for():
    pages = FakePages()
    reader = reader_of(pages, kept=[(0, 1)])
    reader.chosen(0, X, ids([1, 3]))
    assert pages.requests == [expert_map().ranges(0, [3])]
    assert (reader.reads.reads, reader.reads.hits) == (2, 2)


def test_faults_among_experts_read_no_more_than_their_page():
    pages = FakePages()
    reader_of(pages)
    assert pages.random == list(expert_map().all_ranges())


def test_the_next_layers_experts_are_asked_for_meanwhile():
    pages, ahead = FakePages(), FakePages()
    guess = FixedGuess([2, 5])
    reader = reader_of(pages, guess=guess, pages_ahead=ahead)
    reader.chosen(0, X, ids([0, 1]))
    reader.chosen(1, X, ids([2, 7]))
    reader.close()
    assert guess.asked == [1]  # nothing comes after the last layer
    assert ahead.requests == [expert_map().ranges(1, [2, 5])]
    assert reader.guess_precision == 0.5


def test_a_guess_that_is_seldom_right_reads_nothing_until_it_gets_better():
    pages, ahead = FakePages(), FakePages()
    guess = FixedGuess([2, 5])
    reader = reader_of(pages, guess=guess, pages_ahead=ahead)
    for _ in range(40):
        reader.chosen(0, X, ids([0]))
        reader.chosen(1, X, ids([6, 7]))
    # 0.9 ** n falls below the least precision after so many; then there is a look now and again
    num_asked = int(np.ceil(np.log(LEAST_PRECISION) / np.log(0.9)))
    num_guesses = len(guess.asked)
    assert num_asked <= num_guesses <= num_asked + 3
    for _ in range(200):
        reader.chosen(0, X, ids([0]))
        reader.chosen(1, X, ids([2, 5]))
    reader.close()
    assert len(guess.asked) > num_guesses + 100
    assert num_asked < len(ahead.requests) < len(guess.asked)


def test_a_file_that_cannot_be_read_is_an_error_that_names_it_and_the_reader_goes_on():
    pages = FakePages(fails=expert_map().ranges(0, [4]))
    reader = reader_of(pages)
    with pytest.raises(ModelFileError, match=r"teil\.gguf cannot be read any more .* ask again"):
        reader.chosen(0, X, ids([4]))
    reader.chosen(0, X, ids([5]))
    assert reader.reads.reads == 4


def test_only_what_is_known_is_told():
    reader = reader_of(FakePages(can_tell=False))
    reader.chosen(0, X, ids([1]))
    assert (reader.reads.reads, reader.reads.num_bytes, reader.reads.hits) == (-1, -1, -1)
    assert reader.reads.waited_ms >= 0
    reader = reader_of(FakePages(can_wait=False))
    reader.chosen(0, X, ids([1]))
    assert reader.reads == DiskReads("experts", 2, 3 * PAGE, 0, -1)


def test_choices_are_counted_without_asking_the_disk():
    pages, counts = FakePages(), ExpertCounts((2, 8), "m")
    reader = reader_of(pages, counts=counts, asks=False)
    reader.chosen(1, X, ids([1, 1], [2, -1]))
    assert counts.counts[1].tolist() == [0, 2, 1, 0, 0, 0, 0, 0]
    assert not pages.requests
    assert not pages.random
