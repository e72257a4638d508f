"""The index of a sequence's own tokens, against a search through all of them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.decode.draft.lookup import LONGEST_MATCH, SHORTEST_MATCH, LookupIndex

MOST_COMPARED = 24  # places that a search looks at, kMostCompared in lookup.cpp


def indexed(tokens):
    index = LookupIndex()
    index.append(tokens)
    return index


def longest_match(tokens):
    """Tokens of the longest earlier copy of the end, among the newest places of its three last."""
    last = len(tokens) - 1
    places = [
        place
        for place in range(last - 1, SHORTEST_MATCH - 2, -1)
        if tokens[place - 2 : place + 1] == tokens[-3:]
    ]
    best = 0
    for place in places[:MOST_COMPARED]:
        count = 0
        while count <= place and tokens[place - count] == tokens[last - count]:
            count += 1
        best = max(best, count)
    return best if best >= SHORTEST_MATCH else 0


def test_what_followed_the_same_tokens_before_is_drafted():
    assert indexed([1, 2, 3, 4, 5, 6, 1, 2, 3]).draft(3) == [4, 5, 6]


def test_two_equal_tokens_are_no_match():
    index = indexed([1, 2, 3, 4, 9, 3, 4])
    assert (index.num_matched, index.draft(5)) == (0, [])


def test_the_newest_of_equally_long_matches_is_followed():
    assert indexed([1, 2, 3, 7, 0, 1, 2, 3, 8, 0, 5, 1, 2, 3]).draft(1) == [8]


def test_a_longer_match_wins_over_a_newer_one():
    tokens = [9, 8, 7, 1, 2, 3, 50, 1, 2, 3, 60, 9, 8, 7, 1, 2, 3]
    index = indexed(tokens)
    assert (index.num_matched, index.draft(1)) == (6, [50])


def test_a_match_may_overlap_the_end_so_that_a_period_goes_on():
    assert indexed([5, 6] * 4).draft(7) == [5, 6, 5, 6, 5, 6, 5]
    assert indexed([4] * 5).draft(6) == [4] * 6


def test_a_short_match_drafts_nothing_when_a_longer_one_is_asked_for():
    index = indexed([1, 2, 3, 4, 5, 0, 1, 2, 3])
    assert index.draft(2, least_matched=3) == [4, 5]
    assert index.draft(2, least_matched=4) == []


def test_a_copy_is_followed_token_by_token_with_a_growing_match():
    text = list(range(40))
    index = indexed([*text, 99, *text[:3]])
    for place in range(3, 39):
        assert index.num_matched == place
        assert index.draft(1) == [text[place]]
        index.append([text[place]])


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, 3), min_size=4, max_size=150), st.integers(1, 40))
def test_the_match_is_real_and_as_long_as_the_best_of_the_newest_places(tokens, piece):
    index = LookupIndex()
    for start in range(0, len(tokens), piece):
        index.append(tokens[start : start + piece])
        now = tokens[: start + piece]
        matched = index.num_matched
        assert matched >= min(longest_match(now), LONGEST_MATCH)
        if matched:
            end = now[len(now) - min(matched, len(now)) :]
            drafted = index.draft(5)
            ends = [i for i in range(matched, len(now)) if now[i - matched : i] == end]
            assert any((now[i:] + drafted)[: len(drafted)] == drafted for i in ends)


def test_growing_tables_keep_every_match():
    draw = np.random.default_rng(1)
    tokens = draw.integers(0, 50_000, 5000).tolist()
    index = indexed([*tokens, *tokens[1000:1010]])
    assert index.draft(15) == tokens[1010:1025]
    assert index.num_bytes <= 18 * len(index)


def test_playing_a_text_counts_what_drafting_through_it_gives():
    text = np.array([1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9, 1], np.int32)
    counts = LookupIndex().play(text, most=3)
    # Twelve tokens come alone; then 4 5 6 and 7, then 8 9 1 of a text that ends there.
    assert (counts.num_steps, counts.num_drafted, counts.num_accepted) == (14, 6, 6)


def test_windows_that_are_too_long_to_play_are_refused():
    with pytest.raises(ValueError, match="65"):
        LookupIndex().play(np.zeros(4, np.int32), most=65)
