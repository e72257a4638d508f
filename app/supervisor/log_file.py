"""The engine's output on disk: UTF-8, in files of bounded size, read off its pipe by a thread.

engine.log      the newest lines
engine.1.log    older ones; engine.3.log is the oldest that is kept
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections import deque
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import BinaryIO

logger = logging.getLogger(__name__)

MAX_BYTES = 4 << 20
NUM_KEPT = 3
_MAX_LINE_BYTES = 1 << 16
_LAST_LINES = 60


class RotatingLog:
    """A log file that is put aside when it has grown too large.

    A disk that is full, or a file that somebody else holds, costs lines and never an error: the pipe
    behind it must be read on.
    """

    def __init__(self, path: Path, *, max_bytes: int = MAX_BYTES, num_kept: int = NUM_KEPT) -> None:
        self.path = path
        self._max_bytes = max_bytes
        self._num_kept = num_kept
        self._lock = threading.Lock()
        self._file: BinaryIO | None = None
        self._size = 0
        self._has_complained = False

    def older(self, number: int) -> Path:
        """Where the log lies that was put aside `number` times."""
        return self.path.with_name(f"{self.path.stem}.{number}{self.path.suffix}")

    def write_line(self, line: str) -> None:
        """Append a line."""
        data = line.encode("utf-8", "replace") + b"\n"
        with self._lock:
            try:
                if self._file is None:
                    self._open()
                if self._size and self._size + len(data) > self._max_bytes:
                    self._rotate()
                if self._file is not None:
                    self._file.write(data)
                    self._file.flush()
                    self._size += len(data)
            except OSError as error:
                self._complain(error)

    def close(self) -> None:
        """Close the file; the next line opens it again."""
        with self._lock:
            self._close()

    def _open(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self.path.open("ab")
        self._size = self._file.tell()

    def _close(self) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.close()
            self._file = None

    def _rotate(self) -> None:
        self._close()
        try:
            for number in range(self._num_kept - 1, 0, -1):
                if self.older(number).exists():
                    self.older(number).replace(self.older(number + 1))
            self.path.replace(self.older(1))
        except OSError as error:  # Windows: somebody reads it
            self._complain(error)
        self._open()
        if self._size > 2 * self._max_bytes:  # it could not be put aside for long
            self._close()
            self._file = self.path.open("wb")
            self._size = 0

    def _complain(self, error: OSError) -> None:
        if not self._has_complained:
            self._has_complained = True
            logger.warning("the engine's log %s loses lines: %s", self.path, error)


class LogPump:
    """Reads a pipe to its end, into a log.

    Args:
        pipe: the engine's output; closed at its end.
        log: where it goes.
        on_line: told each line, on the pump's thread.
    """

    def __init__(self, pipe: BinaryIO, log: RotatingLog, on_line: Callable[[str], None]) -> None:
        self._pipe = pipe
        self._log = log
        self._on_line = on_line
        self._last: deque[str] = deque(maxlen=_LAST_LINES)
        self._thread = threading.Thread(target=self._run, name="engine-log", daemon=True)

    def start(self) -> None:
        """Begin to read."""
        self._log.write_line(f"--- {datetime.now().astimezone():%Y-%m-%d %H:%M:%S %z} start ---")
        self._thread.start()

    def last_lines(self, wait_s: float = 0.0) -> list[str]:
        """The newest lines; waits for the pipe's end for so long."""
        self._thread.join(wait_s)
        return list(self._last)

    def _run(self) -> None:
        with self._pipe:
            while True:
                try:
                    raw = self._pipe.readline(_MAX_LINE_BYTES)
                except (OSError, ValueError):
                    break
                if not raw:
                    break
                line = raw.decode("utf-8", "replace").rstrip("\r\n")
                self._last.append(line)
                self._log.write_line(line)
                self._on_line(line)
        self._log.close()
