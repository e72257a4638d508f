"""What of Stratum runs now: the server of a data folder, and the app of this person.

The app is found by how it was started (`python -m app` in a folder of the program, with the same
settings), because its lock belongs to Qt, which is not always there.
"""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import psutil

from engine.core.settings import live_engine_record
from installer.errors import InstallError

_END_S = 15.0


def running_app() -> int | None:
    """The process of the app that runs with our settings; None when none does."""
    for process in psutil.process_iter():
        try:
            words = process.cmdline()
            if not _starts_app(words) or process.pid == os.getpid():
                continue
            is_ours = process.environ().get("STRATUM_HOME") == os.environ.get("STRATUM_HOME")
            if is_ours and (Path(process.cwd()) / "app" / "__main__.py").is_file():
                return int(process.pid)
        except (psutil.Error, OSError):
            continue  # it has ended, or is somebody else's
    return None


def require_stopped(data_dir: Path) -> None:
    """Refuse while something of ours works on the data folder.

    Raises:
        InstallError: the app or the server runs.
    """
    record = live_engine_record(data_dir)
    pid = running_app() or (record.pid if record is not None else None)
    if pid is not None:
        raise InstallError(
            f"Stratum is running (process {pid}). Quit it at its sign beside the clock, or stop the "
            "server, then go on.",
            code="stratum_running",
            params={"pid": pid},
        )


def end_all(data_dir: Path) -> None:
    """End the app and the server of a data folder, if they run.

    Raises:
        InstallError: one of them does not end.
    """
    app = running_app()  # first: it would start its server anew
    if app is not None:
        _end(app)
    record = live_engine_record(data_dir)
    if record is not None:
        _end(record.pid)


def _end(pid: int) -> None:
    try:
        process = psutil.Process(pid)
        family = [process, *process.children(recursive=True)]
        process.terminate()
        _gone, alive = psutil.wait_procs(family, timeout=_END_S)
        for one in alive:
            one.kill()
        _gone, alive = psutil.wait_procs(alive, timeout=_END_S)
    except psutil.NoSuchProcess:
        return
    except psutil.Error as error:
        raise InstallError(
            f"Stratum (process {pid}) still runs and cannot be ended ({error}). "
            "Stop it, and start again.",
            code="server_not_ended",
            params={"pid": pid},
        ) from error
    if alive:
        raise InstallError(
            f"Stratum (process {pid}) does not end. Stop it, and start again.",
            code="server_not_ended",
            params={"pid": pid},
        )


def _starts_app(words: list[str]) -> bool:
    return ("-m", "app") in itertools.pairwise(words)
