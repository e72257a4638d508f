"""The survey of a whole PC: of this one, and with sources that hang, break or disagree."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.core import survey as survey_module
from engine.core.gpu import GpuReport
from engine.core.network_reach import Reach, ReachState
from engine.core.note import as_plain
from engine.core.other_cards import ListedCard, Maker
from engine.core.survey import compare, survey
from tests.support.pc_profiles import card, pc

CLOSED = ("http://127.0.0.1:9",)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out what takes time on a busy machine and is tested apart."""
    monkeypatch.setattr(survey_module, "measure_bandwidth", lambda *_arguments: 5e10)
    monkeypatch.setattr(survey_module, "speed_of", lambda *_arguments: None)
    monkeypatch.setattr(survey_module, "cpu_name_by_cpuinfo", lambda _timeout_s: "")


def test_this_pc_is_seen(tmp_path: Path) -> None:
    seen = survey(tmp_path / "new folder", timeout_s=90, endpoints=CLOSED)
    assert 0 < seen.took_s < 90
    assert seen.machine.ram_total_bytes > 0
    assert seen.fast_cores + seen.slow_cores >= 1
    assert seen.memory_bytes_per_s
    assert seen.data_drive is not None
    assert seen.reach[0].state is ReachState.REFUSED
    assert not (tmp_path / "new folder").exists()
    assert list(tmp_path.iterdir()) == []
    assert json.loads(json.dumps(as_plain(seen)))["machine"]["cpu_name"]


@pytest.fixture
def release() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    ("function", "what"),
    [
        ("probe_gpus", "gpus"),
        ("list_cards", "other_cards"),
        ("drive_of", "data_drive"),
        ("ask", "network"),
        ("probe_cpu_features", "cpu_features"),
        ("measure_bandwidth", "bandwidth"),
        ("cpu_name_by_cpuinfo", "cpu_name"),
    ],
)
def test_a_source_that_hangs_costs_its_answer_alone(
    function: str,
    what: str,
    release: threading.Event,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(survey_module, function, lambda *_arguments: release.wait())
    seen = survey(tmp_path, timeout_s=1.5, endpoints=CLOSED)
    assert {"what": what} in [note.params for note in seen.notes if note.code == "probe_timed_out"]
    assert seen.machine.ram_total_bytes > 0


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    "function",
    [
        "probe_gpus",
        "list_cards",
        "drive_of",
        "list_drives",
        "ask",
        "probe_cpu_features",
        "read_cores",
        "measure_bandwidth",
        "speed_of",
        "cpu_name_by_cpuinfo",
    ],
)
def test_a_source_that_breaks_costs_its_answer_alone(
    function: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fail(*_arguments: object) -> object:
        raise RuntimeError("broken")

    monkeypatch.setattr(survey_module, function, fail)
    seen = survey(tmp_path, endpoints=CLOSED)
    assert "probe_failed" in {note.code for note in seen.notes}
    assert seen.machine.ram_total_bytes > 0


def test_sources_that_disagree_are_noted() -> None:
    machine = pc().machine
    nvidia = ListedCard(Maker.NVIDIA, "RTX 3060")
    reach = [Reach("https://hub", ReachState.REACHED, 0.1, clock_off_s=7200.0)]
    notes = compare(machine, GpuReport(), [nvidia], reach, "Another processor 9000")
    assert [note.code for note in notes] == [
        "cpu_name_sources_disagree",
        "nvidia_card_without_driver",
        "clock_is_off",
    ]
    assert notes[2].params == {"minutes": 120}


def test_sources_that_agree_are_not_noted() -> None:
    machine = pc().machine
    found = GpuReport((card("RTX 3060", 12),), "580.1", "nvml")
    reach = [Reach("https://hub", ReachState.REACHED, 0.1, clock_off_s=3.0)]
    nvidia = ListedCard(Maker.NVIDIA, "RTX 3060")
    assert compare(machine, found, [nvidia], reach, machine.cpu_name) == []
