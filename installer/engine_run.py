"""Runs a command of the engine as a child process and reports what it says.

The child's standard output is one JSON object; each line of its standard error is either a JSON
object `{"done": 3, "total": 8, "name": "threads"}` or a sentence for the details.
"""

from __future__ import annotations

import collections
import json
import subprocess
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from engine.core.catalog_file import PROGRAM_DIR
from engine.core.errors import ResourceError
from installer.child import child_environment, child_flags
from installer.errors import InstallError, StoppedError

_LAST_LINES = 20
_END_S = 10.0


@dataclass(frozen=True, slots=True)
class RunProgress:
    """What the command reports.

    Attributes:
        done: parts that are done.
        total: all parts; 0 while unknown.
        name: of the part that it is at.
        line: a sentence for the details; may be empty.
    """

    done: int = 0
    total: int = 0
    name: str = ""
    line: str = ""


class EngineRun(ABC):
    """One run of a command."""

    def __init__(self, arguments: tuple[str, ...], command: tuple[str, ...] | None = None) -> None:
        """Prepare it.

        Args:
            arguments: the engine's command and its flags.
            command: how the engine's command line is started; None: this Python.
        """
        self._command = [*(command or (sys.executable, "-m", "engine")), *arguments]
        self._child: subprocess.Popen[str] | None = None
        self._is_stopped = False
        self._lock = threading.Lock()

    @abstractmethod
    def stopped(self) -> StoppedError:
        """What is raised when it was stopped."""

    @abstractmethod
    def failed(self, reason: str) -> InstallError:
        """What is raised when it failed."""

    def without_report(self) -> InstallError:
        """What is raised when it ended without one."""
        return self.failed("no report")

    def run(self, progress: Callable[[RunProgress], None]) -> Mapping[str, object]:
        """Run it to its end; the engine's report.

        Raises:
            InstallError: it failed.
            StoppedError: `stop` was called.
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
            raise self.stopped()
        if status != 0:
            raise self.failed(last[-1] if last else f"exit status {status}")
        return self._report("".join(answer))

    def stop(self) -> None:
        """End it."""
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
                raise self.stopped()
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

    def _report(self, text: str) -> Mapping[str, object]:
        try:
            content = json.loads(text)
        except ValueError:
            content = None
        if not isinstance(content, dict):
            raise self.without_report()
        return content


def parse_progress(line: str) -> RunProgress:
    """A line of the child's standard error."""
    try:
        content = json.loads(line)
    except ValueError:
        return RunProgress(line=line)
    if not isinstance(content, dict):
        return RunProgress(line=line)
    done, total = content.get("done"), content.get("total")
    return RunProgress(
        done=done if isinstance(done, int) else 0,
        total=total if isinstance(total, int) else 0,
        name=str(content.get("name", "")),
        line=str(content.get("line", "")),
    )


def _read_all(child: subprocess.Popen[str], answer: list[str]) -> None:
    if child.stdout is not None:
        answer.append(child.stdout.read())
        child.stdout.close()
