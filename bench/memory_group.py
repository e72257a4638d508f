"""A control group with a memory limit for child processes, below the group of this process.

    with memory_group(limit_bytes) as group:
        subprocess.run(group.inside(command))

Needs the right to make groups (root, or a delegated group). Version 1 and 2; Linux only.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.core.cgroup import MEMBERSHIP, ROOT


class NoGroupError(Exception):
    """This process may not make a memory group; the text says why."""


@dataclass(frozen=True, slots=True)
class MemoryGroup:
    """A group.

    Attributes:
        folder: of its files.
        is_version_2: which names these have.
    """

    folder: Path
    is_version_2: bool

    def inside(self, command: Sequence[str]) -> list[str]:
        """A command that enters the group and then runs this one in its place."""
        return ["sh", "-c", 'echo $$ > "$0" && exec "$@"', str(self._processes), *command]

    def add(self, pid: int) -> None:
        """Move a process into the group; what it holds already stays counted elsewhere."""
        self._processes.write_text(str(pid))

    @property
    def _processes(self) -> Path:
        return self.folder / "cgroup.procs"

    @property
    def peak_bytes(self) -> int | None:
        """The most that the group held, file cache included; None where nothing tells."""
        name = "memory.peak" if self.is_version_2 else "memory.max_usage_in_bytes"
        with contextlib.suppress(OSError, ValueError):
            return int((self.folder / name).read_text())
        return None


@contextlib.contextmanager
def memory_group(limit_bytes: int) -> Iterator[MemoryGroup]:
    """Make a group and remove it; its processes must have ended by then.

    Raises:
        NoGroupError: it cannot be made.
    """
    parent, is_version_2 = _own_folder()
    group = MemoryGroup(parent / f"stratum-{os.getpid()}-{time.monotonic_ns()}", is_version_2)
    try:
        group.folder.mkdir()
    except OSError as error:
        raise NoGroupError(f"no memory group can be made in {parent}: {error}") from error
    try:
        name = "memory.max" if is_version_2 else "memory.limit_in_bytes"
        try:
            (group.folder / name).write_text(str(limit_bytes))
        except OSError as error:
            raise NoGroupError(f"{group.folder / name} cannot be written: {error}") from error
        yield group
    finally:
        _remove(group.folder)


def _own_folder() -> tuple[Path, bool]:
    try:
        lines = MEMBERSHIP.read_text(encoding="ascii").splitlines()
    except OSError as error:
        raise NoGroupError(f"there are no control groups here: {error}") from error
    for line in lines:
        _, names, where = line.split(":", 2)
        if "memory" in names.split(","):
            return ROOT / "memory" / where.lstrip("/"), False
    for line in lines:
        _, names, where = line.split(":", 2)
        folder = ROOT / where.lstrip("/")
        with contextlib.suppress(OSError):
            if not names and "memory" in (folder / "cgroup.subtree_control").read_text().split():
                return folder, True
    raise NoGroupError("the memory controller is not available below this process's group")


def _remove(folder: Path) -> None:
    for _ in range(50):  # the last process's end may not have been noticed yet
        try:
            folder.rmdir()
        except OSError:
            time.sleep(0.1)
        else:
            return
