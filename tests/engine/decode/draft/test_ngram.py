"""Counts of n-grams against plain dictionaries, and what is drafted of them."""

from collections import Counter, defaultdict

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.decode.draft.ngram import ORDERS, NgramDrafter, NgramTable

LAX = ((2, 66), (2, 50), (1, 50), (1, 50))  # how often, and percent of the best, by order


def drafted(tokens, most=3, **sources):
    drafter = NgramDrafter(**sources)
    drafter.append(tokens)
    return drafter.draft(most)


def counted(tokens):
    table = NgramTable()
    array = np.array(tokens, np.int32)
    table.append(array, 0, len(array))
    return table


def by_hand(tokens, most):
    """Drafts of the sequence alone by llama.cpp's thresholds."""
    followers = defaultdict(Counter)
    for at in range(len(tokens)):
        for order in range(1, min(ORDERS, at) + 1):
            followers[tuple(tokens[at - order : at])][tokens[at]] += 1
    known = list(tokens)
    for _ in range(most):
        best = None
        for order in range(min(ORDERS, len(known)), 0, -1):
            counts = followers.get(tuple(known[-order:]))
            if counts is None:
                continue
            top = max(counts.values())
            least, percent = LAX[order - 1]
            if sum(counts.values()) >= least and 100 * top >= percent * sum(counts.values()):
                best = {token for token, count in counts.items() if count == top}
                break
        if best is None:
            break
        yield best
        known.append(min(best)) if len(best) == 1 else None
        if len(best) > 1:
            return  # which of equals comes first is not agreed on


@settings(max_examples=150, deadline=None)
@given(st.lists(st.integers(0, 5), max_size=120))
def test_drafts_are_the_best_successors_of_the_longest_gram_that_is_sure_enough(tokens):
    got = drafted(tokens, 6)
    wanted = list(by_hand(tokens, 6))
    for token, best in zip(got, wanted, strict=False):
        assert token in best
    assert len(got) >= len(wanted) if wanted and len(wanted[-1]) > 1 else len(got) == len(wanted)


def test_one_token_alone_must_have_come_twice():
    assert drafted([7, 1, 7]) == []
    assert drafted([7, 1, 7, 1, 7])[:1] == [1]


def test_other_requests_are_asked_when_the_sequence_knows_nothing_and_must_be_surer():
    others = counted([1, 2, 3, 9] * 4)
    assert drafted([5, 1, 2, 3], 2, others=others)[:1] == [9]
    rarely = counted([0, 1, 2, 3, 9])
    assert drafted([5, 1, 2, 3], 2, others=rarely) == []


def test_counts_survive_growing_and_saving():
    tokens = np.random.default_rng(2).integers(0, 300, 20_000).tolist()
    table = counted(tokens)
    again = NgramTable.from_records(*table.records())
    assert again.num_grams == table.num_grams > 10_000
    for end in range(1000, 20_000, 997):
        recent = tokens[end - 4 : end]
        assert drafted(recent, others=again, use_own=False) == drafted(
            recent, others=table, use_own=False
        )


def test_playing_a_text_equals_drafting_through_it_step_by_step():
    text = ([3, 1, 4, 1, 5, 9, 2, 6] * 6) + [3, 1, 4, 2, 7, 1, 8]
    drafter, at = NgramDrafter(), 0
    offered = accepted = steps = 0
    while at < len(text):
        drafts = drafter.draft(4)
        right = 0
        while right < len(drafts) and at + right < len(text) and drafts[right] == text[at + right]:
            right += 1
        taken = text[at : at + right + 1]
        drafter.append(taken)
        at += len(taken)
        steps, offered, accepted = steps + 1, offered + len(drafts), accepted + right
    counts = NgramDrafter().play(np.array(text, np.int32), 4)
    assert (counts.num_steps, counts.num_drafted, counts.num_accepted) == (steps, offered, accepted)
    assert accepted > 20


def test_drafting_changes_nothing():
    drafter = NgramDrafter()
    drafter.append([1, 2, 3] * 5)
    assert drafter.draft(8) == drafter.draft(8)
    assert drafter.tokens.tolist() == [1, 2, 3] * 5
