"""Starting with the person's login: off unless it was asked for, and for this person only.

Linux: a file in the autostart folder of the desktop. Windows: a value of the person's Run key, and no
scheduled task: a task runs with low priority, so that the model loads many times slower. What is started
is the installer's `--at-login`, which chooses the version to run and hands `--at-login` on to the app.
"""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path

from engine.core.errors import ResourceError

logger = logging.getLogger(__name__)

AT_LOGIN = "--at-login"
NAME = "Stratum"
SUMMARY = "A large language model on this PC"
_RUN_KEY = r"Software\Microsoft\Windows\CurrentVersion\Run"
_APPROVED_KEY = r"Software\Microsoft\Windows\CurrentVersion\Explorer\StartupApproved\Run"
_RESERVED = re.compile(r'(["`$\\])')


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


def starts_at_login(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether the system starts it; the person may have changed that in the system's own list."""
    if sys.platform == "win32":
        return _has_run_value()
    try:
        text = autostart_file(environment).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    # What desktops write into the file when it is switched off in their list.
    off = re.compile(r"^\s*(Hidden\s*=\s*true|X-GNOME-Autostart-enabled\s*=\s*false)\s*$", re.I)
    return not any(off.match(line) for line in text.splitlines())


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
    return (
        "[Desktop Entry]\nType=Application\n"
        f"Name={NAME}\nComment={SUMMARY}\n"
        f"Exec={python} -m installer {AT_LOGIN}\nPath={desktop_value(str(root))}\n"
        f"Icon={desktop_value(str(root / 'assets' / 'icons' / 'stratum.svg'))}\n"
        "Terminal=false\nX-GNOME-Autostart-enabled=true\n"
    )


def python_of(root: Path, *, with_window: bool = False) -> Path:
    """The Python of a program's environment."""
    if sys.platform == "win32":
        return root / ".venv" / "Scripts" / ("pythonw.exe" if with_window else "python.exe")
    return root / ".venv" / "bin" / "python"


def exec_word(word: str) -> str:
    """A word of an Exec line: quoted by that line's own rules, and then by those of all values."""
    quoted = _RESERVED.sub(r"\\\1", word).replace("%", "%%")
    return desktop_value(f'"{quoted}"')


def desktop_value(text: str) -> str:
    """A text as a value in a `.desktop` file."""
    return text.replace("\\", "\\\\").replace("\n", "\\n")


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
        if is_on:  # the task manager's "off" would outlive the switch that the person just set
            _forget_disapproval()


def _has_run_value() -> bool:
    if sys.platform == "win32":
        import winreg  # noqa: PLC0415  # exists there only

        try:
            with winreg.OpenKey(winreg.HKEY_CURRENT_USER, _RUN_KEY) as key:
                winreg.QueryValueEx(key, NAME)
        except OSError:
            return False
        try:
            with winreg.OpenKey(winreg.HKEY_CURRENT_USER, _APPROVED_KEY) as key:
                value = winreg.QueryValueEx(key, NAME)[0]
        except OSError:
            return True
        # The task manager's list: an odd first byte means that the person switched it off there.
        return not (isinstance(value, bytes) and value[:1] and value[0] & 1)
    return False


def _forget_disapproval() -> None:
    if sys.platform == "win32":
        import winreg  # noqa: PLC0415  # exists there only

        try:
            with winreg.OpenKey(
                winreg.HKEY_CURRENT_USER, _APPROVED_KEY, 0, winreg.KEY_SET_VALUE
            ) as key:
                winreg.DeleteValue(key, NAME)
        except OSError:  # it was never there
            return
