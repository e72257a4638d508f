"""Caches that are given back, and memory that the system really gets."""

import os
from pathlib import Path

import numpy as np
import pytest

from engine.memory.give_back import GiveBack
from engine.memory.idle_pages import forget


def test_every_cache_gives_a_part_and_those_that_had_any_are_named(caplog):
    caches = GiveBack()
    caches.register("rows", lambda: 5)
    caches.register("conversations", lambda: 0)
    caches.register("rows", lambda: 7)
    assert caches.release() == {"rows": 7}
    assert "7 bytes of rows were given back" in caplog.text


@pytest.mark.skipif(os.name == "nt", reason="the resident set is read from /proc")
def test_forgotten_parts_are_no_longer_resident_and_the_others_keep_their_contents():
    def resident():
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * 4096

    array = np.ones((64, 1 << 20), np.uint8)
    before = resident()
    num_bytes = forget(array, [i for i in range(64) if i % 2])
    assert num_bytes >= 32 * ((1 << 20) - 8192)
    assert before - resident() > 30 << 20
    assert (array[::2] == 1).all()
    array[1::2] = 3  # it can be written to again
    assert (array[1::2] == 3).all()


def test_parts_smaller_than_a_page_are_left_alone():
    array = np.ones((8, 100), np.uint8)
    assert forget(array, range(8)) == 0
    assert (array == 1).all()
    assert forget(np.ones((4, 4))[:, ::2], [0]) == 0
