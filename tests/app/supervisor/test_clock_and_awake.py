"""The clock that tells of a sleep, and when the PC is kept from one."""

import contextlib

import pytest

from app.supervisor.awake import RESTS_FOR_S, WORKS_FOR_S, AwakeRule, Wakefulness
from app.supervisor.clock import ClockWatch
from app.supervisor.state import EngineState, Phase

READY, BUSY, STOPPED = (EngineState(phase) for phase in (Phase.READY, Phase.BUSY, Phase.STOPPED))


@pytest.mark.parametrize(
    ("wall_s", "running_s", "has_slept"),
    [
        (2, 2, False),
        (3600, 2, True),  # Linux: the other clock stood still
        (20, 2, False),  # the clock was set by some seconds
        (-3600, 2, False),  # it was set back
        (3600, 3600, True),  # Windows: both went on, and the wait took far too long
        (30, 30, False),  # a loaded machine
    ],
)
def test_a_sleep_is_seen_in_the_clocks(wall_s, running_s, has_slept):
    clock = ClockWatch()
    assert not clock.note(1000.0, 50.0, 2.0)
    assert clock.note(1000.0 + wall_s, 50.0 + running_s, 2.0) is has_slept
    assert not clock.note(1002.0 + wall_s, 52.0 + running_s, 2.0)


def test_the_pc_is_kept_awake_while_the_engine_works_and_a_little_longer():
    rule = AwakeRule()
    assert not rule.note(READY, 0)
    assert not rule.note(BUSY, 1)
    assert not rule.note(BUSY, WORKS_FOR_S)
    assert rule.note(BUSY, 1 + WORKS_FOR_S)
    assert rule.note(READY, 20)
    assert rule.note(BUSY, 40)  # an agent goes on
    assert rule.note(READY, 50)
    assert rule.note(READY, 49 + RESTS_FOR_S)
    assert not rule.note(READY, 50 + RESTS_FOR_S)


def test_a_short_answer_keeps_nothing_awake():
    rule = AwakeRule()
    rule.note(BUSY, 0)
    rule.note(READY, 5)
    assert not rule.note(BUSY, 20)
    assert not rule.note(BUSY, 20 + WORKS_FOR_S / 2)


def test_an_engine_that_has_ended_keeps_nothing_awake():
    rule = AwakeRule()
    rule.note(BUSY, 0)
    assert rule.note(BUSY, WORKS_FOR_S)
    assert not rule.note(STOPPED, WORKS_FOR_S + 1)


def test_one_lock_is_held_and_let_go():
    held = []

    class Recorded:
        @contextlib.contextmanager
        def hold(self, reason):
            held.append("on")
            yield
            held.append("off")

    awake = Wakefulness(Recorded())
    for at_s in range(0, 30, 5):
        awake.note(BUSY, at_s)
    awake.note(STOPPED, 31)
    assert held == ["on", "off"]
    awake.close()
    assert held == ["on", "off"]
