from __future__ import annotations

import pytest

from engine.core import bandwidth
from engine.core.bandwidth import measure_bandwidth


@pytest.mark.parametrize("num_threads", [1, 2, 5])
def test_this_machines_memory_has_a_speed(
    num_threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bandwidth, "BUFFER_BYTES", 64 << 20)
    found = measure_bandwidth(num_threads, 8 << 30, 0.2)
    assert found is not None
    assert 2e8 < found < 5e12


def test_without_the_librarys_search_a_copy_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bandwidth, "BUFFER_BYTES", 32 << 20)
    monkeypatch.setattr(bandwidth, "_search_function", lambda: None)
    assert measure_bandwidth(1, 8 << 30, 0.1)


def test_with_little_free_memory_nothing_is_measured() -> None:
    assert measure_bandwidth(2, 100 << 20) is None


def test_the_parts_of_the_threads_are_the_whole() -> None:
    for num_threads in (1, 2, 3, 7, 64):
        parts = bandwidth._split(4096, 1 << 20, num_threads)
        assert sum(size for _, size in parts) == 1 << 20
        assert len(parts) <= num_threads
        ends = [address + size for address, size in parts]
        assert [address for address, _ in parts] == [4096, *ends[:-1]]
