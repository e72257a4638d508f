"""Has the engine make a draft head from fetched tensors: a child process, so that numpy stays there.

    python -m engine mtp-import --tensors FOLDER/tensors.json --model MODEL.gguf --out HEAD.gguf --progress

Its standard output is one JSON object a line: `{"done": 12, "total": 33}` while it works.
"""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.core.catalog_file import PROGRAM_DIR
from installer.download.control import Control
from installer.download.progress import Phase
from installer.download.reporter import Reporter
from installer.errors import PreparationError

logger = logging.getLogger(__name__)

_MAX_REASON_CHARS = 600
_POLL_S = 0.2


@dataclass(frozen=True, slots=True)
class HeadBuild:
    """What is made of what.

    Attributes:
        tensor_list: `tensors.json`.
        model: the trunk, whose sizes the head takes over.
        out: the finished file.
        expert_format: block format of the experts.
    """

    tensor_list: Path
    model: Path
    out: Path
    expert_format: str


def build_draft_head(
    build: HeadBuild,
    control: Control,
    reporter: Reporter,
    command: Sequence[str] | None = None,
) -> None:
    """Make the file; it has its name only when it is complete.

    Raises:
        PreparationError: the engine could not; the message is its own.
        StoppedError: that was asked for.
    """
    arguments = [
        *(command or (sys.executable, "-m", "engine")),
        "mtp-import",
        "--tensors",
        str(build.tensor_list),
        "--model",
        str(build.model),
        "--out",
        str(build.out),
        "--experts",
        build.expert_format,
        "--progress",
    ]
    reporter.begin(Phase.PREPARING, build.out.name, 0)
    try:
        child = subprocess.Popen(
            arguments,
            cwd=PROGRAM_DIR,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
        )
    except OSError as error:
        raise _failed(build, str(error)) from error
    errors: list[str] = []
    with child:
        readers = [
            threading.Thread(target=_follow, args=(child, reporter), daemon=True),
            threading.Thread(target=_collect, args=(child, errors), daemon=True),
        ]
        for reader in readers:
            reader.start()
        try:
            while child.poll() is None:
                control.check_stopped()
                try:
                    child.wait(timeout=_POLL_S)
                except subprocess.TimeoutExpired:
                    continue
        except BaseException:
            child.kill()
            raise
        for reader in readers:
            reader.join()
    if child.returncode != 0 or not build.out.is_file():
        lines = [line for line in errors if line.strip()]
        raise _failed(build, lines[-1].strip() if lines else f"exit status {child.returncode}")


def _follow(child: subprocess.Popen[str], reporter: Reporter) -> None:
    for line in child.stdout or ():
        try:
            report = json.loads(line)
            reporter.built(int(report["done"]), int(report["total"]))
        except (ValueError, KeyError, TypeError):
            logger.debug("the engine said: %s", line.strip())


def _collect(child: subprocess.Popen[str], lines: list[str]) -> None:
    for line in child.stderr or ():
        logger.info("mtp-import: %s", line.rstrip())
        lines.append(line)


def _failed(build: HeadBuild, reason: str) -> PreparationError:
    reason = reason[:_MAX_REASON_CHARS]
    return PreparationError(
        f"The draft head {build.out.name} could not be made ({reason}). Try again, or go on without "
        "it: answers are the same, only slower.",
        code="draft_head_failed",
        params={"file": build.out.name, "reason": reason},
    )
