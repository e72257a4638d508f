"""The time line of a decode window: the published machine's windows, and how rates and sizes move it."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys

import pytest

from engine.core.timeline import (
    Rates,
    WindowLoad,
    hit_rate,
    link_bytes_per_s,
    window_time,
)

LOAD = WindowLoad(48, 10, 1_383_464, 2_924_569_600, 0.135)
RATES = Rates(card=672e9, bus=31.5e9, memory=62e9, experts=78e9)


@pytest.fixture(scope="module")
def printed() -> list[dict[str, float]]:
    done = subprocess.run(
        [sys.executable, "-m", "bench.timeline", "--json"], capture_output=True, check=True
    )
    rows: list[dict[str, float]] = json.loads(done.stdout)["rows"]
    return rows


def test_the_reference_machine_is_met_within_15_percent(printed: list[dict[str, float]]) -> None:
    assert len(printed) == 4
    for row in printed:
        assert row["tokens_per_s"] == pytest.approx(row["published"], rel=0.15)


def test_the_published_parts_of_a_window_are_met(printed: list[dict[str, float]]) -> None:
    """Published: 34.3 ms, of which 14.6 wait for the card, 13.4 for the processor, 6.3 the rest."""
    q2 = printed[0]
    assert q2["window_ms"] == pytest.approx(34.3, rel=0.15)
    assert q2["card_ms"] == pytest.approx(14.6, rel=0.05)
    assert q2["experts_ms"] == pytest.approx(13.4, rel=0.25)


@pytest.mark.parametrize("name", ["card", "bus", "memory", "experts"])
def test_a_slower_part_never_makes_a_window_faster(name: str) -> None:
    slower = dataclasses.replace(RATES, **{name: getattr(RATES, name) / 3})
    assert window_time(LOAD, slower).window_s >= window_time(LOAD, RATES).window_s
    assert window_time(LOAD, slower).tokens_per_s <= window_time(LOAD, RATES).tokens_per_s


def test_bus_and_processor_together_cannot_read_more_than_the_memory_gives() -> None:
    fast = dataclasses.replace(RATES, experts=1e12, bus=1e12)
    wanted = (1 - hit_rate(0.135)) * 48 * 10 * LOAD.rows**0.75 * LOAD.expert_bytes
    assert window_time(LOAD, fast).missing_s == pytest.approx(wanted / 62e9)


def test_with_all_experts_on_the_card_nothing_is_missing() -> None:
    held = window_time(dataclasses.replace(LOAD, cached_share=1.0), RATES)
    assert held.missing_s == 0
    assert held.hit_rate == 1
    assert held.experts_s > 0  # the card has to read them


def test_an_empty_cache_leaves_every_expert_to_the_processor() -> None:
    assert hit_rate(0) == 0
    empty = window_time(dataclasses.replace(LOAD, cached_share=0.0), RATES)
    assert empty.missing_s == empty.experts_s > window_time(LOAD, RATES).experts_s


def test_more_rows_want_more_experts_but_not_as_many_times_more() -> None:
    one = window_time(dataclasses.replace(LOAD, rows=1), RATES).experts_s
    four = window_time(dataclasses.replace(LOAD, rows=4), RATES).experts_s
    assert one < four < 4 * one


def test_links_by_generation_and_lanes() -> None:
    assert link_bytes_per_s(4, 16) == pytest.approx(31.5e9, rel=0.01)
    assert link_bytes_per_s(3, 8) == pytest.approx(7.88e9, rel=0.01)
    assert link_bytes_per_s(None, None) == link_bytes_per_s(3, 16)
    assert link_bytes_per_s(9, 16) >= link_bytes_per_s(6, 16)


@pytest.mark.parametrize("name", ["card", "bus", "memory", "experts"])
def test_a_rate_of_nothing_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="positive"):
        window_time(LOAD, dataclasses.replace(RATES, **{name: 0.0}))


def test_an_unknown_model_is_named() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bench.timeline", "--model", "nothing"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "'nothing'" in done.stderr
