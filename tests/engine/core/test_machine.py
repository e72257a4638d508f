from __future__ import annotations

from pathlib import Path

import pytest

from engine.core import machine
from engine.core.machine import probe_machine


def test_this_machine_has_a_processor_and_memory() -> None:
    found = probe_machine()
    assert found.cpu_name
    assert 1 <= found.physical_cores <= found.logical_cores
    assert 0 < found.ram_available_bytes <= found.ram_total_bytes


@pytest.mark.parametrize(
    "names",
    [
        ("memory.max", "memory.current", "memory.stat", "inactive_file"),
        (
            "memory/memory.limit_in_bytes",
            "memory/memory.usage_in_bytes",
            "memory/memory.stat",
            "total_inactive_file",
        ),
    ],
)
def test_a_container_limit_counts_without_droppable_file_cache(
    tmp_path: Path, names: tuple[str, str, str, str]
) -> None:
    limit, used, stat, key = names
    (tmp_path / limit).parent.mkdir(exist_ok=True)
    (tmp_path / limit).write_text("4000\n")
    (tmp_path / used).write_text("1500\n")
    (tmp_path / stat).write_text(f"anon 7\n{key} 500\n")
    assert machine._container_memory(tmp_path) == (4000, 1000)


def test_no_limit_is_no_limit(tmp_path: Path) -> None:
    (tmp_path / "memory.max").write_text("max\n")
    assert machine._container_memory(tmp_path) == (None, 0)


def test_missing_sources_are_no_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse() -> object:
        raise OSError("no such file")

    monkeypatch.setattr(machine.psutil, "swap_memory", refuse)
    monkeypatch.setattr(machine.Path, "read_text", lambda *_args, **_kwargs: refuse())
    found = probe_machine()
    assert found.swap_total_bytes == 0
    assert found.cpu_name
