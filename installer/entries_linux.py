"""Entries on Linux: `.desktop` files of the freedesktop.org specification, for this user."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from engine.core.login_start import desktop_value, exec_word
from installer.entries import NAME, SUMMARY, EntryKind, EntryPlan, MadeEntry

FILE_NAME = "stratum.desktop"


class LinuxEntries:
    """`.desktop` files below the person's home."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self._environment = environment
        home = environment.get("HOME")
        self._home = Path(home) if home else Path.home()

    def kinds(self, plan: EntryPlan) -> Sequence[EntryKind]:
        """The menu; the desktop where it is wanted and there is one."""
        if plan.with_desktop and self._desktop() is not None:
            return (EntryKind.MENU, EntryKind.DESKTOP)
        return (EntryKind.MENU,)

    def make(self, kind: EntryKind, plan: EntryPlan) -> MadeEntry:
        """Write the file; readers see the old one or the new one."""
        path = self._place(kind)
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(path.name + ".tmp")
        temporary.write_text(desktop_entry(plan.root), encoding="utf-8")
        if kind is EntryKind.DESKTOP:  # desktops start only files that may be executed
            temporary.chmod(0o755)
        temporary.replace(path)
        if kind is EntryKind.DESKTOP:
            _trust(path)
        return MadeEntry(kind=kind, place=str(path))

    def remove(self, entry: MadeEntry) -> None:
        """Delete the file."""
        Path(entry.place).unlink(missing_ok=True)

    def _place(self, kind: EntryKind) -> Path:
        if kind is EntryKind.DESKTOP:
            desktop = self._desktop()
            if desktop is None:
                raise FileNotFoundError("there is no desktop folder")
            return desktop / FILE_NAME
        data = self._environment.get("XDG_DATA_HOME", "")
        base = Path(data) if data.startswith("/") else self._home / ".local" / "share"
        return base / "applications" / FILE_NAME

    def _desktop(self) -> Path | None:
        """The person's desktop folder, whatever its name; None when there is none."""
        config = self._environment.get("XDG_CONFIG_HOME", "")
        base = Path(config) if config.startswith("/") else self._home / ".config"
        found = self._home / "Desktop"
        with contextlib.suppress(OSError, UnicodeDecodeError):
            text = (base / "user-dirs.dirs").read_text(encoding="utf-8")
            match = re.search(r'^XDG_DESKTOP_DIR="(.+)"', text, re.MULTILINE)
            if match is not None:
                found = Path(match[1].replace("$HOME", str(self._home)))
        # A folder that is the home itself means: no desktop.
        return found if found.is_dir() and found != self._home else None


def desktop_entry(root: Path) -> str:
    """The text of the `.desktop` file that starts the program in a folder."""
    lines = [
        "[Desktop Entry]",
        "Type=Application",
        "Version=1.5",
        f"Name={NAME}",
        f"Comment={SUMMARY}",
        "Comment[zh_CN]=在这台电脑上运行大语言模型",
        f"Exec={exec_word(str(root / 'setup.sh'))}",
        f"Path={desktop_value(str(root))}",
        f"Icon={desktop_value(str(root / 'assets' / 'icons' / 'stratum.svg'))}",
        "StartupWMClass=Stratum",
        "Terminal=false",
        "Categories=Utility;",
        "StartupNotify=true",
        "Actions=care;",
        "",
        "[Desktop Action care]",
        "Name=Move, repair, go back",
        "Name[zh_CN]=移动、修复、退回",
        f"Exec={exec_word(str(root / 'setup.sh'))} --care",
    ]
    return "\n".join(lines) + "\n"


def _trust(path: Path) -> None:
    """Tell GNOME that the icon may be started; other desktops do not ask."""
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        subprocess.run(
            ["gio", "set", str(path), "metadata::trusted", "true"],
            check=False,
            capture_output=True,
            timeout=5,
        )
