from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from engine.commands import doctor
from engine.commands.doctor import Health, check_packages, required_packages
from engine.core.card_record import CardRecord, keep_record, record_key
from engine.core.gpu import Gpu, GpuReport
from engine.core.settings import load_settings

ROOT = Path(__file__).parents[3]


def test_everything_is_well_here_and_says_so_as_json() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "engine", "doctor", "--json"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
        timeout=300,
    )
    report = json.loads(done.stdout)
    assert done.returncode == 0, report
    assert report["ok"] is True
    subjects = {check["subject"]: check for check in report["checks"]}
    assert {"Python", "Packages", "Memory", "CPU kernels", "Bundled model"} <= set(subjects)
    assert "agree with the reference" in subjects["CPU kernels"]["detail"]


def test_the_names_of_packages_are_read_without_versions_and_options(tmp_path: Path) -> None:
    path = tmp_path / "base.in"
    path.write_text("# why\n-r other.in\nfastapi>=0.115\npy-cpuinfo\n\n")
    assert required_packages(path) == ["fastapi", "py-cpuinfo"]


def test_a_missing_package_fails_and_names_the_way_out(tmp_path: Path, monkeypatch) -> None:
    path = tmp_path / "base.in"
    path.write_text("numpy>=2\na-package-of-no-one>=1\n")
    monkeypatch.setattr(doctor, "REQUIREMENTS", path)
    (finding,) = check_packages()
    assert finding.health is Health.FAILED
    assert finding.detail == f"a-package-of-no-one not installed. Run {doctor.SETUP} again."


def test_a_check_that_breaks_is_a_finding_and_the_others_go_on(monkeypatch, capsys) -> None:
    def check_of_a_broken_thing() -> list[doctor.Finding]:
        raise RuntimeError("it fell over")

    monkeypatch.setattr(doctor, "CHECKS", (check_of_a_broken_thing, doctor.check_python))
    assert doctor.run(doctor.argparse.Namespace(json=False, without_card=False)) == 1
    printed = capsys.readouterr().out
    assert "FAIL  of_a_broken_thing: unexpected RuntimeError (it fell over)" in printed
    assert "Python" in printed


CARD = Gpu(0, "Some card", 12 << 30, 11 << 30)


@pytest.fixture
def one_card(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setenv("STRATUM_HOME", str(tmp_path))
    monkeypatch.setattr("engine.core.gpu.probe_gpus", lambda: GpuReport((CARD,), "580.1"))
    monkeypatch.setattr("engine.worker.card_gate.has_card_packages", lambda _driver: True)


def checked(monkeypatch, record: CardRecord) -> None:
    """The check comes to this; an older one had passed."""
    data_dir = load_settings().data_dir
    keep_record(data_dir, record.model_copy(update={"is_passed": True}))

    def check(card, driver, found_dir):
        assert (card, driver, found_dir) == (CARD, "580.1", data_dir)
        return record

    monkeypatch.setattr("engine.worker.card_gate.check_and_keep", check)


RECORD = CardRecord(
    key=record_key(CARD, "580.1"), card=CARD.name, is_passed=True, num_checks=61, seconds=9.5
)


@pytest.mark.usefixtures("one_card")
def test_a_card_that_passes_is_said_to_be_used(monkeypatch) -> None:
    checked(monkeypatch, RECORD)
    (finding,) = doctor.check_card()
    assert finding.health is Health.OK
    assert finding.detail == "Some card: 61 checks agree with the reference (9.5 s); it is used"


@pytest.mark.usefixtures("one_card")
def test_a_card_that_fails_now_is_told_whatever_was_known_and_the_engine_can_run(
    monkeypatch,
) -> None:
    failed = RECORD.model_copy(
        update={"is_passed": False, "sentence": "Some card is not used: no."}
    )
    checked(monkeypatch, failed)
    (finding,) = doctor.check_card()
    assert (finding.health, finding.detail) == (Health.WARNING, "Some card is not used: no.")


@pytest.mark.usefixtures("one_card")
def test_missing_packages_of_a_card_are_told_with_the_way_out(monkeypatch) -> None:
    monkeypatch.setattr("engine.worker.card_gate.has_card_packages", lambda _driver: False)
    (finding,) = doctor.check_card()
    assert finding.health is Health.WARNING
    assert "the packages for NVIDIA cards are not installed; run " in finding.detail


def test_the_doctor_is_silent_where_there_is_no_card(monkeypatch) -> None:
    monkeypatch.setattr("engine.core.gpu.probe_gpus", GpuReport)
    assert doctor.check_card() == []


def test_the_program_s_own_test_leaves_the_card_out(monkeypatch, capsys) -> None:
    monkeypatch.setattr(doctor, "check_card", lambda: pytest.fail("the card was checked"))
    monkeypatch.setattr(doctor, "CHECKS", (doctor.check_python, doctor.check_card))
    assert doctor.run(doctor.argparse.Namespace(json=True, without_card=True)) == 0
    assert "Python" in capsys.readouterr().out
