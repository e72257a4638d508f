"""How much memory this process holds, on Linux and on Windows.

Pages of mapped files count as resident but can be dropped and read again; private memory cannot.
"""

from __future__ import annotations

import sys
from pathlib import Path


def peak_resident_bytes() -> int:
    """The most that was ever resident in this process, pages of mapped files included."""
    if sys.platform == "win32":
        import psutil  # noqa: PLC0415  # what a model needs of this file must not need it

        return int(psutil.Process().memory_info().peak_wset)
    import resource  # noqa: PLC0415  # exists on POSIX only

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def major_faults() -> int | None:
    """How often this process touched a page that the disk had to deliver; None where nothing tells.

    Windows counts such faults together with those that memory answers.
    """
    if sys.platform == "win32":
        return None
    import resource  # noqa: PLC0415  # exists on POSIX only

    return resource.getrusage(resource.RUSAGE_SELF).ru_majflt


def private_bytes(pid: int | None = None) -> int:
    """What a process holds beside pages of files.

    Args:
        pid: the process, None for this one.

    Raises:
        psutil.Error: there is no such process, or it may not be looked at.
    """
    import psutil  # noqa: PLC0415  # what a model needs of this file must not need it

    process = psutil.Process(pid)
    try:
        status = Path(f"/proc/{process.pid}/status").read_text(encoding="utf-8")
    except OSError:
        information = process.memory_info()
        return int(getattr(information, "private", information.rss))
    for line in status.splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    return int(process.memory_info().rss)
