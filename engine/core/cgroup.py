"""Limits that the system sets for the control group of this process (containers, slices).

A process lives in a path of groups, each of which may be limited; the tightest limit counts. In a
container the path usually reads as `/` and the container's own limits lie at the root; where it shows
the host's path, that does not exist inside, and the root counts again. Version 2 has one tree of
groups, version 1 one for each resource. A group's `memory.high` counts like its `memory.max`: above
it the system does not kill, but holds the process up until it has given memory back.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

ROOT = Path("/sys/fs/cgroup")
MEMBERSHIP = Path("/proc/self/cgroup")

_NO_LIMIT_BYTES = 1 << 60  # values above this mean "no limit"


@dataclass(frozen=True, slots=True)
class MemoryLimit:
    """What this process's groups allow.

    Attributes:
        total_bytes: the tightest limit.
        available_bytes: what can still be taken without meeting one.
    """

    total_bytes: int
    available_bytes: int


def memory_limit(root: Path = ROOT, membership: Path = MEMBERSHIP) -> MemoryLimit | None:
    """The memory limit, or None when there is none.

    File cache is not counted as used: it can be dropped, and a mapped model would else look like
    memory that is gone.
    """
    found: list[tuple[int, int]] = []  # limit, left
    for folder, limit_names, used_name in (
        *(
            (f, ("memory.max", "memory.high"), "memory.current")
            for f in _groups(root, membership, "")
        ),
        *(
            (f, ("memory.limit_in_bytes",), "memory.usage_in_bytes")
            for f in _groups(root, membership, "memory")
        ),
    ):
        for limit in (_number(folder / name) for name in limit_names):
            if limit is not None and limit < _NO_LIMIT_BYTES:
                used = (_number(folder / used_name) or 0) - _file_cache_bytes(
                    folder / "memory.stat"
                )
                found.append((limit, max(0, limit - max(0, used))))
    if not found:
        return None
    return MemoryLimit(min(limit for limit, _ in found), min(left for _, left in found))


def cpu_limit(root: Path = ROOT, membership: Path = MEMBERSHIP) -> float | None:
    """How many processors' time this process may use, or None when that is not limited."""
    shares: list[float] = []
    for folder in _groups(root, membership, ""):
        quota, _, period = _text(folder / "cpu.max").partition(" ")
        shares += _share(quota, period)
    for folder in _groups(root, membership, "cpu"):
        shares += _share(_text(folder / "cpu.cfs_quota_us"), _text(folder / "cpu.cfs_period_us"))
    return min(shares, default=None)


def _share(quota: str, period: str) -> list[float]:
    if quota.isdecimal() and period.isdecimal() and int(quota) > 0 and int(period) > 0:
        return [int(quota) / int(period)]
    return []


def _groups(root: Path, membership: Path, controller: str) -> list[Path]:
    """Folders of this process's group and its parents, for version 1's controller or version 2."""
    if sys.platform == "win32" and root is ROOT:
        return []
    top = root / controller if controller else root
    path = PurePosixPath("/")
    for line in _text(membership).splitlines():
        _, _, rest = line.partition(":")
        names, _, where = rest.partition(":")
        is_ours = controller in names.split(",") if controller else names == ""
        if is_ours and where.startswith("/") and ".." not in where.split("/"):
            path = PurePosixPath(where)
    inner = path.relative_to("/")
    return [top / inner, *(top / parent for parent in inner.parents)] if inner.parts else [top]


def _file_cache_bytes(path: Path) -> int:
    """Pages of files in a group and those below it; locked ones are on neither list."""
    sums = dict.fromkeys(("inactive_file", "active_file"), 0)
    of_subgroups = dict.fromkeys((f"total_{name}" for name in sums), 0)  # version 1 tells both
    for line in _text(path).splitlines():
        name, _, value = line.partition(" ")
        for counts in (sums, of_subgroups):
            if name in counts and value.isdecimal():
                counts[name] = int(value)
    return max(sum(sums.values()), sum(of_subgroups.values()))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""


def _number(path: Path) -> int | None:
    text = _text(path)
    return int(text) if text.isdecimal() else None
