"""What the engine says of a run config's model on this machine: where its parts live, its context.

Asked through `engine inspect --json`, because reading a large model's header takes a second of a
processor, which the window must not lack. Blocks: use it off the main thread.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from engine.core.catalog_file import PROGRAM_DIR
from engine.core.errors import EngineError, ResourceError

_TIMEOUT_S = 120.0


@dataclass(frozen=True, slots=True)
class ModelPart:
    """One part of the model.

    Attributes:
        name: as placement calls it, such as `Experts`.
        tier: `vram`, `ram`, `ram_mapped` or `disk`.
    """

    name: str
    tier: str
    num_bytes: int
    reason: str


@dataclass(frozen=True, slots=True)
class ModelReport:
    """The report.

    Attributes:
        context: tokens that prompt and answer may have together.
        trained_context: what the model was made for; 0 when unknown.
        parts: what lives where.
        bytes_per_token: weights that one token reads; 0 when unknown.
        needed_bytes: memory that all this takes.
    """

    context: int
    trained_context: int
    parts: tuple[ModelPart, ...]
    bytes_per_token: int
    needed_bytes: int

    def bytes_of(self, *names: str) -> int:
        """Bytes of some parts together."""
        return sum(part.num_bytes for part in self.parts if part.name in names)

    def bytes_in(self, *tiers: str) -> int:
        """Bytes in some tiers together."""
        return sum(part.num_bytes for part in self.parts if part.tier in tiers)


class NoReportError(EngineError):
    """The model cannot be described; the message is the engine's own sentence."""

    code = "no_model_report"


def engine_command(*arguments: str) -> list[str]:
    """How the engine's command line is started."""
    return [sys.executable, "-m", "engine", *arguments]


def run_engine(arguments: list[str], timeout_s: float = _TIMEOUT_S) -> tuple[int, str, str]:
    """Exit status, output and errors of a command of the engine.

    Raises:
        ResourceError: it cannot be started, or does not end in time.
    """
    try:
        done = subprocess.run(
            engine_command(*arguments),
            cwd=PROGRAM_DIR,
            env={**os.environ, "PYTHONUTF8": "1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            encoding="utf-8",
            errors="replace",
            timeout=timeout_s,
            check=False,
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ResourceError(
            f"The engine's command line does not answer ({error}). Run setup again.",
            code="child_not_started",
            params={"reason": str(error)},
        ) from error
    return done.returncode, done.stdout, done.stderr


def read_model_report(config_path: Path | None) -> ModelReport:
    """Ask.

    Raises:
        NoReportError: the config or its model cannot be used.
        ResourceError: the engine's command line does not answer.
    """
    chosen = ["--config", str(config_path)] if config_path is not None else []
    status, output, errors = run_engine(["inspect", *chosen, "--json"])
    if status != 0:
        lines = [line for line in errors.splitlines() if line.strip()]
        raise NoReportError(lines[-1] if lines else "The model cannot be described.")
    try:
        return parse_report(json.loads(output))
    except (ValueError, KeyError, TypeError) as error:
        raise NoReportError(
            "The engine describes its model in words of another version."
        ) from error


def parse_report(content: dict[str, object]) -> ModelReport:
    """The report in the engine's JSON.

    Raises:
        KeyError, TypeError: it is of another shape.
    """
    placement = content["placement"]
    if not isinstance(placement, dict):
        raise TypeError("placement")
    parts = tuple(
        ModelPart(str(part["name"]), str(part["tier"]), int(part["bytes"]), str(part["reason"]))
        for part in placement["parts"]
    )
    return ModelReport(
        context=int(placement["context"]),
        trained_context=_whole(content.get("context_length")),
        parts=parts,
        bytes_per_token=_whole(content.get("bytes_per_token")),
        needed_bytes=int(placement["needed_bytes"]),
    )


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 0
