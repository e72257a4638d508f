"""Which file holds a model's warm conversations, and what becomes of others'.

One file a model and settings, in `sessions/` of the data folder. Its name is a digest of everything
that the states depend on: our version, the operations, number formats (the fingerprint), and the model
file itself: sizes, times, and samples of its bytes, since reading all of it would take minutes. So a
state never meets another model, and another model's file is only ever deleted to keep to the limit.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import time
from collections.abc import Sequence
from pathlib import Path

from engine.core.errors import EngineError
from engine.sequence.saved_sessions import read_sessions, save_sessions
from engine.sequence.sessions import Sessions
from engine.sequence.state import StateStore

logger = logging.getLogger(__name__)

FOLDER = "sessions"
SUFFIX = ".sessions"
# Of a process that was ended while it wrote; another server may be writing a younger one.
_LEFT_BEHIND_S = 3600.0
_SAMPLES = 16  # of each file
_SAMPLE_BYTES = 1 << 16


class SessionFile:
    """The file of one model with its settings.

    Attributes:
        path: where it is, or will be.
    """

    def __init__(self, data_dir: Path, key: str, most_bytes: int) -> None:
        """Use the file with this key in a data folder; all files there have at most so many bytes."""
        self.path = data_dir / FOLDER / f"{key}{SUFFIX}"
        self._key = key
        self._most_bytes = most_bytes

    def read(self, sessions: Sessions, store: StateStore) -> None:
        """Take up what was saved; a file that cannot be used is said in the log and left alone."""
        self._delete_left_behind()
        if not self.path.exists():
            return
        began_at = time.perf_counter()
        try:
            count = read_sessions(self.path, self._key, sessions, store)
        except EngineError as error:
            logger.warning(
                "the saved conversations in %s are not used: %s", self.path.name, error.message
            )
            return
        logger.info(
            "saved conversations: %d checkpoints, %d bytes read in %.2f s",
            count.checkpoints,
            count.num_bytes,
            time.perf_counter() - began_at,
        )

    def save(self, sessions: Sessions, store: StateStore) -> None:
        """Write what is warm; when that fails, the log says why and nothing is lost but time."""
        began_at = time.perf_counter()
        try:
            count = save_sessions(self.path, self._key, sessions, store, self._most_bytes)
        except (EngineError, OSError) as error:
            logger.warning("the warm conversations could not be saved: %s", error)
            return
        logger.info(
            "saved conversations: %d checkpoints, %d bytes written in %.2f s",
            count.checkpoints,
            count.num_bytes,
            time.perf_counter() - began_at,
        )
        self._keep_to_limit()

    def _delete_left_behind(self) -> None:
        """Delete what was never finished: it would keep what was said, and its space, for ever."""
        for file in self.path.parent.glob(f"*{SUFFIX}.*.tmp"):
            with contextlib.suppress(OSError):
                if time.time() - file.stat().st_mtime > _LEFT_BEHIND_S:
                    file.unlink()
                    logger.info("%s was never finished and is deleted", file.name)

    def _keep_to_limit(self) -> None:
        """Delete other models' files, the oldest first, while all together are too large."""
        try:
            files = [(f.stat().st_mtime, f.stat().st_size, f) for f in self.path.parent.iterdir()]
        except OSError:
            return
        files = [entry for entry in files if entry[2].suffix == SUFFIX]
        total = sum(size for _, size, _ in files)
        for _, size, file in sorted(files):
            if total <= self._most_bytes:
                return
            if file != self.path:
                try:
                    file.unlink()
                except OSError as error:
                    logger.warning("%s cannot be deleted: %s", file.name, error)
                    continue
                logger.info("the saved conversations in %s make room for newer ones", file.name)
                total -= size


def session_key(fingerprint: str, page_tokens: int, paths: Sequence[Path]) -> str:
    """What the states of a loaded model depend on, as a short digest.

    Raises:
        OSError: a file of the model cannot be read.
    """
    digest = hashlib.sha256(f"{fingerprint} {page_tokens}".encode())
    for path in paths:
        size = path.stat().st_size
        digest.update(f"{size} {path.stat().st_mtime_ns}".encode())
        with path.open("rb") as file:
            for index in range(_SAMPLES):
                file.seek(size * index // _SAMPLES)
                digest.update(file.read(_SAMPLE_BYTES))
    return digest.hexdigest()[:24]
