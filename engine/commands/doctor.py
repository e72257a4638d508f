"""`engine doctor [--json] [--without-card]`: what works on this machine, and what to do about what does not.

Each check is a line with a mark; a check that fails says the way out. Exit status 0 when the engine
can run (perhaps slowly), 1 when it cannot.
"""

from __future__ import annotations

import argparse
import enum
import importlib.metadata
import json
import platform
import re
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from engine.commands import Subparsers
from engine.core.config import OpsName
from engine.core.errors import EngineError
from engine.core.machine import probe_machine
from engine.core.operating_system import architecture, setup_command
from engine.core.processor import processor_notice
from engine.core.settings import load_settings
from engine.core.sizes import size_in_words

ROOT = Path(__file__).resolve().parents[2]
BUNDLED_MODEL = ROOT / "assets" / "models" / "stratum-tiny.gguf"
REQUIREMENTS = ROOT / "requirements" / "base.in"
SETUP = setup_command()


class Health(enum.StrEnum):
    """Outcome of a check."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report."""

    subject: str
    health: Health
    detail: str


def add_parser(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    parser = subparsers.add_parser("doctor", help="what works on this machine, and what does not")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.add_argument(
        "--without-card",
        action="store_true",
        help="leave the graphics card out, whose check may take minutes",
    )


def run(arguments: argparse.Namespace) -> int:
    """Run all checks and print them."""
    checks = [check for check in CHECKS if check is not check_card or not arguments.without_card]
    findings = [finding for check in checks for finding in _guarded(check)]
    failed = any(finding.health is Health.FAILED for finding in findings)
    if arguments.json:
        report = {
            "ok": not failed,
            "checks": [
                {"subject": f.subject, "health": f.health.value, "detail": f.detail}
                for f in findings
            ],
        }
        print(json.dumps(report, ensure_ascii=False))
    else:
        marks = {Health.OK: "ok  ", Health.WARNING: "look", Health.FAILED: "FAIL"}
        for finding in findings:
            print(f"{marks[finding.health]}  {finding.subject}: {finding.detail}")
    return 1 if failed else 0


def _guarded(check: Callable[[], list[Finding]]) -> list[Finding]:
    """A check that breaks is a finding: the others still run."""
    try:
        return check()
    except EngineError as error:
        return [Finding(check.__name__.removeprefix("check_"), Health.FAILED, str(error))]
    except Exception as error:  # noqa: BLE001  # the doctor must report what is ill, not fall ill
        sentence = f"unexpected {type(error).__name__} ({error}). Run setup again."
        return [Finding(check.__name__.removeprefix("check_"), Health.FAILED, sentence)]


def check_python() -> list[Finding]:
    """The Python that runs this."""
    version = platform.python_version()
    if not (3, 11) <= sys.version_info[:2] < (3, 14):
        detail = f"{version}, but Stratum is made for 3.11 to 3.13. Run setup again."
        return [Finding("Python", Health.WARNING, detail)]
    return [Finding("Python", Health.OK, f"{version} ({architecture()})")]


def check_packages() -> list[Finding]:
    """The pinned packages that every machine needs, by their names in requirements/base.in."""
    missing = [name for name in required_packages(REQUIREMENTS) if not _is_installed(name)]
    if missing:
        detail = f"{', '.join(missing)} not installed. Run {SETUP} again."
        return [Finding("Packages", Health.FAILED, detail)]
    return [Finding("Packages", Health.OK, "all installed")]


def required_packages(path: Path) -> list[str]:
    """Names in a requirements file, without versions, comments and other files."""
    lines = path.read_text(encoding="utf-8").splitlines()
    names = (re.match(r"[A-Za-z0-9._-]+", line) for line in lines if not line.startswith("-"))
    return [name.group() for name in names if name is not None]


def _is_installed(name: str) -> bool:
    try:
        importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def check_machine() -> list[Finding]:
    """Processor and memory."""
    machine = probe_machine()
    gib = 1 << 30
    notice = processor_notice(OpsName.AUTO)
    words = f"{machine.cpu_name}, {machine.physical_cores} cores ({machine.logical_cores} threads)"
    return [
        Finding(
            "Processor",
            Health.WARNING if notice else Health.OK,
            f"{words}. {notice}" if notice else words,
        ),
        Finding(
            "Memory",
            Health.OK if machine.ram_available_bytes > gib else Health.WARNING,
            f"{size_in_words(machine.ram_available_bytes)} free of "
            f"{size_in_words(machine.ram_total_bytes)}"
            + ("" if machine.ram_available_bytes > gib else ". Close other programs."),
        ),
    ]


def check_operations() -> list[Finding]:
    """The CPU kernels, each operation against its plain twin on this very processor."""
    from engine.kernels.library import load_library  # noqa: PLC0415  # may fail: that is a finding

    try:
        load_library()
    except EngineError as error:
        return [
            Finding(
                "CPU kernels", Health.WARNING, f"{error} Until then the slow reference is used."
            )
        ]
    from engine.ops.self_test import self_test  # noqa: PLC0415

    begin = time.perf_counter()
    checks = self_test()
    wrong = [check for check in checks if not check.ok]
    isas = ", ".join(sorted({check.isa for check in checks}))
    if not wrong:
        took = time.perf_counter() - begin
        detail = f"{len(checks)} checks on {isas} agree with the reference ({took:.1f} s)"
        return [Finding("CPU kernels", Health.OK, detail)]
    names = ", ".join(f"{check.name} ({check.isa})" for check in wrong[:5])
    detail = (
        f"{len(wrong)} of {len(checks)} checks disagree with the reference: {names}. "
        "Start with --ops reference and report this."
    )
    return [Finding("CPU kernels", Health.FAILED, detail)]


def check_card() -> list[Finding]:
    """Each NVIDIA card, checked as before its first use, whatever was found earlier; none is no line."""
    from engine.core.gpu import probe_gpus  # noqa: PLC0415  # start quickly
    from engine.worker.card_gate import check_and_keep, missing_packages  # noqa: PLC0415

    report = probe_gpus()
    data_dir = load_settings().data_dir
    findings = []
    for card in report.cards:
        sentence = missing_packages(card, report.driver)
        if not sentence:
            print(
                f"Checking {card.name}; the first time kernels are compiled, which takes a minute or two ...",
                file=sys.stderr,
                flush=True,
            )
            record = check_and_keep(card, report.driver, data_dir)
            sentence = record.sentence
            if record.is_passed:
                detail = (
                    f"{card.name}: {record.num_checks} checks agree with the reference "
                    f"({record.seconds:.1f} s); it is used"
                )
                findings.append(Finding("Graphics card", Health.OK, detail))
                continue
        # The processor computes everything then: slower, but it works.
        findings.append(Finding("Graphics card", Health.WARNING, sentence))
    return findings


def check_bundled_model() -> list[Finding]:
    """The bundled model's file."""
    from engine.core.gguf_header import read_model_header  # noqa: PLC0415  # start quickly

    header = read_model_header(BUNDLED_MODEL)
    size = sum(info.num_bytes for _shard, info in header.tensors.values())
    return [
        Finding("Bundled model", Health.OK, f"{len(header.tensors)} tensors, {size / 1e6:.1f} MB")
    ]


def check_settings() -> list[Finding]:
    """Settings and data folder."""
    settings = load_settings()
    return [Finding("Data folder", Health.OK, str(settings.data_dir))]


CHECKS: tuple[Callable[[], list[Finding]], ...] = (
    check_python,
    check_packages,
    check_machine,
    check_operations,
    check_card,
    check_bundled_model,
    check_settings,
)
