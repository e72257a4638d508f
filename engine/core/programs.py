"""Runs another program for what it prints, without a window and within a time."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

_NO_WINDOW = getattr(subprocess, "CREATE_NO_WINDOW", 0)


def output_of(command: Sequence[str], timeout_s: float) -> str:
    """Standard output; empty when the program cannot start, fails or takes too long."""
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            timeout=timeout_s,
            check=False,
            encoding="utf-8",
            errors="replace",
            creationflags=_NO_WINDOW,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout if done.returncode == 0 else ""
