"""The part of a file that was fetched so far, and the small file that makes it resumable.

Beside `NAME.part` lies `NAME.part.json`: what is being fetched (size and SHA-256; another file's part
is dropped) and a CRC-32 of each finished piece of 64 MiB. The part's length says how far it is, since
every chunk is written at once: a killed process loses nothing. After a power failure the end of a
part may be garbage of the right length: then a piece does not fit its CRC-32, and the part is cut
there instead of being fetched again as a whole. The SHA-256 of all bytes is kept while they arrive,
and made again from the part at a start.

    {"format": 1, "bytes": 150000000, "sha256": "ab..", "source": "..", "crc32": [1, 2]}
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from engine.core.errors import EngineError
from engine.core.files import read_json
from engine.core.sizes import size_in_words
from installer.download.control import Control
from installer.download.disk import (
    RESERVE_BYTES,
    disk_error,
    free_bytes,
    make_folder,
    rename,
    write_record,
)
from installer.errors import DiskError

logger = logging.getLogger(__name__)

PIECE_BYTES = 64 << 20
_FORMAT = 1
_READ_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class PartIdentity:
    """What is being fetched.

    Attributes:
        bytes: size when complete.
        sha256: of all bytes.
        source: where from, in words for a supporter.
    """

    bytes: int
    sha256: str
    source: str


class PartFile:
    """A file under construction. Use as a context manager."""

    def __init__(self, target: Path, identity: PartIdentity, control: Control) -> None:
        self.target = target
        self.path = part_path(target)
        self.identity = identity
        self._control = control
        self._state_path = state_path(target)
        self._digest = hashlib.sha256()
        self._crc = 0  # of the unfinished piece
        self._pieces: list[int] = []
        self._length = 0
        self._file: BinaryIO | None = None

    @property
    def length(self) -> int:
        """Bytes that are there."""
        return self._length

    @property
    def is_complete(self) -> bool:
        """Whether all bytes are there."""
        return self._length == self.identity.bytes

    def open(self, on_bytes: Callable[[int], None] | None = None) -> None:
        """Open the part, and read what is there.

        Args:
            on_bytes: told how many bytes were just read.

        Raises:
            DiskError: the folder or the part cannot be used.
            StoppedError: stop was asked for while reading.
        """
        make_folder(self.target.parent)
        if not self._load_state():
            self._discard()
        try:
            self._file = self.path.open("r+b" if self.path.exists() else "w+b", buffering=0)
            self._read_back(on_bytes or (lambda _count: None))
        except OSError as error:
            self.close()
            raise disk_error(error, self.path) from error
        except BaseException:
            self.close()
            raise
        self._save_state()

    def append(self, data: bytes) -> None:
        """Write bytes at the end.

        Raises:
            DiskError: the drive is full or gone; what was written before stays.
        """
        view = memoryview(data)
        while view:
            room = PIECE_BYTES - self._length % PIECE_BYTES
            piece = view[:room]
            self._write(piece)
            self._digest.update(piece)
            self._crc = zlib.crc32(piece, self._crc)
            self._length += len(piece)
            if self._length % PIECE_BYTES == 0:
                self._finish_piece()
            view = view[room:]

    def restart(self) -> None:
        """Forget all bytes.

        Raises:
            DiskError: the part cannot be changed.
        """
        self._reset()
        try:
            self._opened().truncate(0)
            self._opened().seek(0)
        except OSError as error:
            raise disk_error(error, self.path) from error
        self._save_state()

    def matches(self) -> bool:
        """Whether the bytes are those that were wanted."""
        return self._digest.hexdigest() == self.identity.sha256

    def finish(self) -> None:
        """Give the complete and right part its final name.

        Raises:
            DiskError: that is impossible.
        """
        try:
            os.fsync(self._opened().fileno())
        except OSError as error:
            raise disk_error(error, self.path) from error
        self.close()
        rename(self.path, self.target)
        self._state_path.unlink(missing_ok=True)

    def close(self) -> None:
        """Close the file; the part stays."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _opened(self) -> BinaryIO:
        if self._file is None:
            raise ValueError("the part is not open")
        return self._file

    def _reset(self) -> None:
        self._digest = hashlib.sha256()
        self._crc, self._pieces, self._length = 0, [], 0

    def _discard(self) -> None:
        try:
            self.path.unlink(missing_ok=True)
        except OSError as error:
            raise disk_error(error, self.path) from error
        self._reset()

    def _load_state(self) -> bool:
        """Whether the part is one of the file that is wanted."""
        if not self._state_path.exists():
            return False
        try:
            state = read_json(self._state_path, _FORMAT)
        except EngineError as error:
            logger.warning("the part %s is dropped: %s", self.path.name, error)
            return False
        if (state.get("bytes"), state.get("sha256")) != (self.identity.bytes, self.identity.sha256):
            logger.warning("the part %s is of another file and is dropped", self.path.name)
            return False
        pieces = state.get("crc32")
        if isinstance(pieces, list):
            self._pieces = [piece for piece in pieces if isinstance(piece, int)]
        return True

    def _save_state(self) -> None:
        write_record(
            self._state_path,
            {
                "format": _FORMAT,
                "bytes": self.identity.bytes,
                "sha256": self.identity.sha256,
                "source": self.identity.source,
                "crc32": list(self._pieces),
            },
        )

    def _read_back(self, on_bytes: Callable[[int], None]) -> None:
        """Hash what is there, up to the first piece that is not what was written."""
        file, expected = self._opened(), self._pieces
        self._reset()
        size = min(file.seek(0, os.SEEK_END), self.identity.bytes)
        file.seek(0)
        while self._length < size:
            before = self._digest.copy()
            start, crc = self._length, 0
            end = min(start + PIECE_BYTES, size)
            while self._length < end:
                self._control.wait_while_paused()
                data = file.read(min(_READ_BYTES, end - self._length))
                if not data:
                    break
                self._digest.update(data)
                crc = zlib.crc32(data, crc)
                self._length += len(data)
                on_bytes(len(data))
            index = start // PIECE_BYTES
            if self._length - start < PIECE_BYTES:
                self._crc = crc
                break
            if index < len(expected) and expected[index] != crc:
                logger.warning(
                    "%s is damaged at byte %d and is fetched again from there",
                    self.path.name,
                    start,
                )
                self._digest, self._length = before, start
                break
            self._pieces.append(crc)
        file.truncate(self._length)
        file.seek(self._length)

    def _write(self, data: memoryview) -> None:
        try:
            done = 0
            while done < len(data):
                done += self._opened().write(data[done:])
        except OSError as error:
            # A part of it may have been written: the length that we know of counts.
            with contextlib.suppress(OSError):
                self._opened().truncate(self._length)
                self._opened().seek(self._length)
            raise disk_error(error, self.path) from error

    def _finish_piece(self) -> None:
        self._pieces.append(self._crc)
        self._crc = 0
        try:
            # Also keeps the system from holding gigabytes back that it then writes in one go.
            os.fsync(self._opened().fileno())
        except OSError as error:
            raise disk_error(error, self.path) from error
        self._save_state()
        check_room(self.target.parent, min(PIECE_BYTES, self.identity.bytes - self._length))


def check_room(folder: Path, num_bytes: int) -> None:
    """Stop before the drive is full to the brim.

    Raises:
        DiskError: `num_bytes` more would leave too little.
    """
    free = free_bytes(folder)
    # A small file is not stopped by a drive that was nearly full before.
    reserve = min(RESERVE_BYTES, num_bytes * 4)
    if free < num_bytes + reserve:
        raise DiskError(
            f"The drive of {folder} has only {size_in_words(free)} left. Free some space and go on; "
            "what was fetched is kept.",
            code="disk_full",
            params={"path": str(folder), "free_bytes": free},
        )


def part_path(target: Path) -> Path:
    """Where the part of a file is."""
    return target.with_name(target.name + ".part")


def state_path(target: Path) -> Path:
    """Where the part's description is."""
    return target.with_name(target.name + ".part.json")


def part_length(target: Path, num_bytes: int, sha256: str) -> int:
    """Bytes that a part has of this file, without reading it; 0 for none or another file's."""
    state = state_path(target)
    if not state.exists():
        return 0
    try:
        content = read_json(state, _FORMAT)
        if (content.get("bytes"), content.get("sha256")) != (num_bytes, sha256):
            return 0
        return min(part_path(target).stat().st_size, num_bytes)
    except (EngineError, OSError):
        return 0


def delete_part(target: Path) -> None:
    """Delete the part of a file and its description."""
    for path in (part_path(target), state_path(target)):
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
