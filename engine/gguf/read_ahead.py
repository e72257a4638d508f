"""Bring a model's bytes into the system's page cache before they are computed with.

Tensors are used where they lie in the mapped file, so without this the first request would wait for
the disk, page by page and in the order of the computation. Read in order and by several threads, the
disk gives what it can, progress can be told, and a bad disk is a sentence instead of a dead process.
What is cached already is not read again, where the system can tell (Linux).
"""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from engine.core.errors import ModelFileError
from engine.core.gguf_header import ModelHeader
from engine.core.gguf_values import printable

Progress = Callable[[int, int], None]  # (bytes done, bytes in all)

_PIECE_BYTES = 4 << 20
_PROBES = 4  # places of a piece that are looked at to tell whether it is cached
_THREADS = 8  # enough requests in flight for any SSD; a hard disk still sees them nearly in order


@dataclass(frozen=True, slots=True)
class _Piece:
    path: Path
    start: int
    num_bytes: int


def read_ahead(header: ModelHeader, names: Collection[str], progress: Progress) -> int:
    """Read tensors into the page cache.

    Args:
        header: of the model.
        names: of the tensors; the others stay on the disk.
        progress: called after each piece that had to be read.

    Returns:
        How many bytes had to be read; 0 when all of them were cached.

    Raises:
        ModelFileError: the disk cannot read the file.
    """
    pieces = list(_pieces(header, names))
    total = sum(piece.num_bytes for piece in pieces)
    missing = _not_cached(pieces)
    num_missing = sum(piece.num_bytes for piece in missing)
    num_read = 0
    with ThreadPoolExecutor(_THREADS) as pool:
        for piece, _ in zip(missing, pool.map(_read, missing), strict=True):
            num_read += piece.num_bytes
            progress(total - num_missing + num_read, total)
    return num_read


def _pieces(header: ModelHeader, names: Collection[str]) -> Iterator[_Piece]:
    """The bytes of the tensors, file by file in ascending order."""
    for path, shard in zip(header.paths, header.shards, strict=True):
        for tensor in sorted(shard.tensors, key=lambda info: info.offset):
            if tensor.name not in names:
                continue
            first = shard.data_start + tensor.offset
            for start in range(0, tensor.num_bytes, _PIECE_BYTES):
                size = min(_PIECE_BYTES, tensor.num_bytes - start)
                yield _Piece(path, first + start, size)


def _not_cached(pieces: list[_Piece]) -> list[_Piece]:
    """Those that the disk must be asked for; a large model's thousands take a tenth of a second."""
    missing: list[_Piece] = []
    for path, group in itertools.groupby(pieces, key=lambda piece: piece.path):
        try:
            with path.open("rb", buffering=0) as file:
                missing += [piece for piece in group if not _is_cached(file.fileno(), piece)]
        except OSError as error:
            raise _unreadable(path, 0, error) from error
    return missing


def _read(piece: _Piece) -> None:
    try:
        with piece.path.open("rb", buffering=0) as file:
            _ask_for(file.fileno(), piece)
            file.seek(piece.start)
            buffer = memoryview(bytearray(piece.num_bytes))
            while buffer:
                count = file.readinto(buffer)
                if not count:  # shorter than its header says: found where it is computed with
                    break
                buffer = buffer[count:]
    except OSError as error:
        raise _unreadable(piece.path, piece.start, error) from error


def _ask_for(descriptor: int, piece: _Piece) -> None:
    """Have all of a piece read at once, however little the system reads ahead by itself."""
    if hasattr(os, "posix_fadvise"):
        with contextlib.suppress(OSError):  # reading meets the error, if it is one
            os.posix_fadvise(descriptor, piece.start, piece.num_bytes, os.POSIX_FADV_WILLNEED)


def _unreadable(path: Path, start: int, error: OSError) -> ModelFileError:
    return ModelFileError(
        f"The file {printable(str(path), 400)} cannot be read at byte {start} "
        f"({error.strerror or error}); check the disk, or download the file again.",
        code="file_unreadable",
        params={"file": str(path)},
    )


def _is_cached(descriptor: int, piece: _Piece) -> bool:
    """Whether some bytes of a piece come without waiting; False where that cannot be asked."""
    if not hasattr(os, "RWF_NOWAIT") or not hasattr(os, "preadv"):
        return False
    probe = bytearray(1)
    step = max(1, piece.num_bytes // _PROBES)
    last = piece.num_bytes - 1
    try:
        return all(
            os.preadv(descriptor, [probe], piece.start + min(offset, last), os.RWF_NOWAIT) == 1
            for offset in (*range(0, piece.num_bytes, step), last)
        )
    except OSError:  # would wait for the disk, or the file system does not know this
        return False
