"""What commands that load a model themselves say while a graphics card is checked for the first time."""

from __future__ import annotations

import sys


def say_card_check(phase: str, done: int, total: int) -> None:
    """Progress of loading: one line on standard error when the check begins."""
    from engine.worker.card_gate import PHASE  # noqa: PLC0415  # `--help` must answer at once

    if phase == PHASE and done == total == 0:
        print(
            "Checking the graphics card, once; its kernels are compiled, which takes a minute or two ...",
            file=sys.stderr,
            flush=True,
        )
