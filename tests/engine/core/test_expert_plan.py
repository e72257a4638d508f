"""How many experts memory holds."""

import pytest

from engine.core.config import ExpertMode, RunConfig
from engine.core.expert_plan import plan_experts

GIB = 1 << 30


def plan(experts, room, **settings):
    return plan_experts(RunConfig(**settings), experts * GIB, int(room * GIB))


def test_experts_that_fit_are_left_to_the_file_cache():
    fits = plan(40, 50)
    assert (fits.mode, fits.keep_bytes, fits.disk_bytes) == (ExpertMode.MAPPED, 0, 0)
    assert not fits.looks_ahead
    assert not fits.keeps_rest


def test_what_does_not_fit_is_read_from_the_disk_and_asked_for_early():
    short = plan(40, 30)
    assert (short.ram_bytes, short.disk_bytes) == (30 * GIB, 10 * GIB)
    assert short.looks_ahead
    assert short.keeps_rest
    assert not plan(40, 30, expert_look_ahead="off").looks_ahead
    assert plan(40, 50, expert_look_ahead="on").looks_ahead


def test_without_any_room_nothing_is_kept():
    none = plan(40, -1)
    assert (none.ram_bytes, none.disk_bytes) == (0, 40 * GIB)
    assert not none.keeps_rest


@pytest.mark.parametrize(
    ("settings", "keep"),
    [({}, 24), ({"expert_ram_mib": 10 * 1024}, 10), ({"expert_ram_mib": 100 * 1024}, 40)],
)
def test_a_budget_is_what_was_asked_for_or_most_of_the_room(settings, keep):
    assert plan(40, 30, expert_mode="budget", **settings).keep_bytes == keep * GIB


def test_resident_experts_are_kept_whatever_the_room_and_need_no_look_ahead():
    resident = plan(40, 30, expert_mode="resident", expert_look_ahead="on")
    assert (resident.keep_bytes, resident.disk_bytes) == (40 * GIB, 0)
    assert not resident.looks_ahead
