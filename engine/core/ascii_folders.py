"""Folders whose paths are plain ASCII, for the tools that can handle no other.

CUDA's compiler and CuPy write caches and temporary files, and fail below a folder such as
`C:/Users/Željko` (the most repeated complaint about engines on Windows). Python itself does not
care, so this is for the environment of processes that compile kernels.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from collections.abc import MutableMapping
from pathlib import Path

_CUPY_CACHE = "CUPY_CACHE_DIR"
_TEMPORARY = ("TEMP", "TMP") if sys.platform == "win32" else ("TMPDIR",)


def ascii_folder(preferred: Path) -> Path | None:
    """A folder of ours with a plain path: the preferred one, else one that every user of a PC has.

    None when none can be made. A user's name is in no path: a hash of it keeps users apart.
    """
    candidates = [preferred] if is_plain(preferred) else cache_folders_of_this_person()
    for folder in candidates:
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError:
            continue
        if os.access(folder, os.W_OK):
            return folder
    return None


def cache_folders_of_this_person() -> list[Path]:
    """Where such a folder may be, outside the person's own folders; they need not exist."""
    user = hashlib.sha256(str(Path.home()).encode()).hexdigest()[:12]
    return [folder / "Stratum" / user for folder in _common_folders()]


def use_ascii_folders(
    preferred: Path, environment: MutableMapping[str, str] = os.environ
) -> Path | None:
    """Point the caches and temporary files of this process and its children to plain paths.

    What the person has set to a plain path stays.

    Args:
        preferred: our cache folder.
        environment: to change.

    Returns:
        The folder, when something was changed.
    """
    cache = Path(environment.get(_CUPY_CACHE) or Path.home() / ".cupy")  # CuPy's own default
    temporary = Path(environment.get(_TEMPORARY[0]) or tempfile.gettempdir())
    needs_cache = not is_plain(cache)
    needs_temporary = not is_plain(temporary)
    if not (needs_cache or needs_temporary):
        return None
    folder = ascii_folder(preferred)
    if folder is None:
        return None
    if needs_cache:
        environment[_CUPY_CACHE] = str(folder / "cupy")
    if needs_temporary:
        (folder / "temp").mkdir(exist_ok=True)
        for name in _TEMPORARY:
            environment[name] = str(folder / "temp")
    return folder


def is_plain(path: Path) -> bool:
    """Whether the path is ASCII all along."""
    return str(path.absolute()).isascii()


def _common_folders() -> list[Path]:
    """Folders that every user may write below, and whose paths are plain."""
    if sys.platform == "win32":
        names = (os.environ.get("PROGRAMDATA"), os.environ.get("PUBLIC"))
        found = [Path(name) for name in names if name]
    else:
        found = [Path("/var/tmp"), Path("/tmp")]  # noqa: S108  # a folder of our own in it
    return [folder for folder in found if is_plain(folder)]
