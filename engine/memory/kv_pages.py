"""Pages of the key/value caches: who holds which, shared by reference count, copied on write.

Knows page numbers only; what lies in a page (keys, values, index keys of every layer) belongs to the
pools, and copying it is the caller's part: `PageTable.make_writable` says which pages to copy.
A page is shared when a checkpoint and a sequence, or two sequences, hold the same beginning. Low numbers
are given out first: on a card, high ones may lie farther away.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable

from engine.core.errors import ResourceError


class PagePool:
    """Reference counts of a fixed number of pages.

    Attributes:
        give_back: called when no page is free; lets go of what can be missed, and says whether it
            did. It must not take pages itself.
    """

    def __init__(self, num_pages: int, page_tokens: int) -> None:
        if num_pages < 1 or page_tokens < 1:
            raise ValueError("a pool needs pages, and pages need tokens")
        self.page_tokens = page_tokens
        self.give_back: Callable[[], bool] | None = None
        self._references = [0] * num_pages
        self._free = list(range(num_pages))  # a heap

    @property
    def num_pages(self) -> int:
        """All pages."""
        return len(self._references)

    @property
    def num_free(self) -> int:
        """Pages that nobody holds."""
        return len(self._free)

    @property
    def free_pages(self) -> tuple[int, ...]:
        """These."""
        return tuple(self._free)

    def allocate(self) -> int:
        """The free page of the lowest number, held once.

        Raises:
            ResourceError: all pages are held.
        """
        while not self._free and self.give_back is not None and self.give_back():
            pass
        if not self._free:
            tokens = self.num_pages * self.page_tokens
            raise ResourceError(
                f"The key/value cache is full: its {tokens} token places are in use by running "
                "requests. Shorten the conversation, or start with a larger context.",
                code="kv_cache_full",
                params={"tokens": tokens},
            )
        page = heapq.heappop(self._free)
        self._references[page] = 1
        return page

    def share(self, page: int) -> None:
        """Hold a page once more."""
        if self._references[page] < 1:
            raise ValueError(f"page {page} is free")
        self._references[page] += 1

    def release(self, page: int) -> None:
        """Hold a page once less; the last one frees it."""
        if self._references[page] < 1:
            raise ValueError(f"page {page} is free")
        self._references[page] -= 1
        if self._references[page] == 0:
            heapq.heappush(self._free, page)

    def is_shared(self, page: int) -> bool:
        """Whether writing to the page would be seen by another holder."""
        return self._references[page] > 1


class PageTable:
    """The pages of one sequence or checkpoint, in the order of its positions."""

    def __init__(self, pool: PagePool) -> None:
        self._pool = pool
        self.pages: list[int] = []

    @property
    def page_tokens(self) -> int:
        """Positions of a page."""
        return self._pool.page_tokens

    def make_writable(self, first: int, stop: int) -> list[tuple[int, int]]:
        """Provide unshared pages for positions first..stop-1, and pages up to there.

        Returns:
            (from, to) for each shared page that was replaced; the caller copies its content before
            writing.

        Raises:
            ResourceError: not enough free pages; then nothing has changed.
        """
        size = self._pool.page_tokens
        num_needed = -(-stop // size)
        if first >= stop:
            return []
        place = first // size
        if place + 1 == num_needed <= len(self.pages) and not self._pool.is_shared(
            self.pages[place]
        ):
            return []  # a decode step nearly always
        start = min(first // size, len(self.pages))
        shared = [
            i
            for i in range(start, min(num_needed, len(self.pages)))
            if self._pool.is_shared(self.pages[i])
        ]
        fresh: list[int] = []
        try:
            for _ in range(len(shared) + max(0, num_needed - len(self.pages))):
                fresh.append(self._pool.allocate())  # noqa: PERF401  # undone page by page below
        except ResourceError:
            for page in fresh:
                self._pool.release(page)
            raise
        copies: list[tuple[int, int]] = []
        for i in shared:
            page = fresh.pop()
            copies.append((self.pages[i], page))
            self._pool.release(self.pages[i])
            self.pages[i] = page
        self.pages.extend(fresh)
        return copies

    def truncate(self, num_tokens: int) -> None:
        """Give back the pages behind the first `num_tokens` positions."""
        num_kept = -(-num_tokens // self._pool.page_tokens)
        while len(self.pages) > num_kept:
            self._pool.release(self.pages.pop())

    def fork(self, num_tokens: int) -> PageTable:
        """A table that shares the pages of the first `num_tokens` positions."""
        other = PageTable(self._pool)
        other.pages = self.pages[: -(-num_tokens // self._pool.page_tokens)]
        for page in other.pages:
            self._pool.share(page)
        return other

    def release(self) -> None:
        """Give back everything; idempotent."""
        self.truncate(0)
