from __future__ import annotations

import struct
from pathlib import Path

import psutil
import pytest

from engine.core import topology
from engine.core.topology import (
    Core,
    default_threads,
    linux_cores,
    pinned_cpus,
    read_cores,
    windows_cores,
)


def cores(fast: int, slow: int = 0) -> list[Core]:
    return [Core((i,), is_slow=i >= fast) for i in range(fast + slow)]


@pytest.mark.parametrize(
    ("fast", "slow", "limit", "wanted"),
    [
        (8, 0, None, 8),
        (1, 0, None, 1),
        (8, 16, None, 16),  # more slow cores than fast ones: half of them
        (6, 8, None, 10),
        (8, 8, None, 16),  # not more: all
        (8, 4, None, 12),
        (0, 4, None, 4),  # held to slow cores: these are all there is
        (16, 0, 2.0, 2),  # a container's share
        (16, 0, 1.5, 2),
        (16, 0, 0.2, 1),
        (2, 0, 64.0, 2),
    ],
)
def test_the_default_number_of_threads(fast, slow, limit, wanted):
    assert default_threads(cores(fast, slow), limit) == wanted


def test_threads_are_pinned_to_fast_cores_first_and_never_two_to_a_core():
    mixed = [Core((4,), is_slow=True), Core((0, 1)), Core((2, 3))]
    assert pinned_cpus(mixed, 2) == [0, 2]
    assert pinned_cpus(mixed, 3) == [0, 2, 4]
    assert pinned_cpus(mixed, 4) == []


def fake_sysfs(folder: Path, siblings: dict[int, str], atom: str = "", **capacity: int) -> Path:
    for cpu, text in siblings.items():
        (folder / "cpu" / f"cpu{cpu}" / "topology").mkdir(parents=True)
        (folder / "cpu" / f"cpu{cpu}" / "topology" / "core_cpus_list").write_text(text + "\n")
        if f"cpu{cpu}" in capacity:
            path = folder / "cpu" / f"cpu{cpu}" / "cpu_capacity"
            path.write_text(f"{capacity[f'cpu{cpu}']}\n")
    (folder / "cpu" / "cpufreq").mkdir()  # not a processor
    if atom:
        (folder / "cpu_atom").mkdir()
        (folder / "cpu_atom" / "cpus").write_text(atom + "\n")
    return folder


def test_a_hybrid_processor_with_hyperthreads_is_read_from_sysfs(tmp_path):
    siblings = {0: "0-1", 1: "0-1", 2: "2,3", 3: "2,3", 4: "4", 5: "5"}
    found = linux_cores(fake_sysfs(tmp_path, siblings, atom="4-5"))
    assert found == [Core((0, 1)), Core((2, 3)), Core((4,), True), Core((5,), True)]


def test_slow_cores_are_known_by_their_capacity(tmp_path):
    system = fake_sysfs(tmp_path, {0: "0", 1: "1", 2: "2"}, cpu0=1024, cpu1=980, cpu2=500)
    assert [core.is_slow for core in linux_cores(system)] == [False, False, True]


def record(efficiency: int, *masks: int) -> bytes:
    groups = b"".join(struct.pack("<QH6x", mask, group) for group, mask in enumerate(masks))
    body = struct.pack("<BB20xH", 0, efficiency, len(masks)) + groups
    return struct.pack("<II", 0, 8 + len(body)) + body


def test_a_hybrid_processor_is_read_from_windows_records():
    found = windows_cores(record(1, 0b11) + record(1, 0b1100) + record(0, 0b10000))
    assert found == [Core((0, 1)), Core((2, 3)), Core((4,), True)]
    assert windows_cores(record(0, 0b1) + record(0, 0b10)) == [Core((0,)), Core((1,))]


def test_damaged_windows_records_are_refused():
    with pytest.raises(ValueError, match="size"):
        windows_cores(bytes(16))


def test_only_processors_that_this_process_may_use_count(monkeypatch):
    monkeypatch.setattr(topology, "_usable_cpus", lambda: {1, 4})
    monkeypatch.setattr(
        topology, "linux_cores", lambda _: [Core((0, 1)), Core((2, 3)), Core((4,), True)]
    )
    monkeypatch.setattr(topology, "_windows_cores", lambda: topology.linux_cores(Path()))
    assert read_cores() == [Core((1,)), Core((4,), True)]


def test_without_any_description_cores_are_counted(monkeypatch):
    monkeypatch.setattr(topology, "linux_cores", lambda _: [])
    monkeypatch.setattr(topology, "_windows_cores", list)
    monkeypatch.setattr(topology, "_usable_cpus", lambda: {3, 5})
    monkeypatch.setattr(psutil, "cpu_count", lambda logical: 4 if logical else 2)
    assert read_cores() == [Core((3,)), Core((5,))]


def test_this_machine_has_cores():
    assert all(core.cpus for core in read_cores())
    assert topology.default_threads_here() >= 1
