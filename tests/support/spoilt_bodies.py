"""Request bodies in which something is missing, or is something else than it should be."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator, Sequence
from typing import Any

Json = Any  # what `json` reads


def spoilt(chance: random.Random, body: Json, values: Sequence[Json]) -> Json:
    """The body with one to three entries taken out, or with one of the values in their place."""
    body = copy.deepcopy(body)
    for _ in range(chance.randint(1, 3)):
        container = chance.choice([place for place in _places(body) if place])
        keys = list(container) if isinstance(container, dict) else range(len(container))
        key = chance.choice(list(keys))
        if chance.random() < 0.2:
            del container[key]
        else:
            container[key] = copy.deepcopy(chance.choice(values))
    return body


def _places(value: Json) -> Iterator[Json]:
    """Every container in a value."""
    if isinstance(value, dict | list):
        yield value
        for inner in list(value.values()) if isinstance(value, dict) else value:
            yield from _places(inner)
