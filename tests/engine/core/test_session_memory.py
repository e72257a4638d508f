from __future__ import annotations

import pytest

from engine.core.session_memory import SessionMemory, session_memory

GIB = 1 << 30
STATE, PAGE = 118_000_000, 7_274_496  # of the large model
CONTEXT = 128  # pages


def test_the_default_is_two_fifths_of_what_is_free_and_8_gib_at_most() -> None:
    plenty = session_memory(None, 100 * GIB, STATE, PAGE, CONTEXT)
    assert plenty.pages == 4 * CONTEXT  # less than half of the budget
    assert plenty.state_bytes == 8 * GIB - plenty.pages * PAGE
    some = session_memory(None, 10 * GIB, STATE, PAGE, CONTEXT)
    total = some.state_bytes + some.pages * PAGE
    assert total == int(10 * GIB * 0.4)
    assert 0 <= total / 2 - some.pages * PAGE < PAGE


@pytest.mark.parametrize("free", [-20 * GIB, 0, GIB])
def test_two_conversations_stay_warm_however_short_memory_is(free: int) -> None:
    assert session_memory(None, free, STATE, PAGE, CONTEXT) == SessionMemory(4 * STATE, 0)


def test_a_budget_that_is_set_counts_and_nothing_is_nothing() -> None:
    assert session_memory(0, 100 * GIB, STATE, PAGE, CONTEXT) == SessionMemory(0, 0)
    assert session_memory(100, 100 * GIB, STATE, PAGE, CONTEXT) == SessionMemory(0, 0)
    small = session_memory(1000, -GIB, STATE, PAGE, CONTEXT)
    assert small.state_bytes + small.pages * PAGE == 1000 << 20
    assert small.state_bytes >= 4 * STATE


def test_a_small_model_gets_no_more_than_is_of_use() -> None:
    tiny = session_memory(None, 100 * GIB, 300_000, 300_000, CONTEXT)
    assert tiny == SessionMemory(512 * 300_000, 4 * CONTEXT)
