"""The cores of this machine, and how many threads the CPU kernels take by themselves.

cores = read_cores()
default_threads(cores, cpu_limit())
"""

from __future__ import annotations

import math
import os
import struct
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.core.cgroup import cpu_limit

_SYSTEM = Path("/sys/devices")


@dataclass(frozen=True, slots=True)
class Core:
    """A physical core that this process may use.

    Attributes:
        cpus: the system's numbers of its hardware threads, those that may be used.
        is_slow: an efficiency core beside faster ones.
    """

    cpus: tuple[int, ...]
    is_slow: bool = False


def default_threads(cores: Sequence[Core], limit: float | None = None) -> int:
    """Threads that share the work when the config names no number, the calling one included.

    One thread for each core: weights are read once and at the speed of memory, a second thread on a
    core adds nothing. Where slow cores outnumber the fast ones, half of the slow ones: all of them
    together wait for memory, and a job ends with its slowest thread (measured by others: 8 fast and
    16 slow cores decode 1.5 times as fast with 16 threads as with 24). A container's share of
    processor time bounds the number, rounded: more would be stopped in the middle of a job.
    """
    slow = sum(core.is_slow for core in cores)
    fast = len(cores) - slow
    threads = fast + slow // 2 if slow > fast > 0 else fast + slow
    if limit is not None:
        threads = min(threads, math.floor(limit + 0.5))
    return max(1, threads)


def default_threads_here() -> int:
    """`default_threads` of this machine."""
    return default_threads(read_cores(), cpu_limit())


def pinned_cpus(cores: Sequence[Core], threads: int) -> list[int]:
    """One processor for each thread, fast cores first; empty when there are more threads than cores.

    The first one is the caller's, who is not held to it.
    """
    if threads > len(cores):
        return []
    return [core.cpus[0] for core in sorted(cores, key=lambda core: core.is_slow)][:threads]


def read_cores() -> list[Core]:
    """The cores that this process may use; equal ones where the system says nothing."""
    usable = _usable_cpus()
    try:
        cores = _windows_cores() if sys.platform == "win32" else linux_cores(_SYSTEM)
    except (OSError, ValueError, struct.error):
        cores = []
    cores = [
        Core(cpus, core.is_slow)
        for core in cores
        if (cpus := tuple(cpu for cpu in core.cpus if cpu in usable))
    ]
    if cores:
        return cores
    return [Core((cpu,)) for cpu in sorted(usable)[: max(1, _physical_cores() or len(usable))]]


def _physical_cores() -> int | None:
    try:
        import psutil  # noqa: PLC0415  # needed only where the system describes no cores
    except ImportError:
        return None
    count: int | None = psutil.cpu_count(logical=False)
    return count


def _usable_cpus() -> set[int]:
    asked = getattr(os, "sched_getaffinity", None)
    if asked is not None:
        return set(asked(0))
    import psutil  # noqa: PLC0415  # needed only where the system's own call is not in Python

    try:
        return set(psutil.Process().cpu_affinity())
    except (AttributeError, OSError, psutil.Error):
        return set(range(psutil.cpu_count(logical=True) or os.cpu_count() or 1))


def linux_cores(system: Path) -> list[Core]:
    """The cores as sysfs describes them.

    Intel lists its efficiency cores as `cpu_atom`; elsewhere a core is slow when its capacity is at
    most three quarters of the largest.
    """
    slow = parse_cpu_list(_text(system / "cpu_atom" / "cpus"))
    capacities: dict[int, int] = {}
    groups: dict[tuple[int, ...], None] = {}
    for folder in sorted((system / "cpu").glob("cpu[0-9]*")):
        number = folder.name.removeprefix("cpu")
        if not number.isdecimal():
            continue
        topology = folder / "topology"
        siblings = _text(topology / "core_cpus_list") or _text(topology / "thread_siblings_list")
        if siblings:
            groups[tuple(sorted(parse_cpu_list(siblings)))] = None
        capacity = _text(folder / "cpu_capacity")
        if capacity.isdecimal():
            capacities[int(number)] = int(capacity)
    if not slow and capacities:
        limit = max(capacities.values()) * 0.75
        slow = {cpu for cpu, capacity in capacities.items() if capacity <= limit}
    return [Core(cpus, cpus[0] in slow) for cpus in sorted(groups)]


def parse_cpu_list(text: str) -> set[int]:
    """Numbers of a list such as `0-3,8`.

    >>> sorted(parse_cpu_list("0-2,8"))
    [0, 1, 2, 8]
    """
    cpus: set[int] = set()
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        if first:
            cpus.update(range(int(first), int(last or first) + 1))
    return cpus


def _windows_cores() -> list[Core]:
    if sys.platform == "win32":
        import ctypes  # noqa: PLC0415  # its WinDLL exists only there

        function = ctypes.WinDLL("kernel32").GetLogicalProcessorInformationEx
        size = ctypes.c_uint32(0)
        function(0, None, ctypes.byref(size))  # 0: RelationProcessorCore
        buffer = ctypes.create_string_buffer(size.value)
        if function(0, buffer, ctypes.byref(size)):
            return windows_cores(buffer.raw[: size.value])
    return []


def windows_cores(records: bytes) -> list[Core]:
    """The cores of SYSTEM_LOGICAL_PROCESSOR_INFORMATION_EX records of kind 0 (64-bit Windows).

    A core is slow when its efficiency class is below the highest.
    """
    found: list[tuple[tuple[int, ...], int]] = []
    at = 0
    while at < len(records):
        kind, size = struct.unpack_from("<II", records, at)
        if size < 8:
            raise ValueError("a record without a size")
        if kind == 0:
            _flags, efficiency, num_groups = struct.unpack_from("<BB20xH", records, at + 8)
            cpus: list[int] = []
            for index in range(num_groups):
                mask, group = struct.unpack_from("<QH", records, at + 32 + 16 * index)
                cpus += [64 * group + bit for bit in range(64) if mask >> bit & 1]
            if cpus:
                found.append((tuple(cpus), efficiency))
        at += size
    highest = max((efficiency for _, efficiency in found), default=0)
    return [Core(cpus, efficiency < highest) for cpus, efficiency in sorted(found)]


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""
