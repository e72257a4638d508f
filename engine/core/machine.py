"""Facts about this machine that placement and kernels need: processor and memory.

Nothing here fails when a source is missing: the fact is then None, or the next source's. GPUs, disks
and network belong to the installer's probe, which builds on this.
"""

from __future__ import annotations

import os
import platform
import sys
from dataclasses import dataclass
from pathlib import Path

import psutil

from engine.core.cgroup import memory_limit
from engine.core.operating_system import architecture, system_name


@dataclass(frozen=True, slots=True)
class Machine:
    """What a placement is computed for.

    Attributes:
        system: `Linux` or `Windows`.
        cpu_name: as the system calls it.
        physical_cores: cores, without their second threads.
        logical_cores: what this process may run on.
        ram_total_bytes: physical memory, or the container's limit where that is smaller.
        ram_available_bytes: what can be used without swapping, within that limit.
        swap_total_bytes: page file or swap.
    """

    system: str
    cpu_name: str
    physical_cores: int
    logical_cores: int
    ram_total_bytes: int
    ram_available_bytes: int
    swap_total_bytes: int


def probe_machine() -> Machine:
    """Look at this machine; a few milliseconds."""
    memory = psutil.virtual_memory()
    total, available = memory.total, memory.available
    limit = memory_limit()
    if limit is not None:
        total, available = min(total, limit.total_bytes), min(available, limit.available_bytes)
    logical = _usable_cores()
    physical = psutil.cpu_count(logical=False) or logical
    return Machine(
        system=system_name(),
        cpu_name=_cpu_name(),
        physical_cores=max(1, min(physical, logical)),
        logical_cores=logical,
        ram_total_bytes=int(total),
        ram_available_bytes=int(available),
        swap_total_bytes=int(_swap_bytes()),
    )


def _usable_cores() -> int:
    try:
        return len(psutil.Process().cpu_affinity()) or 1
    except (AttributeError, OSError, psutil.Error):
        return psutil.cpu_count(logical=True) or 1


def _swap_bytes() -> int:
    try:
        return int(psutil.swap_memory().total)
    except (OSError, RuntimeError, psutil.Error):
        return 0


def _cpu_name() -> str:
    if sys.platform == "win32":
        return _cpu_name_windows()
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or architecture() or "unknown processor"


def _cpu_name_windows() -> str:
    if sys.platform == "win32":
        import winreg  # noqa: PLC0415  # exists on Windows only

        key_path = r"HARDWARE\DESCRIPTION\System\CentralProcessor\0"
        try:
            with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, key_path) as key:
                return str(winreg.QueryValueEx(key, "ProcessorNameString")[0]).strip()
        except OSError:
            pass
    return os.environ.get("PROCESSOR_IDENTIFIER") or "unknown processor"
