from __future__ import annotations

import subprocess
from types import SimpleNamespace

import pytest

from engine.core import environment, programs
from engine.core.cgroup import MemoryLimit
from engine.core.environment import (
    cpu_name_by_cpuinfo,
    is_wsl,
    probe_environment,
    same_cpu_name,
)


def test_this_system_has_a_name() -> None:
    found = probe_environment()
    assert found.system in {"Linux", "Windows"}
    assert found.version
    assert found.swap_total_bytes >= 0


@pytest.mark.parametrize(
    ("release", "distribution", "expected"),
    [
        ("5.15.167.4-microsoft-standard-WSL2", "Ubuntu", True),
        ("4.4.0-19041-Microsoft", "", True),
        ("6.8.0-45-generic", "", False),
    ],
)
def test_linux_inside_windows_is_recognised(
    release: str, distribution: str, expected: bool
) -> None:
    assert is_wsl(release, distribution) is expected


@pytest.mark.parametrize(("limit", "expected"), [(None, False), (1 << 30, True), (1 << 50, False)])
def test_a_limit_counts_when_it_is_below_the_memory(
    limit: int | None, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = MemoryLimit(limit, limit) if limit is not None else None
    monkeypatch.setattr(environment, "memory_limit", lambda: found)
    assert probe_environment().has_memory_limit is expected


@pytest.mark.parametrize(
    ("battery", "expected"),
    [
        (None, (False, None)),
        (SimpleNamespace(power_plugged=False), (True, True)),
        (SimpleNamespace(power_plugged=True), (True, False)),
        (SimpleNamespace(power_plugged=None), (True, None)),
    ],
)
def test_a_battery_makes_a_laptop(
    battery: object, expected: tuple[bool, bool | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment.psutil, "sensors_battery", lambda: battery, raising=False)
    found = probe_environment()
    assert (found.is_laptop, found.on_battery) == expected


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("AMD Ryzen 5 7600 6-Core Processor", "AMD Ryzen 5 7600 6-Core Processor", True),
        ("Intel(R) Core(TM) i7-8700K CPU @ 3.70GHz", "Intel Core i7-8700K", True),
        ("AMD EPYC", "AMD EPYC 9654 96-Core Processor", True),
        ("AMD Ryzen 5 7600", "Intel Core i5-12400", False),
    ],
)
def test_two_names_of_one_processor_are_the_same(one: str, other: str, expected: bool) -> None:
    assert same_cpu_name(one, other) is expected


@pytest.mark.parametrize("printed", ["", "no JSON", "[]", '{"brand_raw": 3}', "{}"])
def test_a_package_that_finds_no_name_gives_none(
    printed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = SimpleNamespace(stdout=printed, returncode=0)
    monkeypatch.setattr(programs.subprocess, "run", lambda *_a, **_k: done)
    assert cpu_name_by_cpuinfo(1) == ""


def test_a_package_that_takes_too_long_gives_no_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def hang(*_arguments: object, **_options: object) -> object:
        raise subprocess.TimeoutExpired("cpuinfo", 1)

    monkeypatch.setattr(programs.subprocess, "run", hang)
    assert cpu_name_by_cpuinfo(1) == ""
