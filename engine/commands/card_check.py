"""`engine card-check [--again] [--json]`: check the graphics cards that were not checked on this PC yet.

The same check as before a card's first use; cards that passed it and failed later, while they computed,
are checked again, too. With `--json` standard output holds one JSON object at the end, and standard error
one JSON object a line while it works, as `engine calibrate` has it. Exit status 0 also when a card failed:
the processor computes then.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from engine.commands import Subparsers
from engine.core.card_record import find_record, has_card_packages
from engine.core.errors import ParameterValue
from engine.core.gpu import Gpu, GpuReport, probe_gpus
from engine.core.note import Note, as_plain
from engine.core.placement_hybrid import gpu_problems
from engine.core.settings import load_settings


def add_parser(subparsers: Subparsers[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "card-check", help="check the graphics cards that were not checked on this PC yet"
    )
    parser.add_argument("--again", action="store_true", help="those that were checked, too")
    parser.add_argument("--json", action="store_true", help="one JSON object")


def run(arguments: argparse.Namespace) -> int:
    """Check and say what it came to; 0.

    Raises:
        EngineError: the settings cannot be read.
    """
    report = probe_gpus()
    data_dir = load_settings().data_dir
    results = [
        _check(card, report, data_dir, is_again=arguments.again, as_json=arguments.json)
        for card in report.cards
    ]
    if arguments.json:
        print(json.dumps({"cards": results}, ensure_ascii=False))
    else:
        for result in results or [{"sentence": "There is no NVIDIA card whose driver answers."}]:
            print(result["sentence"])
    return 0


def _check(
    card: Gpu, report: GpuReport, data_dir: Path, *, is_again: bool, as_json: bool
) -> dict[str, object]:
    """What is known of a card, after a check if need be."""
    from engine.commands.inspect_cards import PROBLEMS  # noqa: PLC0415
    from engine.worker.card_gate import check_and_keep, missing_packages  # noqa: PLC0415

    problems = gpu_problems(card, report.driver_major, 0)
    if problems or not has_card_packages(report.driver):
        note = problems[0] if problems else Note("gpu_packages_missing", {"card": card.name})
        sentence = missing_packages(card, report.driver)
        if problems:
            sentence = f"{card.name} is not used: {PROBLEMS[problems[0].code]}."
        return _result(card, note, sentence)

    def tell(done: int, total: int) -> None:
        if as_json:
            line = {"done": done, "total": total, "name": card.name}
            sys.stderr.write(json.dumps(line) + "\n")
            sys.stderr.flush()

    record = None if is_again else find_record(data_dir, card, report.driver)
    if record is None or record.has_lost_pass:
        if not as_json:
            print(f"Checking {card.name} ...", file=sys.stderr, flush=True)
        record = check_and_keep(card, report.driver, data_dir, tell)
    if not record.is_passed:
        return _result(card, record.note, record.sentence)
    params: dict[str, ParameterValue] = {
        "card": card.name,
        "checks": record.num_checks,
        "seconds": record.seconds,
    }
    return _result(
        card,
        Note("card_passed", params),
        f"{card.name}: {record.num_checks} checks agree with the reference ({record.seconds:.1f} s); it is "
        "used.",
        is_passed=True,
    )


def _result(card: Gpu, note: Note, sentence: str, *, is_passed: bool = False) -> dict[str, object]:
    return {
        "index": card.index,
        "card": card.name,
        "passed": is_passed,
        "note": as_plain(note),
        "sentence": sentence,
    }
