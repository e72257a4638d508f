"""How child processes are started: UTF-8 everywhere, and no console window on Windows."""

from __future__ import annotations

import os
import subprocess
import sys


def child_environment() -> dict[str, str]:
    """The environment of a child: unbuffered UTF-8, or its lines come late and garbled."""
    return {**os.environ, "PYTHONUTF8": "1", "PYTHONUNBUFFERED": "1"}


def child_flags() -> int:
    """Creation flags of a child that we watch."""
    return getattr(subprocess, "CREATE_NO_WINDOW", 0)


def detached_flags() -> int:
    """Creation flags of a child that lives on without us."""
    if sys.platform == "win32":
        return subprocess.CREATE_NO_WINDOW | subprocess.CREATE_NEW_PROCESS_GROUP
    return 0
