"""Name, release and architecture of the system, without asking Windows' management service.

`platform.system()` and its sisters ask that service (WMI) since Python 3.12. It may be off, slow or
broken on a person's PC, and asked from several threads at once it never answered under Wine.
"""

from __future__ import annotations

import os
import platform
import sys

_WINDOWS_11_BUILD = 22_000


def system_name() -> str:
    """`Windows`, `Linux`, or what the system calls itself."""
    return "Windows" if sys.platform == "win32" else platform.system()


def setup_command() -> str:
    """What a person starts to install what is missing."""
    return "START-HERE.bat" if sys.platform == "win32" else "./setup.sh"


def architecture() -> str:
    """The processor's architecture, such as `x86_64`, or `AMD64` as Windows says."""
    if sys.platform == "win32":
        # The first is set in a 32-bit program on a 64-bit system only.
        names = ("PROCESSOR_ARCHITEW6432", "PROCESSOR_ARCHITECTURE")
        return next((value for name in names if (value := os.environ.get(name))), "")
    return platform.machine()


def is_x86_64(name: str | None = None) -> bool:
    """Whether an architecture, or this one, is the one that the kernels are written for.

    >>> is_x86_64("AMD64"), is_x86_64("aarch64")
    (True, False)
    """
    return (architecture() if name is None else name).lower() in {"x86_64", "amd64"}


def system_version() -> str:
    """The system with its version, for people."""
    if sys.platform == "win32":
        found = sys.getwindowsversion()
        major, minor, build = found.platform_version
        name = "11" if build >= _WINDOWS_11_BUILD else f"{major}"
        return f"Windows {name} ({major}.{minor}.{build})"
    try:
        pretty = platform.freedesktop_os_release().get("PRETTY_NAME", "")
    except OSError:
        pretty = ""
    return f"{pretty or platform.system()} ({platform.release()})"
