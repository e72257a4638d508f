from __future__ import annotations

from pathlib import Path

import pytest

from engine.core import machine
from engine.core.cgroup import MemoryLimit
from engine.core.machine import probe_machine


def test_this_machine_has_a_processor_and_memory() -> None:
    found = probe_machine()
    assert found.cpu_name
    assert 1 <= found.physical_cores <= found.logical_cores
    assert 0 < found.ram_available_bytes <= found.ram_total_bytes


def test_a_containers_limit_bounds_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "memory_limit", lambda: MemoryLimit(4000, 1000))
    found = probe_machine()
    assert (found.ram_total_bytes, found.ram_available_bytes) == (4000, 1000)


def test_missing_sources_are_no_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse() -> object:
        raise OSError("no such file")

    monkeypatch.setattr(machine.psutil, "swap_memory", refuse)
    monkeypatch.setattr(machine.Path, "read_text", lambda *_args, **_kwargs: refuse())
    found = probe_machine()
    assert found.swap_total_bytes == 0
    assert found.cpu_name
