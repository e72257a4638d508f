"""Caches that can be missed, in one list: whoever holds one says how to let go of some of it.

    caches = GiveBack()
    caches.register("warm conversations", sessions.shrink)
    caches.release()                  # {"warm conversations": 41_943_040}

`release` asks each for a part, not for all: it is called again while memory stays low. It runs in the thread
that computes, between two layers or two passes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

logger = logging.getLogger(__name__)

Release = Callable[[], int]  # lets go of a part; how many bytes that was


class GiveBack:
    """The list, in the order of registration: what is missed least comes first."""

    def __init__(self) -> None:
        self._caches: dict[str, Release] = {}

    def register(self, name: str, release: Release) -> None:
        """Add a cache; one of the same name is replaced."""
        self._caches[name] = release

    def release(self) -> dict[str, int]:
        """Let every cache give back a part: bytes by name, of those that had any."""
        released: dict[str, int] = {}
        for name, release in self._caches.items():
            num_bytes = release()
            if num_bytes:
                released[name] = num_bytes
                logger.warning("memory is low: %d bytes of %s were given back", num_bytes, name)
        return released
