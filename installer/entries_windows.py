"""Entries on Windows: links in start menu and desktop, and a line among the installed apps.

The registry and the links are given from outside, so that what is written can be tested anywhere.
"""

from __future__ import annotations

import enum
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from installer.entries import NAME, SUMMARY, UNINSTALL_KEY, EntryKind, EntryPlan, MadeEntry

RegistryValue = str | int


class Folder(enum.StrEnum):
    """Windows' folders of this user; the values are the ids of SHGetKnownFolderPath."""

    DESKTOP = "{B4BFCC3A-DB2C-424C-B029-7FE99A87C641}"  # also when it is in the cloud
    PROGRAMS = "{A77F5D77-2E2B-44C3-A6A2-ABA601054A51}"


@dataclass(frozen=True, slots=True)
class Link:
    """What a `.lnk` file says."""

    target: Path
    arguments: str
    folder: Path
    summary: str
    icon: Path | None = None


class Registry(Protocol):
    """The registry of this user (HKEY_CURRENT_USER)."""

    def write(self, key: str, values: Mapping[str, RegistryValue]) -> None:
        """Set the values of a key, which is made when it is missing."""

    def delete(self, key: str) -> None:
        """Delete a key; nothing happens when it has gone."""


class WindowsEntries:
    """Links and the registry."""

    def __init__(
        self,
        registry: Registry,
        folder_of: Callable[[Folder], Path],
        write_link: Callable[[Path, Link], None],
    ) -> None:
        self._registry = registry
        self._folder_of = folder_of
        self._write_link = write_link

    def kinds(self, plan: EntryPlan) -> Sequence[EntryKind]:
        """Start menu and apps; the desktop where it is wanted."""
        desktop = (EntryKind.DESKTOP,) if plan.with_desktop else ()
        return (EntryKind.MENU, *desktop, EntryKind.APPS)

    def make(self, kind: EntryKind, plan: EntryPlan) -> MadeEntry:
        """Write a link, or the key."""
        if kind is EntryKind.APPS:
            self._registry.write(UNINSTALL_KEY, apps_values(plan))
            return MadeEntry(kind=kind, place=UNINSTALL_KEY)
        folder = Folder.DESKTOP if kind is EntryKind.DESKTOP else Folder.PROGRAMS
        path = self._folder_of(folder) / f"{NAME}.lnk"
        path.parent.mkdir(parents=True, exist_ok=True)
        self._write_link(path, start_link(plan.root))
        return MadeEntry(kind=kind, place=str(path))

    def remove(self, entry: MadeEntry) -> None:
        """Delete a link, or the key."""
        if entry.kind is EntryKind.APPS:
            self._registry.delete(entry.place)
        else:
            Path(entry.place).unlink(missing_ok=True)


def start_link(root: Path) -> Link:
    """The link that starts the program: without a console, which the batch file would open."""
    icon = root / "assets" / "icons" / "stratum.ico"
    return Link(
        target=root / ".venv" / "Scripts" / "pythonw.exe",
        arguments="-m installer",
        folder=root,
        summary=SUMMARY,
        icon=icon if icon.exists() else None,
    )


def apps_values(plan: EntryPlan) -> dict[str, RegistryValue]:
    """What Windows' "Apps" shows, and what its button runs.

    cmd takes off the outer quotes of what follows /c, so the path needs its own inside them.
    """
    batch = f'"{plan.root / "START-HERE.bat"}"'
    values: dict[str, RegistryValue] = {
        "DisplayName": NAME,
        "DisplayVersion": plan.version,
        "Publisher": NAME,
        "Comments": SUMMARY,
        "InstallLocation": str(plan.root),
        "UninstallString": f'cmd.exe /c "{batch} --uninstall"',
        "QuietUninstallString": f'cmd.exe /c "{batch} --uninstall --yes"',
        "EstimatedSize": min(plan.num_bytes // 1024, 0xFFFFFFFF),
        "NoModify": 1,
        "NoRepair": 1,
    }
    icon = start_link(plan.root).icon
    if icon is not None:
        values["DisplayIcon"] = str(icon)
    return values


if sys.platform == "win32":
    import winreg

    class UserRegistry:
        """The real registry of this user."""

        def write(self, key: str, values: Mapping[str, RegistryValue]) -> None:
            """Set the values of a key."""
            with winreg.CreateKeyEx(winreg.HKEY_CURRENT_USER, key, 0, winreg.KEY_WRITE) as handle:
                for name, value in values.items():
                    kind = winreg.REG_DWORD if isinstance(value, int) else winreg.REG_SZ
                    winreg.SetValueEx(handle, name, 0, kind, value)

        def delete(self, key: str) -> None:
            """Delete a key."""
            try:
                winreg.DeleteKey(winreg.HKEY_CURRENT_USER, key)
            except FileNotFoundError:
                return
