"""Starting with the person's login: off unless it was asked for, and for this person only.

Linux: a file in the autostart folder of the desktop. Windows: a value of the person's Run key, and no
scheduled task: a task runs with low priority, so that the model loads many times slower.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from engine.core.errors import ResourceError
from installer.entries import NAME, SUMMARY
from installer.entries_linux import exec_word
from installer.program import python_of

logger = logging.getLogger(__name__)

AT_LOGIN = "--at-login"
_RUN_KEY = r"Software\Microsoft\Windows\CurrentVersion\Run"


def set_login_start(
    root: Path, *, is_on: bool, environment: Mapping[str, str] = os.environ
) -> None:
    """Start the program in a folder at each login, or no longer.

    Raises:
        ResourceError: the system refuses.
    """
    try:
        if sys.platform == "win32":
            _set_run_value(root, is_on=is_on)
            return
        path = autostart_file(environment)
        if is_on:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(autostart_entry(root), encoding="utf-8")
        else:
            path.unlink(missing_ok=True)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ResourceError(
            f"Starting at login could not be changed ({reason}). Everything else works.",
            code="login_start_failed",
            params={"reason": reason},
        ) from error


def is_portable(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether this copy keeps all beside itself and changes nothing of the system."""
    return bool(environment.get("STRATUM_HOME"))


def autostart_file(environment: Mapping[str, str] = os.environ) -> Path:
    """Where a Linux desktop looks for it."""
    config = environment.get("XDG_CONFIG_HOME", "")
    base = Path(config) if config.startswith("/") else Path.home() / ".config"
    return base / "autostart" / "stratum.desktop"


def autostart_entry(root: Path) -> str:
    """The text of that file."""
    python = exec_word(str(python_of(root, with_window=True)))
    folder = str(root).replace("\\", "\\\\")
    return (
        "[Desktop Entry]\nType=Application\n"
        f"Name={NAME}\nComment={SUMMARY}\n"
        f"Exec={python} -m installer {AT_LOGIN}\nPath={folder}\n"
        "Terminal=false\nX-GNOME-Autostart-enabled=true\n"
    )


def _set_run_value(root: Path, *, is_on: bool) -> None:
    if sys.platform == "win32":
        import winreg  # noqa: PLC0415  # exists there only

        # Run entries start in the system's folder, where no package of ours is found.
        code = f"import os,sys;os.chdir(r'{root}');sys.path.insert(0,'');"
        code += f"from installer.__main__ import main;sys.exit(main(['{AT_LOGIN}']))"
        command = f'"{python_of(root, with_window=True)}" -c "{code}"'
        with winreg.CreateKeyEx(winreg.HKEY_CURRENT_USER, _RUN_KEY, 0, winreg.KEY_SET_VALUE) as key:
            if is_on:
                winreg.SetValueEx(key, NAME, 0, winreg.REG_SZ, command)
            else:
                try:
                    winreg.DeleteValue(key, NAME)
                except FileNotFoundError:
                    return
