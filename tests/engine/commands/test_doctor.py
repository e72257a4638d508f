from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from engine.commands import doctor
from engine.commands.doctor import Health, check_packages, required_packages

ROOT = Path(__file__).parents[3]


def test_everything_is_well_here_and_says_so_as_json() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "engine", "doctor", "--json"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
        timeout=120,
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
    assert doctor.run(doctor.argparse.Namespace(json=False)) == 1
    printed = capsys.readouterr().out
    assert "FAIL  of_a_broken_thing: unexpected RuntimeError (it fell over)" in printed
    assert "Python" in printed
