"""A tree over token ids: which kept values belong to beginnings of a given sequence.

Beginnings that several sequences share are stored once. Places in the tree are where a value was put;
everything between two of them is one edge. Knows nothing of models or of what the values are:

    tree.put([5, 6, 7], a)
    tree.put([5, 6, 8, 9], b)
    tree.deepest([5, 6, 7, 1, 2], 4).value          # a: the longest beginning with a value
    tree.num_shared([5, 6, 8, 1])                   # 3: tokens that some sequence begins with too
    tree.num_tokens                                 # 5: the tokens 5, 6 are there once

A picture would be entered as numbers made from its hash in place of its placeholder tokens, so that
two prompts with different pictures part there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

TokenArray = npt.NDArray[np.int64]
T = TypeVar("T")


def token_array(token_ids: npt.ArrayLike) -> TokenArray:
    """Token ids in the form that the tree takes."""
    return np.asarray(token_ids, np.int64)


@dataclass(slots=True, eq=False)
class Place(Generic[T]):
    """A node: the end of one beginning.

    Attributes:
        depth: tokens from the root to here.
        edge: the tokens from the parent to here.
        value: what was put here, None where only edges part.
    """

    parent: Place[T] | None
    depth: int
    edge: TokenArray
    value: T | None = None
    children: dict[int, Place[T]] = field(default_factory=dict)


class PrefixTree(Generic[T]):
    """Values by token sequences."""

    def __init__(self) -> None:
        self._root: Place[T] = Place(None, 0, token_array([]))
        self._values: dict[int, Place[T]] = {}  # by the place's id: places are compared as objects
        self.num_tokens = 0  # on all edges together

    def __len__(self) -> int:
        """Number of values."""
        return len(self._values)

    def __iter__(self) -> Iterator[Place[T]]:
        """The places that have values, in the order in which these were put."""
        return iter(list(self._values.values()))

    def put(self, tokens: TokenArray, value: T) -> Place[T]:
        """Put a value at the end of these tokens, where there must be none yet."""
        place = self._make_place(tokens)
        if place.value is not None:
            raise ValueError(f"there is a value at depth {place.depth} already")
        place.value = value
        self._values[id(place)] = place
        return place

    def at(self, tokens: TokenArray) -> T | None:
        """The value at the end of exactly these tokens."""
        place, num_common = self._descend(tokens)
        return place.value if num_common == len(tokens) == place.depth else None

    def deepest(self, tokens: TokenArray, limit: int) -> Place[T] | None:
        """The place with a value that has the most tokens of the beginning, `limit` at most."""
        found: Place[T] | None
        found, num_common = self._descend(tokens[:limit])
        while found is not None and (found.value is None or found.depth > num_common):
            found = found.parent
        return found

    def tokens_of(self, place: Place[T]) -> TokenArray:
        """The tokens from the root to a place."""
        edges = [place.edge]
        while place.parent is not None:
            place = place.parent
            edges.append(place.edge)
        return np.concatenate(edges[::-1])

    def num_shared(self, tokens: TokenArray) -> int:
        """How many tokens of the beginning are in the tree, values or not."""
        return self._descend(tokens)[1]

    def remove(self, place: Place[T]) -> None:
        """Forget the value at a place, and edges that lead to no value any more."""
        if self._values.pop(id(place), None) is None:
            raise ValueError("the place has no value")
        place.value = None
        while place.value is None and place.parent is not None and not place.children:
            parent = place.parent
            del parent.children[int(place.edge[0])]
            self.num_tokens -= len(place.edge)
            place = parent
        if place.value is None and place.parent is not None and len(place.children) == 1:
            self._join_with_child(place)

    def _descend(self, tokens: TokenArray) -> tuple[Place[T], int]:
        """The last place whose edge the tokens reach, and how many of them are on the way there."""
        place, done = self._root, 0
        while done == place.depth and done < len(tokens):
            child = place.children.get(int(tokens[done]))
            if child is None:
                break
            place = child
            done += num_common(child.edge, tokens[done : done + len(child.edge)])
        return place, done

    def _make_place(self, tokens: TokenArray) -> Place[T]:
        place, done = self._descend(tokens)
        if done < place.depth:
            place = self._split(place, done)
        if done < len(tokens):
            # A copy: the array of a long prompt must not live on for the sake of its end.
            child: Place[T] = Place(place, len(tokens), tokens[done:].copy())
            place.children[int(tokens[done])] = child
            self.num_tokens += len(child.edge)
            place = child
        return place

    def _split(self, place: Place[T], depth: int) -> Place[T]:
        """A new place inside of an edge."""
        parent = _parent_of(place)
        cut = depth - parent.depth
        middle: Place[T] = Place(parent, depth, place.edge[:cut].copy())
        parent.children[int(middle.edge[0])] = middle
        middle.children[int(place.edge[cut])] = place
        place.parent, place.edge = middle, place.edge[cut:].copy()
        return middle

    def _join_with_child(self, place: Place[T]) -> None:
        """Make the edges to and from a place without value one edge."""
        (child,) = place.children.values()
        parent = _parent_of(place)
        child.parent, child.edge = parent, np.concatenate([place.edge, child.edge])
        parent.children[int(child.edge[0])] = child


def _parent_of(place: Place[T]) -> Place[T]:
    if place.parent is None:
        raise ValueError("no edge leads to the root")
    return place.parent


def num_common(a: TokenArray, b: TokenArray) -> int:
    """How many tokens two sequences begin with in common."""
    count = min(len(a), len(b))
    differs = a[:count] != b[:count]
    return int(differs.argmax()) if differs.any() else count
