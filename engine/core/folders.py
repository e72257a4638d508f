"""The folder for what can be made again: compiled kernels, mostly."""

from __future__ import annotations

from pathlib import Path


def cache_folder() -> Path:
    """This person's; it need not exist."""
    try:
        import platformdirs  # noqa: PLC0415  # a card can be checked where the package is missing
    except ImportError:
        return Path.home() / ".cache" / "stratum"
    return Path(platformdirs.user_cache_dir("stratum", appauthor=False))
