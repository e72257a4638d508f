"""`python -m engine.worker.card_check_child --index 0 [--pci 0000:01:00]`: checks one card; not for people.

A process of its own, so that a card or driver that hangs or crashes takes nothing else with it. Standard
output is one JSON object a line: `{"done": 3, "total": 100}` while it goes on, and one with `passed` at the
end. It ends when standard input does: nobody waits for it any more.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import sys
import threading
from collections.abc import Callable

from engine.core.ascii_folders import use_ascii_folders
from engine.core.errors import EngineError
from engine.core.settings import load_settings
from engine.worker.blas_threads import limit_blas_threads

_MOST_NAMES = 5


def main(arguments: list[str] | None = None) -> int:
    """Check; the last line says what it came to. 0 also when the card failed."""
    parser = argparse.ArgumentParser(prog="python -m engine.worker.card_check_child")
    parser.add_argument("--index", type=int, required=True)
    parser.add_argument("--pci", default="")
    parser.add_argument("--watch-input", action="store_true", help="end with standard input")
    options = parser.parse_args(arguments)
    limit_blas_threads()
    with contextlib.suppress(EngineError):  # unusable settings are said by whoever needs them
        use_ascii_folders(load_settings().data_dir / "cache")
    # On Windows a DLL of numpy's asks what standard input is, and would wait for ever behind a thread
    # that reads it.
    import numpy  # noqa: F401, PLC0415

    if options.watch_input:
        # Ctrl+C reaches the whole group: ended by it before the process that waits, this would count as a
        # check that failed.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        threading.Thread(target=_end_with_input, daemon=True).start()
    try:
        report = check(options.index, options.pci, _say_progress)
    except EngineError as error:
        report = {
            "passed": False,
            "code": error.code,
            "sentence": error.message,
            "params": error.params,
        }
    _say(report)
    return 0


def check(index: int, pci: str, on_step: Callable[[int, int], None]) -> dict[str, object]:
    """Both comparisons on one card.

    Args:
        index: its number in the order of the PCI bus.
        pci: its place there; empty when unknown.
        on_step: told how many of how many steps are done.

    Raises:
        EngineError: the card cannot be used.
    """
    from engine.device.select import found_cards, open_card  # noqa: PLC0415  # imports numpy
    from engine.ops.self_test_card import card_self_test  # noqa: PLC0415
    from engine.worker.card_model_check import card_model_check  # noqa: PLC0415

    same = [card.index for card in found_cards() if pci and card.info and card.info.pci == pci]
    number = same[0] if same else index
    # The operations are nearly all of it; the model's passes are its last tenth.
    checks = card_self_test(
        open_card(number), on_step=lambda done, total: on_step(90 * done // total, 100)
    )
    wrong = [check.name for check in checks if not check.ok]
    num_checks = len(checks)
    if not wrong:
        agrees = card_model_check(
            open_card(number), on_step=lambda done, total: on_step(90 + 10 * done // total, 100)
        )
        num_checks += 1
        if not agrees.ok:
            wrong = [f"the bundled model (KL {agrees.mean_kl:.2g})"]
    return {
        "passed": not wrong,
        "checks": num_checks,
        "wrong": len(wrong),
        "names": ", ".join(wrong[:_MOST_NAMES]),
    }


def _say_progress(done: int, total: int) -> None:
    _say({"done": done, "total": total})


def _say(content: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(content) + "\n")
    sys.stdout.flush()


def _end_with_input() -> None:
    while sys.stdin.buffer.read(1):
        pass
    os._exit(1)


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    os._exit(status)  # a driver's threads must not hold up the end
