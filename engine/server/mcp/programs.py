"""Starting a stdio server's program: its path, its environment's secrets, what it says on stderr.

On Windows `npx` and `uvx` are scripts (`npx.cmd`) that a process can be started from only under
their full name; `shutil.which` finds them through PATHEXT. The full path is used everywhere, so what
runs is what was looked up.
"""

from __future__ import annotations

import logging
import os
import shutil
import threading
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import TextIO

logger = logging.getLogger(__name__)

# Of a program's last words, this much is kept, in lines and characters.
KEPT_LINES = 5
LINE_CHARS = 300

# Shorter values ("1", "true") are no secrets, and hiding them would make sentences unreadable.
MIN_SECRET_CHARS = 6
HIDDEN = "***"


class ProgramNotFoundError(Exception):
    """The program of a server is not installed; the text is a sentence without its arguments."""


def find_program(command: str, env: Mapping[str, str], cwd: str | None) -> str:
    """The absolute path of a program.

    Args:
        command: a name such as `npx`, or a path (`~` is the home folder).
        env: the server's own variables; its PATH counts before ours.
        cwd: folder that a relative path is looked for in.

    Raises:
        ProgramNotFoundError: there is no such program.
    """
    command = os.path.expanduser(command)  # noqa: PTH111 - Path("./x") would lose its "./"
    folders = next((env[key] for key in env if key.upper() == "PATH"), os.environ.get("PATH", ""))
    is_path = any(mark and mark in command for mark in (os.sep, os.altsep))
    if is_path and cwd is not None:
        command = str(Path(cwd) / command)
    found = shutil.which(command, path=folders)
    if found is not None:
        return str(Path(found).absolute())
    name = Path(command).name
    if is_path:
        raise ProgramNotFoundError(
            f"The program {name} is not at the path that is configured, or cannot be started."
        )
    logger.warning("the program %s was not found in: %s", name, folders)
    raise ProgramNotFoundError(
        f"The program {name} was not found on the PATH; the log names the folders that were "
        "searched. Install it, or give its full path."
    )


def hide_secrets(text: str, secrets: frozenset[str]) -> str:
    """The text with configured values (keys, tokens, addresses) blotted out."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return text


def secrets_in(values: list[str]) -> frozenset[str]:
    """The values that must not be shown, also without the word before them (`Bearer KEY`)."""
    parts = {part for value in values for part in (value, *value.split(), *value.split("=")[1:])}
    return frozenset(part for part in parts if len(part) >= MIN_SECRET_CHARS)


class LastWords:
    """A pipe for a program's stderr that keeps its last lines and lets the rest go.

    A full pipe would stop the program; a file would grow without end; our own stderr is a log that
    may hold no secrets.
    """

    def __init__(self) -> None:
        reading, writing = os.pipe()
        self.writer: TextIO = os.fdopen(writing, "w", encoding="utf-8")
        self._lines: deque[str] = deque(maxlen=KEPT_LINES)
        self._thread = threading.Thread(
            target=self._read, args=(reading,), name="mcp-stderr", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Give our end of the pipe back; the reading ends when the program's is closed too."""
        self.writer.close()

    def text(self) -> str:
        """What is kept, in one line."""
        self._thread.join(timeout=0.2)  # a program that has ended has said everything then
        return " ".join(tuple(self._lines))

    def _read(self, reading: int) -> None:
        with os.fdopen(reading, encoding="utf-8", errors="replace") as lines:
            while line := lines.readline(LINE_CHARS):
                if line.strip():
                    self._lines.append(line.strip())
