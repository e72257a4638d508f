"""Remembers which files were read and found right, so that 60 GB are hashed once and not per start.

A verdict counts while size and time of change stay the same. The file is small, and losing it costs
only time.
"""

from __future__ import annotations

import logging
from pathlib import Path

from engine.core.errors import EngineError
from engine.core.files import read_json
from installer.download.disk import write_record

logger = logging.getLogger(__name__)

_FORMAT = 1


class VerifiedFiles:
    """The verdicts of one data folder."""

    def __init__(self, models_dir: Path) -> None:
        self._path = models_dir / "verified.json"
        self._known: dict[str, tuple[int, int, str]] = {}
        if not self._path.exists():
            return
        try:
            files = read_json(self._path, _FORMAT).get("files")
        except EngineError as error:
            logger.info("files will be checked again: %s", error)
            return
        for name, entry in files.items() if isinstance(files, dict) else ():
            if isinstance(entry, list) and len(entry) == 3:
                size, changed_ns, sha256 = entry
                if (
                    isinstance(size, int)
                    and isinstance(changed_ns, int)
                    and isinstance(sha256, str)
                ):
                    self._known[name] = (size, changed_ns, sha256)

    def sha256_of(self, path: Path) -> str | None:
        """The SHA-256 that the file had when it was read; None when it was not, or has changed."""
        entry = self._known.get(_key(path))
        if entry is None:
            return None
        try:
            stat = path.stat()
        except OSError:
            return None
        return entry[2] if entry[:2] == (stat.st_size, stat.st_mtime_ns) else None

    def remember(self, path: Path, sha256: str) -> None:
        """Keep a verdict.

        Raises:
            DiskError: the data folder cannot be written.
        """
        stat = path.stat()
        self._known[_key(path)] = (stat.st_size, stat.st_mtime_ns, sha256)
        self._save()

    def forget(self, path: Path) -> None:
        """Drop a verdict, so that the file is read again."""
        if self._known.pop(_key(path), None) is not None:
            self._save()

    def _save(self) -> None:
        files: dict[str, object] = {name: list(entry) for name, entry in self._known.items()}
        write_record(self._path, {"format": _FORMAT, "files": files})


def _key(path: Path) -> str:
    return str(path.absolute())
