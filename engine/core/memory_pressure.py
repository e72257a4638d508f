"""Whether the memory of this machine, or of this process's group, runs low.

    watch = system_watch(watches_stalls=True)
    watch.is_low()

Linux: what is available (file cache counts: it can be dropped), and the share of the time in which all work
stood still for memory (PSI). Windows has a notification of its own for it. A model whose experts come from
the disk makes the system drop and read pages all the time; stalls say nothing then.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import psutil

from engine.core.cgroup import memory_limit

PSI = Path("/proc/pressure/memory")
# Below this share of the memory it is low, and never above or below these sizes.
_LOW_SHARE = 0.03
_LOW_LEAST_BYTES = 256 << 20
_LOW_MOST_BYTES = 1 << 30
_STALLED_SHARE = 10.0  # percent of the last 10 seconds
_LOW_MEMORY_NOTIFICATION = 0  # of Windows

Memory = tuple[int, int]  # (total, available) bytes


class MemoryWatch(Protocol):
    """Looks at the memory; cheap enough for every second."""

    def is_low(self) -> bool:
        """Whether others, or we, will soon wait for memory."""


def system_watch(*, watches_stalls: bool = True) -> MemoryWatch:
    """This operating system's.

    Args:
        watches_stalls: whether time spent waiting for memory counts (Linux).
    """
    if sys.platform == "win32":
        return WindowsWatch(ctypes.WinDLL("kernel32", use_last_error=True))
    return LinuxWatch(PSI if watches_stalls else None)


def low_mark_bytes(total_bytes: int) -> int:
    """Below so much available memory is low."""
    return max(_LOW_LEAST_BYTES, min(int(total_bytes * _LOW_SHARE), _LOW_MOST_BYTES))


def memory_now() -> Memory:
    """Memory of the machine, or of this process's group where that allows less."""
    memory = psutil.virtual_memory()
    total, available = int(memory.total), int(memory.available)
    limit = memory_limit()
    if limit is None:
        return total, available
    return min(total, limit.total_bytes), min(available, limit.available_bytes)


class LinuxWatch:
    """Available memory and stalls.

    Args:
        psi: the file that tells of stalls; None = these do not count.
        memory: total and available bytes.
    """

    def __init__(self, psi: Path | None, memory: Callable[[], Memory] = memory_now) -> None:
        self._psi = psi
        self._memory = memory

    def is_low(self) -> bool:
        """By both."""
        total, available = self._memory()
        return available < low_mark_bytes(total) or self._stalled() >= _STALLED_SHARE

    def _stalled(self) -> float:
        """Percent of the last ten seconds; 0 where nothing tells."""
        if self._psi is None:
            return 0.0
        try:
            lines = self._psi.read_text(encoding="ascii").splitlines()
        except (OSError, ValueError):
            return 0.0
        for line in lines:
            if line.startswith("full "):
                for part in line.split():
                    name, _, value = part.partition("=")
                    if name == "avg10":
                        return float(value)
        return 0.0


class WindowsWatch:
    """Windows' own notification.

    Args:
        kernel: kernel32.
    """

    def __init__(self, kernel: ctypes.CDLL) -> None:
        self._kernel = kernel
        kernel.CreateMemoryResourceNotification.restype = ctypes.c_void_p
        kernel.QueryMemoryResourceNotification.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
        self._handle = kernel.CreateMemoryResourceNotification(_LOW_MEMORY_NOTIFICATION)

    def is_low(self) -> bool:
        """What the notification says; False where there is none."""
        state = ctypes.c_int(0)
        if not self._handle:
            return False
        told = self._kernel.QueryMemoryResourceNotification(self._handle, ctypes.addressof(state))
        return bool(told) and bool(state.value)
