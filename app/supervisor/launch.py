"""Starts the engine's process so that it can never outlive us, without a console, at normal priority."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

from app.supervisor.family import Family, GroupFamily, JobFamily
from app.supervisor.windows_job import CREATE_SUSPENDED, Job
from engine.core.error_lines import VARIABLE

logger = logging.getLogger(__name__)

_LEASH = Path(__file__).with_name("leash.py")
_PROGRAM_DIR = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Launched:
    """A process that was started.

    Attributes:
        process: to wait for its end.
        family: it and all that it starts.
        output: what it writes, standard error included.
    """

    process: subprocess.Popen[bytes]
    family: Family
    output: BinaryIO


def serve_command(config_path: Path) -> list[str]:
    """The command that serves a run config."""
    return [str(console_python()), "-m", "engine", "serve", "--config", str(config_path)]


def console_python(executable: str = sys.executable) -> Path:
    """The Python that has standard streams: Windows' `pythonw.exe` has none."""
    path = Path(executable)
    if path.name.lower() == "pythonw.exe":
        beside = path.with_name("python.exe")
        return beside if beside.exists() else path
    return path


def engine_environment(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The environment of the engine: UTF-8, lines at once, errors with their codes."""
    return {**environment, "PYTHONUTF8": "1", "PYTHONUNBUFFERED": "1", VARIABLE: "1"}


def launch(command: Sequence[str], *, cwd: Path = _PROGRAM_DIR) -> Launched:
    """Start a program.

    Linux ties it to the *thread* that calls this: it is killed when that thread ends.

    Raises:
        OSError: the system refuses.
    """
    if sys.platform == "win32":
        return _launch_in_job(command, cwd)
    words = list(command)
    if sys.platform == "linux":
        leash = [sys.executable, "-I", "-S", str(_LEASH), str(os.getpid())]
        words = [*leash, *command]
    process = subprocess.Popen(
        words,
        cwd=cwd,
        env=engine_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    return Launched(process, GroupFamily(process.pid), cast("BinaryIO", process.stdout))


def _launch_in_job(command: Sequence[str], cwd: Path) -> Launched:
    if sys.platform == "win32":
        job = Job()
        try:
            process = subprocess.Popen(
                command,
                cwd=cwd,
                env=engine_environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                creationflags=subprocess.CREATE_NO_WINDOW
                | subprocess.CREATE_NEW_PROCESS_GROUP
                | subprocess.NORMAL_PRIORITY_CLASS
                | CREATE_SUSPENDED,
            )
        except OSError:
            job.close()
            raise
        try:
            job.take(process.pid)
        except OSError:
            process.kill()
            process.wait()
            job.close()
            raise
        return Launched(process, JobFamily(process.pid, job), cast("BinaryIO", process.stdout))
    raise OSError("only Windows has Job objects")
