"""The system around us: its name, WSL, containers, rights, battery, page file.

Also the processor's name as py-cpuinfo finds it, which is only compared with the system's: that
package runs a second and starts processes of its own, so it runs apart and with a time limit.
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import re
import sys
from dataclasses import dataclass
from pathlib import Path

import psutil

from engine.core.cgroup import cpu_limit, memory_limit
from engine.core.operating_system import architecture, system_name, system_version
from engine.core.programs import output_of

_CONTAINER_FILES = {"/.dockerenv": "docker", "/run/.containerenv": "podman"}


@dataclass(frozen=True, slots=True)
class Environment:
    """What the program runs in.

    Attributes:
        system: `Linux` or `Windows`.
        version: as the system calls itself.
        architecture: such as `x86_64`.
        is_wsl: a Linux inside Windows.
        container: such as `docker`; empty outside.
        has_memory_limit: whether a container or slice limits our memory below the machine's.
        cpu_limit: how many processors' time we may use; None when that is not limited.
        is_admin: whether we run with all rights, which nothing here needs.
        is_laptop: whether there is a battery; None when unknown.
        on_battery: whether it runs from it now; None when unknown.
        swap_total_bytes: page file or swap.
    """

    system: str
    version: str
    architecture: str
    is_wsl: bool = False
    container: str = ""
    has_memory_limit: bool = False
    cpu_limit: float | None = None
    is_admin: bool = False
    is_laptop: bool | None = None
    on_battery: bool | None = None
    swap_total_bytes: int = 0


def probe_environment() -> Environment:
    """Look around; a few milliseconds."""
    laptop, on_battery = _battery()
    limit = memory_limit()
    return Environment(
        system=system_name(),
        version=system_version(),
        architecture=architecture(),
        is_wsl=sys.platform != "win32"
        and is_wsl(platform.release(), os.environ.get("WSL_DISTRO_NAME", "")),
        container=_container(),
        has_memory_limit=limit is not None and limit.total_bytes < _physical_bytes(),
        cpu_limit=cpu_limit(),
        is_admin=_is_admin(),
        is_laptop=laptop,
        on_battery=on_battery,
        swap_total_bytes=_swap_bytes(),
    )


def is_wsl(release: str, distribution: str = "") -> bool:
    """Whether a kernel's release is that of Windows' Linux.

    >>> is_wsl("5.15.167.4-microsoft-standard-WSL2"), is_wsl("6.8.0-45-generic")
    (True, False)
    """
    return bool(distribution) or "microsoft" in release.lower()


def cpu_name_by_cpuinfo(timeout_s: float) -> str:
    """The processor's name as py-cpuinfo finds it; empty when it does not in time."""
    try:
        facts = json.loads(output_of([sys.executable, "-m", "cpuinfo", "--json"], timeout_s))
        name = facts.get("brand_raw", "")
    except (ValueError, AttributeError):
        return ""
    return name.strip() if isinstance(name, str) else ""


def same_cpu_name(one: str, other: str) -> bool:
    """Whether two names mean the same processor: without marks, clocks and spaces.

    >>> same_cpu_name("Intel(R) Core(TM) i9-14900K", "Intel Core i9-14900K @ 3.20GHz")
    True
    """
    first, second = (
        re.sub(r"\(r\)|\(tm\)|@.*|\b(cpu|processor)\b|\s+", "", name.lower())
        for name in (one, other)
    )
    return first in second or second in first


def _container() -> str:
    named = os.environ.get("container", "")  # noqa: SIM112  # systemd and podman spell it so
    if named:
        return named
    for path, name in _CONTAINER_FILES.items():
        if Path(path).exists():
            return name
    if os.environ.get("KUBERNETES_SERVICE_HOST"):
        return "kubernetes"
    return ""


def _physical_bytes() -> int:
    return int(psutil.virtual_memory().total)


def _swap_bytes() -> int:
    try:
        return int(psutil.swap_memory().total)
    except (OSError, RuntimeError, psutil.Error):
        return 0


def _is_admin() -> bool:
    if sys.platform == "win32":
        try:
            return bool(ctypes.windll.shell32.IsUserAnAdmin())
        except (OSError, AttributeError):
            return False
    return os.geteuid() == 0


def _battery() -> tuple[bool | None, bool | None]:
    try:
        battery = psutil.sensors_battery()
    except (AttributeError, OSError, RuntimeError, psutil.Error, ValueError):
        return None, None
    if battery is None:
        return False, None
    plugged = battery.power_plugged
    return True, None if plugged is None else not plugged
