"""The n-gram table on the disk: rows are asked for as soon as token ids are known, and collected late.

    table = NgramTable.open(path, offset=..., num_rows=..., columns=160, ggml_type=GgmlType.IQ4_NL)
    table.request(rows)          # [R, heads] int64: reads begin, nothing waits
    table.collect(rows, out)     # the rows' bytes, [R * heads, row_bytes] uint8; waits for the disk

A request is a hint: collecting is complete without it, and what was requested in vain makes room in the
cache sooner or later. Operations collect by themselves (`Ops.gather_rows`), inside the library where the
pass is a recorded list. The work is done by engine/kernels/host/row_reader.cpp; which file and which mode
is decided in `ngram_table_modes`.
"""

from __future__ import annotations

import ctypes
import os
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from engine.core.disk_reads import NGRAM_TABLE, DiskReads
from engine.core.errors import ModelFileError, ResourceError
from engine.core.ggml_types import GgmlType, row_bytes
from engine.core.gguf_values import printable
from engine.core.ngram_numbers import CACHE_ROWS, PAGE_BYTES
from engine.kernels.library import HostLibrary, load_library

RowArray = npt.NDArray[np.int64]

_THREADS, _BUFFERED = 1, 2  # PageIoKind of page_io.h
_NOT_READ, _OUT_OF_MEMORY = 3, 2  # Status of api.h


class _Figures(ctypes.Structure):
    """`RowFigures` of row_reader.h."""

    _fields_ = tuple(
        (name, ctypes.c_int64)
        for name in (
            *("rows", "hits", "reads", "read_bytes", "wait_ns", "waits"),
            *("failed_reads", "cached_rows", "evicted_rows", "kind"),
        )
    )


class _Failure(ctypes.Structure):
    """`RowFailure` of row_reader.h."""

    _fields_ = (("offset", ctypes.c_int64), ("error", ctypes.c_int64))


@dataclass(frozen=True, slots=True)
class TableFigures:
    """What a table has done since it was opened.

    Attributes:
        rows: collected rows.
        hits: of these, rows for which nothing had to be read.
        reads: of the disk, of one page or of two neighbouring ones.
        read_bytes: by these reads.
        wait_s: in which collecting waited for the disk.
        waits: collections that had to wait.
        failed_reads: reads that the system gave an error for.
        cached_rows: rows in the cache now.
        evicted_rows: rows that made room for others.
    """

    rows: int = 0
    hits: int = 0
    reads: int = 0
    read_bytes: int = 0
    wait_s: float = 0.0
    waits: int = 0
    failed_reads: int = 0
    cached_rows: int = 0
    evicted_rows: int = 0


class NgramTable:
    """A table in a file, its reads and the cache of its rows. Calls may come from any thread, in turn.

    Attributes:
        name: of the tensor or file, for messages.
        num_rows: rows.
        columns: values of a row.
        type: how they are stored.
        row_bytes: bytes of a row.
        reader: address of the library's object.
        is_unbuffered: reads pass the system's cache by.
        uses_threads: a few threads read, because the kernel's queues cannot be used.
    """

    def __init__(
        self,
        path: Path,
        offset: int,
        num_rows: int,
        columns: int,
        ggml_type: GgmlType,
        *,
        cache_rows: int = CACHE_ROWS,
        is_buffered: bool = False,
        uses_threads: bool = False,
        library: HostLibrary | None = None,
    ) -> None:
        """Open the file.

        Args:
            path: of the file.
            offset: where the table begins in it.
            num_rows: rows.
            columns: values of a row.
            ggml_type: how they are stored.
            cache_rows: rows that the cache has room for.
            is_buffered: read through the system's cache even where it could be passed by.
            uses_threads: read by threads even where the kernel has queues for it.
            library: the host kernels.

        Raises:
            ModelFileError: the file cannot be opened.
            ResourceError: no memory for the cache, no library, or rows larger than a page.
        """
        self._library = load_library() if library is None else library
        self.path = path
        self.num_rows, self.columns, self.type = num_rows, columns, ggml_type
        self.row_bytes = row_bytes(ggml_type, columns)
        self.reader = 0
        if not 0 < self.row_bytes <= PAGE_BYTES or num_rows >= 1 << 32:
            raise ResourceError(
                f"Rows of {self.row_bytes} bytes cannot be read one by one; set ngram_mode to mapped."
            )
        error = ctypes.c_int32(0)
        wanted = _THREADS * uses_threads | _BUFFERED * is_buffered
        sizes = (offset, num_rows, self.row_bytes, min(cache_rows, num_rows), wanted)
        name = _encoded(path)
        reader = self._library.rows_open(name, *sizes, ctypes.addressof(error))
        if not reader:
            raise _open_error(path, error.value)
        self.reader = int(reader)
        self._figures = _Figures()
        self._figures_at = ctypes.addressof(self._figures)
        self._library.rows_figures(self.reader, self._figures_at)
        self.uses_threads = bool(self._figures.kind & _THREADS)
        self.is_unbuffered = not self._figures.kind & _BUFFERED

    def request(self, rows: RowArray) -> None:
        """Begin to read rows that will be collected; C-contiguous int64 of any shape.

        Raises:
            ValueError: a row is not in the table.
        """
        status = self._library.rows_request(self.reader, _address(rows), rows.size)
        if status == _OUT_OF_MEMORY:
            return  # collecting says so, when it comes to that
        if status:
            raise ValueError(f"rows of {self.path.name} are asked for that it does not have")

    def collect(self, rows: RowArray, out: npt.NDArray[np.uint8]) -> None:
        """Write the rows' bytes to `out` `[rows.size, row_bytes]`; waits for the disk.

        Raises:
            ValueError: a row is not in the table, or `out` has not its size.
            ModelFileError: the disk fails to deliver.
        """
        if out.nbytes != rows.size * self.row_bytes or not out.flags.c_contiguous:
            raise ValueError(f"{out.nbytes} bytes for {rows.size} rows of {self.row_bytes}")
        status = self._library.rows_collect(self.reader, _address(rows), rows.size, out.ctypes.data)
        if status == _NOT_READ:
            raise self.failure()
        if status == _OUT_OF_MEMORY:
            raise ResourceError("There is not enough memory to read rows of the n-gram table.")
        if status:
            raise ValueError(f"rows of {self.path.name} are asked for that it does not have")

    def advance(self) -> None:
        """Take in what has been read and start further reads; for between the layers of a pass."""
        self._library.rows_advance(self.reader)

    def shrink(self) -> int:
        """Halve the room of the cache for good, and give that memory back: its bytes.

        0 when nothing is cached, or the cache is small already.
        """
        return self._library.rows_shrink(self.reader)

    @property
    def figures(self) -> TableFigures:
        """Counts up to now."""
        found = self._figures
        self._library.rows_figures(self.reader, self._figures_at)
        return TableFigures(
            *(found.rows, found.hits, found.reads, found.read_bytes),
            *(found.wait_ns / 1e9, found.waits),
            *(found.failed_reads, found.cached_rows, found.evicted_rows),
        )

    @property
    def disk_reads(self) -> DiskReads:
        """The same as one tier of the model."""
        now = self.figures
        return DiskReads(NGRAM_TABLE, now.reads, now.read_bytes, now.hits, now.wait_s * 1000)

    def failure(self) -> ModelFileError:
        """The error of the newest collection that failed."""
        found = _Failure()
        self._library.rows_failure(self.reader, ctypes.addressof(found))
        name, offset = printable(str(self.path), 400), found.offset
        if found.error == 0:
            cause = "it ends there"
            way_out = "it became shorter; download it again"
        else:
            cause = _system_words(found.error)
            way_out = "check the disk, or download the file again"
        return ModelFileError(
            f"The n-gram table in {name} cannot be read at byte {offset} ({cause}); {way_out}.",
            code="file_unreadable",
            params={"file": str(self.path), "offset": offset},
        )

    @property
    def words(self) -> str:
        """How it is read, for logs."""
        how = "past the system's cache" if self.is_unbuffered else "through the system's cache"
        if sys.platform == "win32":
            return f"overlapped reads {how}"
        return f"{'threads' if self.uses_threads else 'io_uring'}, {how}"

    def close(self) -> None:
        """Wait for reads in flight and give memory back; idempotent. Nobody may collect any more."""
        reader, self.reader = self.reader, 0
        if reader:
            self._library.rows_close(reader)

    def __del__(self) -> None:
        """The system must not write into memory that was given back."""
        if getattr(self, "reader", 0):
            self.close()


def _address(rows: RowArray) -> int:
    if rows.dtype != np.int64 or not rows.flags.c_contiguous:
        raise ValueError("rows must be a contiguous int64 array")
    return rows.ctypes.data


def _encoded(path: Path) -> bytes:
    """The path as the library wants it."""
    if sys.platform == "win32":
        return str(path.resolve()).encode("utf-16-le") + b"\0\0"
    return os.fsencode(path) + b"\0"


def _open_error(path: Path, error: int) -> Exception:
    name = printable(str(path), 400)
    if error == 0:
        return ResourceError(
            f"There is not enough memory for the row cache of {name}; lower ngram_cache_rows."
        )
    return ModelFileError(
        f"The file {name} cannot be opened for the n-gram table ({_system_words(error)}); "
        "check its permissions and the disk.",
        code="file_unreadable",
        params={"file": str(path)},
    )


def _system_words(error: int) -> str:
    """The system's sentence for an error number."""
    if sys.platform == "win32":
        return ctypes.FormatError(error).strip().rstrip(".") or f"error {error}"
    return os.strerror(error)
