"""The prefix tree against a plain dictionary of token tuples."""

from __future__ import annotations

import random

import numpy as np
import pytest

from engine.sequence.prefix_tree import Place, PrefixTree, token_array


def make(*entries: tuple[list[int], str]) -> tuple[PrefixTree[str], dict[str, Place[str]]]:
    tree: PrefixTree[str] = PrefixTree()
    return tree, {value: tree.put(token_array(tokens), value) for tokens, value in entries}


def deepest(tree: PrefixTree[str], tokens: list[int], limit: int | None = None) -> str | None:
    place = tree.deepest(token_array(tokens), len(tokens) if limit is None else limit)
    return None if place is None else place.value


def test_the_longest_beginning_with_a_value_is_found():
    tree, _ = make(([1, 2], "short"), ([1, 2, 3, 4], "long"), ([1, 2, 3, 9], "other"))
    assert deepest(tree, [1, 2, 3, 4, 5]) == "long"
    assert deepest(tree, [1, 2, 3, 4, 5], limit=3) == "short"
    assert deepest(tree, [1, 2, 3, 5]) == "short"  # where two edges part there is no value
    assert deepest(tree, [1, 2]) == "short"
    assert deepest(tree, [1]) is None
    assert deepest(tree, [7, 1, 2]) is None
    assert deepest(tree, []) is None


def test_shared_tokens_are_counted_once_and_go_with_the_last_value():
    tree, places = make(([1, 2, 3], "a"), ([1, 2, 4, 5], "b"))
    assert (tree.num_tokens, len(tree)) == (5, 2)
    assert tree.num_shared(token_array([1, 2, 4, 9])) == 3
    tree.remove(places["a"])
    assert tree.num_tokens == 4
    assert deepest(tree, [1, 2, 4, 5, 6]) == "b"
    tree.remove(places["b"])
    assert (tree.num_tokens, len(tree)) == (0, 0)
    assert tree.num_shared(token_array([1, 2])) == 0


def test_a_value_inside_of_an_edge_splits_it_and_its_removal_joins_it():
    tree, places = make(([1, 2, 3, 4], "deep"))
    inner = tree.put(token_array([1, 2]), "inner")
    assert deepest(tree, [1, 2, 3]) == "inner"
    assert tree.num_tokens == 4
    tree.remove(inner)
    assert deepest(tree, [1, 2, 3]) is None
    assert tree.at(token_array([1, 2, 3, 4])) == "deep"
    assert len(places["deep"].edge) == 4


def test_a_second_value_at_one_place_is_refused():
    tree, places = make(([1, 2], "a"))
    with pytest.raises(ValueError, match="a value at depth 2"):
        tree.put(token_array([1, 2]), "b")
    tree.remove(places["a"])
    with pytest.raises(ValueError, match="no value"):
        tree.remove(places["a"])


def test_edges_do_not_keep_the_arrays_alive_that_they_were_cut_from():
    tree: PrefixTree[str] = PrefixTree()
    tokens = np.arange(1000)
    place = tree.put(tokens, "a")
    assert not np.shares_memory(place.edge, tokens)


@pytest.mark.parametrize("seed", range(5))
def test_random_puts_and_removals_agree_with_a_dictionary(seed: int):
    rng = random.Random(seed)  # noqa: S311  # not for secrets
    tree: PrefixTree[int] = PrefixTree()
    known: dict[tuple[int, ...], int] = {}
    places: dict[tuple[int, ...], Place[int]] = {}

    def some_tokens() -> tuple[int, ...]:
        if known and rng.random() < 0.7:  # go on from a known one, or part from it
            base = rng.choice(list(known))
            base = base[: rng.randint(0, len(base))]
        else:
            base = ()
        return base + tuple(rng.randrange(3) for _ in range(rng.randint(1, 6)))

    for step in range(600):
        tokens = some_tokens()
        if rng.random() < 0.55 and tokens not in known:
            places[tokens] = tree.put(token_array(tokens), step)
            known[tokens] = step
        elif known and rng.random() < 0.6:
            gone = rng.choice(list(known))
            tree.remove(places.pop(gone))
            del known[gone]
        query = some_tokens()
        limit = rng.randint(0, len(query))
        wanted = max((t for t in known if t == query[: min(len(t), limit)]), key=len, default=None)
        place = tree.deepest(token_array(query), limit)
        assert (None if place is None else place.value) == (
            None if wanted is None else known[wanted]
        )
        assert tree.at(token_array(query)) == known.get(query)
        beginnings = {t[:i] for t in known for i in range(1, len(t) + 1)}
        shared = max((i for i in range(len(query) + 1) if query[:i] in beginnings), default=0)
        assert tree.num_shared(token_array(query)) == shared
        assert tree.num_tokens == len(beginnings)
        assert len(tree) == len(known)
    assert sorted(place.value or 0 for place in tree) == sorted(known.values())
