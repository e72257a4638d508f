"""A limit on the memory of this process, for children that load hostile files."""

from __future__ import annotations

import contextlib
from pathlib import Path


def limit_address_space(extra_bytes: int) -> None:
    """Make every allocation fail that would bring this process `extra_bytes` above what it has."""
    with contextlib.suppress(ImportError):  # Windows has no such limit; the rest is checked there
        import resource  # noqa: PLC0415  POSIX only

        used_pages = int(Path("/proc/self/statm").read_text("ascii").split()[0])
        limit = used_pages * resource.getpagesize() + extra_bytes
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
