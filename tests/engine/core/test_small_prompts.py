"""Short prompts on the processor or over the bus: estimates that must move the right way."""

from __future__ import annotations

import itertools

import pytest

from engine.core.small_prompts import rows_for_cpu

Q2_0 = (512, 10, 1_383_464, 3 * 2560 * 640)


@pytest.mark.parametrize(
    ("cores", "bus", "rows"),
    [
        (6, 31.5e9, 128),  # the reference machine
        (8, 63e9, 16),  # generation 5: the bus is as fast as the memory
        (2, 31.5e9, 16),
        (4, 7.9e9, 128),  # four lanes
    ],
)
def test_the_processor_gets_short_prompts_where_the_bus_is_slower(
    cores: int, bus: float, rows: int
) -> None:
    assert rows_for_cpu(*Q2_0, cores=cores, bus_bytes_per_s=bus) == rows


def test_more_cores_never_mean_fewer_rows_and_a_faster_bus_never_more() -> None:
    by_cores = [rows_for_cpu(*Q2_0, cores=cores, bus_bytes_per_s=16e9) for cores in range(1, 33)]
    assert all(a <= b for a, b in itertools.pairwise(by_cores))
    by_bus = [rows_for_cpu(*Q2_0, cores=6, bus_bytes_per_s=gb * 1e9) for gb in range(1, 130)]
    assert all(a >= b for a, b in itertools.pairwise(by_bus))
    assert by_bus[-1] == 16
