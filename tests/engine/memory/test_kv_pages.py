"""Pages: allocation, sharing, copying on write, and running out."""

from __future__ import annotations

import random

import pytest

from engine.core.errors import ResourceError
from engine.memory.kv_pages import PagePool, PageTable


def test_a_table_grows_to_the_pages_that_its_tokens_need():
    pool = PagePool(num_pages=4, page_tokens=10)
    table = PageTable(pool)
    assert table.make_writable(0, 0) == []
    assert table.pages == []
    assert table.make_writable(0, 10) == []
    assert len(table.pages) == 1
    table.make_writable(10, 31)
    assert len(table.pages) == 4
    assert pool.num_free == 0
    table.truncate(11)
    assert len(table.pages) == 2
    assert pool.num_free == 2


def test_a_page_is_copied_only_when_it_is_shared_and_written():
    pool = PagePool(num_pages=8, page_tokens=10)
    table = PageTable(pool)
    table.make_writable(0, 25)
    fork = table.fork(25)
    assert fork.pages == table.pages
    old = list(table.pages)
    copies = table.make_writable(25, 26)
    assert copies == [(old[2], table.pages[2])]
    assert table.pages[:2] == old[:2]
    assert fork.pages == old
    assert fork.make_writable(25, 26) == []  # it is the last holder
    assert fork.make_writable(5, 12) == [(old[0], fork.pages[0]), (old[1], fork.pages[1])]


def test_a_fork_of_a_beginning_holds_only_its_pages():
    pool = PagePool(num_pages=8, page_tokens=10)
    table = PageTable(pool)
    table.make_writable(0, 40)
    fork = table.fork(11)
    assert fork.pages == table.pages[:2]
    table.release()
    table.release()
    assert pool.num_free == 6
    fork.release()
    assert pool.num_free == 8


def test_running_out_changes_nothing_and_says_what_to_do():
    pool = PagePool(num_pages=3, page_tokens=10)
    table, other = PageTable(pool), PageTable(pool)
    table.make_writable(0, 20)
    fork = table.fork(20)
    before = list(table.pages)
    with pytest.raises(ResourceError, match="30 token places are in use") as caught:
        table.make_writable(15, 31)
    assert caught.value.code == "kv_cache_full"
    assert table.pages == fork.pages == before
    assert pool.num_free == 1
    other.make_writable(0, 10)


def test_a_page_that_nobody_holds_cannot_be_shared_or_given_back():
    pool = PagePool(num_pages=1, page_tokens=1)
    for action in (pool.share, pool.release):
        with pytest.raises(ValueError, match="page 0 is free"):
            action(0)
    with pytest.raises(ValueError, match="needs pages"):
        PagePool(num_pages=0, page_tokens=1)


def test_any_history_keeps_every_page_counted_once_for_each_holder():
    rng = random.Random(3)  # noqa: S311  a seeded row of numbers, no secret
    pool = PagePool(num_pages=20, page_tokens=4)
    tables = [PageTable(pool)]
    for _ in range(2000):
        table = rng.choice(tables)
        action = rng.randrange(4)
        length = rng.randrange(len(table.pages) * 4 + 1)
        if action == 0:
            try:
                table.make_writable(length, length + rng.randrange(12))
            except ResourceError:
                rng.choice(tables).release()
        elif action == 1:
            table.truncate(length)
        elif action == 2 and len(tables) < 6:
            tables.append(table.fork(length))
        elif len(tables) > 1:
            tables.remove(table)
            table.release()
        held = [page for t in tables for page in t.pages]
        assert pool.num_free == 20 - len(set(held))
        for page in set(held):
            assert pool.is_shared(page) == (held.count(page) > 1)


def test_an_empty_pool_asks_for_pages_before_it_refuses():
    pool = PagePool(3, 32)
    spare = [pool.allocate() for _ in range(3)]
    asked = []

    def give_back() -> bool:
        asked.append(len(spare))
        if not spare:
            return False
        pool.release(spare.pop())
        return True

    pool.give_back = give_back
    table = PageTable(pool)
    table.make_writable(0, 3 * 32)
    assert asked == [3, 2, 1]
    with pytest.raises(ResourceError):
        table.make_writable(3 * 32, 4 * 32)
    assert asked[-1] == 0
    assert len(table.pages) == 3


def test_giving_back_what_frees_nothing_is_followed_by_asking_again():
    pool = PagePool(1, 32)
    page = pool.allocate()
    pool.share(page)
    pool.give_back = lambda: pool.num_free == 0 and pool.release(page) is None
    assert pool.allocate() == page


def test_the_lowest_free_page_is_given_out_first():
    pool = PagePool(num_pages=4, page_tokens=10)
    pages = [pool.allocate() for _ in range(4)]
    assert pages == [0, 1, 2, 3]
    for page in (1, 3, 0):
        pool.release(page)
    assert [pool.allocate() for _ in range(3)] == [0, 1, 3]
