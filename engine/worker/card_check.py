"""The check of a graphics card before it is used: on this very PC, in a process of its own.

    record = check_card(card, report.driver)       # blocks, some seconds to minutes
    record.is_passed, record.sentence

Kernels are compiled for the card, every operation is compared with the reference and a few tokens of
the bundled model with the CPU's (`card_check_child.py`). A check that says nothing for `silence_s`, or
is not done after `total_s`, is ended and counts as failed, like one that crashes.
"""

from __future__ import annotations

import collections
import contextlib
import datetime
import json
import logging
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import IO

from engine.core.card_record import (
    CARD_CHECK_ENDED,
    CARD_CHECK_KILLED,
    CARD_HANGS,
    CARD_WRONG,
    CardRecord,
    record_key,
)
from engine.core.catalog_file import PROGRAM_DIR
from engine.core.errors import EngineError, ParameterValue
from engine.core.gpu import Gpu
from engine.worker.death import exit_reason, is_from_outside

logger = logging.getLogger(__name__)

StepProgress = Callable[[int, int], None]  # (steps done, steps in all)

_LAST_LINES = 20
_END_S = 5.0
_MOST_LINE_CHARS = 4000


@dataclass(frozen=True, slots=True)
class TimeLimits:
    """How long a check may take.

    Attributes:
        silence_s: without a sign of life. Its longest step, compiling a few sources side by side,
            takes 25 s on two busy cores.
        total_s: in all; two busy cores take 2 minutes for compiling everything.
    """

    silence_s: float = 120.0
    total_s: float = 900.0


class CardFailed(EngineError):  # noqa: N818  # a result more than a mistake
    """The card did not pass; the sentence says what failed and the way out."""

    code = CARD_WRONG


def check_card(
    card: Gpu,
    driver: str,
    on_step: StepProgress | None = None,
    *,
    limits: TimeLimits | None = None,
    command: Sequence[str] | None = None,
) -> CardRecord:
    """Check one card; what it came to, whatever happens.

    Args:
        card: which one.
        driver: version of its driver, for the record.
        on_step: told how many of how many steps are done.
        limits: of time.
        command: the process that checks; None: `card_check_child.py` for this card.
    """
    begin = time.monotonic()
    logger.info("checking the graphics card %s, once", card.name)
    num_checks = 0
    error: EngineError | None = None
    try:
        report = _run(command or child_command(card), card, on_step, limits or TimeLimits())
        num_checks = _count(report, "checks")
        if report.get("passed") is not True:
            error = _failure(card, report)
    except EngineError as failed:
        error = failed
    seconds = time.monotonic() - begin
    if error is None:
        logger.info("%s passed its check in %.1f s", card.name, seconds)
    else:
        logger.info("%s", error)  # whoever asked says it louder, in its own way
    return CardRecord(
        key=record_key(card, driver),
        card=card.name,
        is_passed=error is None,
        code="" if error is None else error.code,
        sentence="" if error is None else error.message,
        params={} if error is None else error.params,
        num_checks=num_checks,
        seconds=round(seconds, 1),
        checked_at=datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
    )


def child_command(card: Gpu) -> list[str]:
    """The command of the process that checks a card."""
    module = "engine.worker.card_check_child"
    place = ["--pci", card.pci] if card.pci else []
    return [sys.executable, "-m", module, "--watch-input", "--index", str(card.index), *place]


def _failure(card: Gpu, report: Mapping[str, object]) -> CardFailed:
    """What the child's last line says, in a sentence."""
    sentence = report.get("sentence")
    if isinstance(sentence, str):
        params = report.get("params")
        return CardFailed(
            f"{card.name} is not used: {sentence}",
            code=str(report.get("code", CardFailed.code)),
            params={**_plain(params), "card": card.name, "reason": sentence},
        )
    wrong, checks, names = _count(report, "wrong"), _count(report, "checks"), report.get("names")
    return CardFailed(
        f"{card.name} is not used: {wrong} of {checks} checks on it gave other results than the reference "
        f"({names}); install the newest driver, then run `engine doctor`, and report it if it stays.",
        params={"card": card.name, "wrong": wrong, "checks": checks, "names": str(names)},
    )


def _run(
    command: Sequence[str], card: Gpu, on_step: StepProgress | None, limits: TimeLimits
) -> Mapping[str, object]:
    """The child's last word.

    Raises:
        CardFailed: it could not be started, ended without a word, or took too long.
    """
    try:
        child = subprocess.Popen(
            command,
            cwd=PROGRAM_DIR,
            env=_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
        )
    except OSError as error:
        reason = f"its check could not be started ({error.strerror or error})"
        raise _ended(card, reason) from error
    lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    said: collections.deque[str] = collections.deque(maxlen=_LAST_LINES)
    readers = _readers(child, lines, said)
    try:
        return _listen(child, card, on_step, limits, lines)
    except EngineError:
        if said:
            logger.warning("the check of %s said last:\n%s", card.name, "\n".join(said))
        raise
    finally:
        _end(child)
        for reader in readers:
            reader.join(_END_S)


def _readers(
    child: subprocess.Popen[bytes],
    lines: queue.SimpleQueue[str | None],
    said: collections.deque[str],
) -> list[threading.Thread]:
    """Threads that read what the child says, as far as it goes, and end with it."""
    if child.stdout is None or child.stderr is None:
        raise RuntimeError("the child was started with pipes")
    # Daemons: a process that hangs in a driver cannot always be killed, and its pipes stay open.
    readers = [
        threading.Thread(target=_forward, args=(child.stdout, lines.put), daemon=True),
        threading.Thread(target=_forward, args=(child.stderr, said.append, False), daemon=True),
    ]
    for reader in readers:
        reader.start()
    return readers


def _listen(
    child: subprocess.Popen[bytes],
    card: Gpu,
    on_step: StepProgress | None,
    limits: TimeLimits,
    lines: queue.SimpleQueue[str | None],
) -> Mapping[str, object]:
    end_at = time.monotonic() + limits.total_s
    while True:
        patience_s = min(limits.silence_s, end_at - time.monotonic())
        try:
            line = lines.get(timeout=max(patience_s, 0.0))
        except queue.Empty:
            seconds = limits.silence_s if patience_s == limits.silence_s else limits.total_s
            raise _hangs(card, seconds) from None
        if line is None:
            break
        report = _object(line)
        if "passed" in report:
            return report
        if on_step is not None and report:
            on_step(_count(report, "done"), _count(report, "total"))
    try:
        status = child.wait(limits.silence_s)
    except subprocess.TimeoutExpired:
        raise _hangs(card, limits.silence_s) from None
    raise (
        _killed(card, status)
        if is_from_outside(status)
        else _ended(card, f"its check {exit_reason(status)}")
    )


def _forward(
    stream: IO[bytes], take: Callable[[str | None], object], tells_end: bool = True
) -> None:
    """Hand on each line of a stream, and None at its end."""
    with contextlib.suppress(OSError, ValueError), stream:
        for line in stream:
            take(line.decode(errors="replace").rstrip()[:_MOST_LINE_CHARS])
    if tells_end:
        take(None)


def _end(child: subprocess.Popen[bytes]) -> None:
    """End it if it still runs; one that the system cannot end is left behind."""
    with contextlib.suppress(OSError):
        if child.stdin is not None:
            child.stdin.close()
    if child.poll() is None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(0.5)  # it was about to end by itself
            return
        child.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(_END_S)


def _hangs(card: Gpu, seconds: float) -> CardFailed:
    return CardFailed(
        f"{card.name} is not used: its check got no answer for {seconds:.0f} seconds; restart the PC, install "
        "the newest driver, then run `engine doctor`.",
        code=CARD_HANGS,
        params={"card": card.name, "seconds": round(seconds)},
    )


def _ended(card: Gpu, reason: str) -> CardFailed:
    return CardFailed(
        f"{card.name} is not used: {reason}; install the newest driver, then run `engine doctor`.",
        code=CARD_CHECK_ENDED,
        params={"card": card.name, "reason": reason},
    )


def _killed(card: Gpu, status: int) -> CardFailed:
    reason = f"its check {exit_reason(status)}"
    return CardFailed(
        f"{card.name} is not used: {reason}; close other programs, and the next start checks it again.",
        code=CARD_CHECK_KILLED,
        params={"card": card.name, "reason": reason},
    )


def _object(line: str) -> Mapping[str, object]:
    try:
        content = json.loads(line)
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}


def _count(report: Mapping[str, object], name: str) -> int:
    value = report.get(name)
    return value if isinstance(value, int) and value >= 0 else 0


def _plain(params: object) -> dict[str, ParameterValue]:
    if not isinstance(params, dict):
        return {}
    return {
        str(key): value
        for key, value in params.items()
        if value is None or isinstance(value, str | int | float | bool)
    }


def _environment() -> dict[str, str]:
    """Ours, with this package importable, and text in UTF-8."""
    path = os.environ.get("PYTHONPATH")
    return {
        **os.environ,
        "PYTHONPATH": str(PROGRAM_DIR) + (os.pathsep + path if path else ""),
        "PYTHONUTF8": "1",
        "PYTHONFAULTHANDLER": "1",
    }
