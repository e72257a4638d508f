"""The engine's processes as one thing: the front, its model process, and what they have started.

`Family` is the one interface; which one is made, and how a process gets into it, differs by system:
Linux starts the front in a process group of its own, Windows puts it into a Job object.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
from collections.abc import Iterator
from typing import Protocol

import psutil

from app.supervisor.windows_job import Job

logger = logging.getLogger(__name__)


class Family(Protocol):
    """What the supervisor asks of the engine's processes.

    Attributes:
        pid: of the front.
    """

    pid: int

    def lives(self) -> bool:
        """Whether any of them still runs; a process that has ended and was not reaped does not."""

    def cpu_s(self) -> float | None:
        """Processor time that the front has used; None when it cannot be seen."""

    def terminate(self) -> None:
        """Ask the front to end, where the system has a way that is not force."""

    def kill(self) -> None:
        """End all of them at once."""

    def close(self) -> None:
        """Forget them; on Windows this ends what still lives."""


class Relatives:
    """The front and its descendants as far as they could be seen, whatever group they are in.

    Those that have left the group (MCP servers have sessions of their own) are found only while their
    parents live, so `look` is called before the family is ended.
    """

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._known: dict[int, psutil.Process] = {}
        with contextlib.suppress(psutil.Error):
            self._known[pid] = psutil.Process(pid)

    def look(self) -> None:
        """Remember who there is now."""
        front = self._known.get(self.pid)
        if front is None:
            return
        with contextlib.suppress(psutil.Error):
            for process in front.children(recursive=True):
                self._known.setdefault(process.pid, process)

    def living(self) -> Iterator[psutil.Process]:
        """Those that still run."""
        for process in list(self._known.values()):
            with contextlib.suppress(psutil.Error):
                # `is_running` compares the start time: a number may have gone to somebody else.
                if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                    yield process

    def cpu_s(self) -> float | None:
        """Processor time of the front."""
        front = self._known.get(self.pid)
        if front is not None:
            with contextlib.suppress(psutil.Error):
                times = front.cpu_times()
                return float(times.user + times.system)
        return None

    def kill(self) -> None:
        """End all of them at once."""
        self.look()
        for process in self.living():
            with contextlib.suppress(psutil.Error):
                process.kill()


class AdoptedFamily:
    """An engine that somebody else has started."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._relatives = Relatives(pid)
        self._relatives.look()

    def front_lives(self) -> bool:
        """Whether its front still runs."""
        return any(process.pid == self.pid for process in self._relatives.living())

    def lives(self) -> bool:
        """See `Family`."""
        return any(True for _ in self._relatives.living())

    def cpu_s(self) -> float | None:
        """See `Family`."""
        return self._relatives.cpu_s()

    def terminate(self) -> None:
        """See `Family`; Windows has no way to ask a process of another console."""
        self._relatives.look()
        if sys.platform != "win32":
            with contextlib.suppress(OSError):
                os.kill(self.pid, signal.SIGTERM)

    def kill(self) -> None:
        """See `Family`."""
        self._relatives.kill()

    def close(self) -> None:
        """See `Family`."""


class GroupFamily:
    """Linux: the front is the head of a session, and of a process group with its own number."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._relatives = Relatives(pid)

    def lives(self) -> bool:
        """See `Family`."""
        return any(True for _ in self._relatives.living()) or any(True for _ in self._members())

    def cpu_s(self) -> float | None:
        """See `Family`."""
        return self._relatives.cpu_s()

    def terminate(self) -> None:
        """See `Family`."""
        self._relatives.look()
        with contextlib.suppress(OSError):
            os.kill(self.pid, signal.SIGTERM)

    def kill(self) -> None:
        """See `Family`."""
        if sys.platform != "win32":
            self._relatives.look()
            with contextlib.suppress(OSError):
                os.killpg(self.pid, signal.SIGKILL)
            self._relatives.kill()

    def close(self) -> None:
        """See `Family`."""

    def _members(self) -> Iterator[psutil.Process]:
        if sys.platform == "win32":
            return
        for pid in psutil.pids():
            with contextlib.suppress(OSError, psutil.Error):
                if os.getpgid(pid) == self.pid:
                    process = psutil.Process(pid)
                    if process.status() != psutil.STATUS_ZOMBIE:
                        yield process


class JobFamily:
    """Windows: all of them are in one Job object, which ends them when its last handle closes.

    The system closes our handle when we end, in whatever way: so there are no orphans.
    """

    def __init__(self, pid: int, job: Job) -> None:
        self.pid = pid
        self._job = job
        self._relatives = Relatives(pid)

    def lives(self) -> bool:
        """See `Family`."""
        return self._job.num_processes() > 0 or any(True for _ in self._relatives.living())

    def cpu_s(self) -> float | None:
        """See `Family`."""
        return self._relatives.cpu_s()

    def terminate(self) -> None:
        """See `Family`; a process without a console cannot be asked, so there is only force."""

    def kill(self) -> None:
        """See `Family`."""
        self._relatives.look()
        self._job.terminate()
        self._relatives.kill()

    def close(self) -> None:
        """See `Family`."""
        self._job.close()
