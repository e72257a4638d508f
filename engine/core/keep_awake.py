"""Keeps the PC from sleeping while a download or an answer runs.

    with system_keep_awake().hold("Downloading a model"):
        ...

Nothing fails when the system offers no way: the work then runs as long as the PC is awake.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import shutil
import subprocess
import sys
from collections.abc import Iterator
from typing import Protocol

logger = logging.getLogger(__name__)

_ES_CONTINUOUS = 0x80000000
_ES_SYSTEM_REQUIRED = 0x00000001


class KeepAwake(Protocol):
    """A way to keep the PC awake."""

    def hold(self, reason: str) -> contextlib.AbstractContextManager[None]:
        """Keep it awake inside the block; to be used by one thread."""


class NoKeepAwake:
    """Lets the PC sleep when it wants to."""

    @contextlib.contextmanager
    def hold(self, reason: str) -> Iterator[None]:  # noqa: ARG002  # the protocol's name
        """Do nothing."""
        yield


class SystemdKeepAwake:
    """Linux with systemd: a child holds the lock and ends when our end of its pipe closes.

    So the lock also goes when we are killed.
    """

    def __init__(
        self, command: str = "systemd-inhibit", *, resists_the_person: bool = True
    ) -> None:
        self._command = command
        self._what = "sleep:idle" if resists_the_person else "idle"

    @contextlib.contextmanager
    def hold(self, reason: str) -> Iterator[None]:
        """Hold a sleep inhibitor."""
        program, cat = shutil.which(self._command), shutil.which("cat")
        if program is None or cat is None:
            yield
            return
        arguments = [
            program,
            f"--what={self._what}",
            "--who=Stratum",
            f"--why={reason}",
            "--mode=block",
        ]
        try:
            child = subprocess.Popen(
                [*arguments, cat],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        except OSError as error:
            logger.info("the PC may sleep meanwhile: %s", error)
            yield
            return
        try:
            yield
        finally:
            if child.stdin is not None:
                child.stdin.close()
            try:
                child.wait(timeout=5)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()


class WindowsKeepAwake:
    """Windows: the execution state of this thread."""

    @contextlib.contextmanager
    def hold(self, reason: str) -> Iterator[None]:  # noqa: ARG002  # Windows shows none
        """Require the system until the block ends; the screen may go dark."""
        if sys.platform == "win32":
            set_state = ctypes.windll.kernel32.SetThreadExecutionState
            set_state(_ES_CONTINUOUS | _ES_SYSTEM_REQUIRED)
            try:
                yield
            finally:
                set_state(_ES_CONTINUOUS)
        else:
            yield


def system_keep_awake(*, resists_the_person: bool = True) -> KeepAwake:
    """The way of this system.

    Args:
        resists_the_person: also keeps it awake when sleep is asked for, where a program can do so
            (Linux); False: only the sleep of a PC that nobody uses is held off.
    """
    if sys.platform == "win32":
        return WindowsKeepAwake()
    return SystemdKeepAwake(resists_the_person=resists_the_person)
