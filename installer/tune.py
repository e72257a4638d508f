"""Runs `engine calibrate` as a child process and reports what it says.

    run = TuneRun(config_path)
    result = run.run(on_progress)        # blocks; run.stop() from any thread

The child's standard output is one JSON object; each line of its standard error is either a JSON
object `{"done": 3, "total": 8, "name": "threads"}` or a sentence for the details.
"""

from __future__ import annotations

import collections
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from engine.core.catalog_file import PROGRAM_DIR
from engine.core.errors import ResourceError
from installer.child import child_environment, child_flags
from installer.errors import InstallError, StoppedError

_COMMAND_FILE = PROGRAM_DIR / "engine" / "commands" / "calibrate.py"
_LAST_LINES = 20
_END_S = 10.0


class TuneError(InstallError):
    """The measurement failed; the settings stay as they were."""

    code = "tuning_failed"


@dataclass(frozen=True, slots=True)
class TuneProgress:
    """What the measurement reports.

    Attributes:
        done: parts that are measured.
        total: all parts; 0 while unknown.
        name: of the part that is being measured.
        line: a sentence for the details; may be empty.
    """

    done: int = 0
    total: int = 0
    name: str = ""
    line: str = ""


def is_tuning_available() -> bool:
    """Whether this engine can measure itself."""
    return _COMMAND_FILE.is_file()


class TuneRun:
    """One measurement."""

    def __init__(self, config: Path, command: tuple[str, ...] | None = None) -> None:
        """Prepare it.

        Args:
            config: the run config to tune.
            command: how the engine's command line is started; None: this Python.
        """
        self._command = [
            *(command or (sys.executable, "-m", "engine")),
            *("calibrate", "--config", str(config), "--json"),
        ]
        self._child: subprocess.Popen[str] | None = None
        self._is_stopped = False
        self._lock = threading.Lock()

    def run(self, progress: Callable[[TuneProgress], None]) -> Mapping[str, object]:
        """Measure; the engine's report.

        Raises:
            TuneError: it failed; nothing was changed.
            StoppedError: `stop` was called; nothing was changed.
            ResourceError: the child could not be started.
        """
        child = self._start()
        last: collections.deque[str] = collections.deque(maxlen=_LAST_LINES)
        answer: list[str] = []
        reader = threading.Thread(target=_read_all, args=(child, answer), daemon=True)
        reader.start()
        if child.stderr is not None:
            for line in child.stderr:
                text = line.strip()
                if text:
                    last.append(text)
                    progress(parse_progress(text))
        status = child.wait()
        reader.join()
        if child.stderr is not None:
            child.stderr.close()
        if self._is_stopped:
            raise StoppedError("The measurement was stopped. The settings stay as they were.")
        if status != 0:
            reason = last[-1] if last else f"exit status {status}"
            raise TuneError(
                f"The measurement failed ({reason}). Stratum runs with its own estimates; measure "
                "again later if you like.",
                params={"reason": reason},
            )
        return _report("".join(answer))

    def stop(self) -> None:
        """End the measurement."""
        with self._lock:
            self._is_stopped = True
            child = self._child
        if child is None or child.poll() is not None:
            return
        child.terminate()
        try:
            child.wait(timeout=_END_S)
        except subprocess.TimeoutExpired:
            child.kill()

    def _start(self) -> subprocess.Popen[str]:
        with self._lock:
            if self._is_stopped:
                raise StoppedError("The measurement was stopped. The settings stay as they were.")
            try:
                self._child = subprocess.Popen(
                    self._command,
                    cwd=PROGRAM_DIR,
                    env=child_environment(),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                    encoding="utf-8",
                    errors="replace",
                    creationflags=child_flags(),
                )
            except OSError as error:
                raise ResourceError(
                    f"The engine cannot be started ({error.strerror or error}). Run setup again.",
                    code="child_not_started",
                    params={"reason": error.strerror or str(error)},
                ) from error
            return self._child


def parse_progress(line: str) -> TuneProgress:
    """A line of the child's standard error."""
    try:
        content = json.loads(line)
    except ValueError:
        return TuneProgress(line=line)
    if not isinstance(content, dict):
        return TuneProgress(line=line)
    done, total = content.get("done"), content.get("total")
    return TuneProgress(
        done=done if isinstance(done, int) else 0,
        total=total if isinstance(total, int) else 0,
        name=str(content.get("name", "")),
        line=str(content.get("line", "")),
    )


def _read_all(child: subprocess.Popen[str], answer: list[str]) -> None:
    if child.stdout is not None:
        answer.append(child.stdout.read())
        child.stdout.close()


def _report(text: str) -> Mapping[str, object]:
    try:
        content = json.loads(text)
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise TuneError(
            "The measurement ended without a report. Stratum runs with its own estimates; measure "
            "again later if you like.",
            params={"reason": "no report"},
        )
    return content
