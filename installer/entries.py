"""Entries of Stratum outside its folder: in the start menu, on the desktop, among Windows' "Apps".

    made = add_entries(system_entries(), EntryPlan(root, version, num_bytes))
    remove_entries(system_entries(), made)

All are of this user alone; no administrator is needed. What was made is remembered by the caller
(`installer/program.py`), so that removing finds it even when a later version makes other entries.
"""

from __future__ import annotations

import enum
import logging
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pydantic import BaseModel, ConfigDict

logger = logging.getLogger(__name__)

NAME = "Stratum"
SUMMARY = "A large language model on this PC"
UNINSTALL_KEY = r"Software\Microsoft\Windows\CurrentVersion\Uninstall\Stratum"


class EntryKind(enum.StrEnum):
    """Where an entry is."""

    MENU = "menu"
    DESKTOP = "desktop"
    APPS = "apps"  # Windows' list of installed programs


class MadeEntry(BaseModel):
    """An entry that exists.

    Attributes:
        place: the file, or the registry key.
    """

    model_config = ConfigDict(frozen=True)

    kind: EntryKind
    place: str


@dataclass(frozen=True, slots=True)
class EntryPlan:
    """What entries should say.

    Attributes:
        root: the program's folder.
        version: of the program.
        num_bytes: what it takes on the disk, models not counted.
        with_desktop: put an icon on the desktop too.
    """

    root: Path
    version: str
    num_bytes: int = 0
    with_desktop: bool = False


class EntrySystem(Protocol):
    """One system's way to keep entries."""

    def kinds(self, plan: EntryPlan) -> Sequence[EntryKind]:
        """What this system has of it."""

    def make(self, kind: EntryKind, plan: EntryPlan) -> MadeEntry:
        """Make an entry, or make it anew.

        Raises:
            OSError: the system refuses.
        """

    def remove(self, entry: MadeEntry) -> None:
        """Remove an entry; nothing happens when it has gone.

        Raises:
            OSError: the system refuses.
        """


def system_entries() -> EntrySystem:
    """The entries of this system."""
    if sys.platform == "win32":
        from installer.entries_windows import UserRegistry, WindowsEntries  # noqa: PLC0415
        from installer.windows_links import known_folder, write_link  # noqa: PLC0415

        return WindowsEntries(UserRegistry(), known_folder, write_link)
    else:  # noqa: RET505  # mypy looks at one branch for each system
        from installer.entries_linux import LinuxEntries  # noqa: PLC0415

        return LinuxEntries()


def add_entries(system: EntrySystem, plan: EntryPlan) -> tuple[MadeEntry, ...]:
    """Make all entries; one that the system refuses is logged and left out."""
    made: list[MadeEntry] = []
    for kind in system.kinds(plan):
        try:
            made.append(system.make(kind, plan))
        except OSError as error:
            logger.warning("no entry in the %s could be made: %s", kind.value, error)
    return tuple(made)


def remove_entries(system: EntrySystem, entries: Sequence[MadeEntry]) -> tuple[MadeEntry, ...]:
    """Remove entries; those that the system refuses to remove come back."""
    left: list[MadeEntry] = []
    for entry in entries:
        try:
            system.remove(entry)
        except OSError as error:
            logger.warning("%s could not be removed: %s", entry.place, error)
            left.append(entry)
    return tuple(left)
