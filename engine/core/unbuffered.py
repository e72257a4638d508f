"""Reads a file past the system's cache, so that the drive itself is what is timed.

Linux: O_DIRECT where the file system can, else after asking the system to forget the file. Windows:
FILE_FLAG_NO_BUFFERING. Offsets and sizes must be multiples of 4096.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol, Self

LARGEST_READ_BYTES = 4 << 20
_BLOCK = 4096


class Reader(Protocol):
    """An open file."""

    is_unbuffered: bool

    def read(self, offset: int, num_bytes: int) -> int:
        """Read into a buffer that nobody looks at; how many bytes there were."""


@contextlib.contextmanager
def open_reader(path: Path) -> Iterator[Reader]:
    """The file, opened for reading past the cache where that is possible.

    Raises:
        OSError: it cannot be opened.
    """
    if sys.platform == "win32":
        with _WindowsReader(path) as windows_reader:
            yield windows_reader
    else:
        with _PosixReader(path) as reader:
            yield reader


class _PosixReader:
    """O_DIRECT, else after asking to drop what is cached."""

    def __init__(self, path: Path) -> None:
        self._buffer = mmap.mmap(-1, LARGEST_READ_BYTES)  # page aligned, as direct reads want it
        self._path = path
        self.is_unbuffered = False
        self._file = self._open_direct()
        if self._file < 0:
            self._file = os.open(path, os.O_RDONLY)
            self._drop_cache()

    def _open_direct(self) -> int:
        direct = getattr(os, "O_DIRECT", 0)
        if not direct:
            return -1
        try:
            file = os.open(self._path, os.O_RDONLY | direct)
        except OSError:
            return -1
        try:
            os.preadv(file, [memoryview(self._buffer)[:_BLOCK]], 0)
        except OSError:
            os.close(file)
            return -1
        self.is_unbuffered = True
        return file

    def _drop_cache(self) -> None:
        advise = getattr(os, "posix_fadvise", None)
        if advise is not None:
            with contextlib.suppress(OSError):
                advise(self._file, 0, 0, os.POSIX_FADV_DONTNEED)

    def read(self, offset: int, num_bytes: int) -> int:
        with memoryview(self._buffer) as view, view[:num_bytes] as part:
            return os.preadv(self._file, [part], offset)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        os.close(self._file)
        self._buffer.close()


if sys.platform == "win32":

    class _WindowsReader:
        """Reads with FILE_FLAG_NO_BUFFERING, whose offsets, sizes and memory must be aligned."""

        is_unbuffered = True

        def __init__(self, path: Path) -> None:
            self._buffer = mmap.mmap(-1, LARGEST_READ_BYTES)
            anchor = ctypes.c_char.from_buffer(self._buffer)
            self._address = ctypes.addressof(anchor)
            del anchor
            self._kernel = ctypes.WinDLL("kernel32", use_last_error=True)
            self._kernel.CreateFileW.restype = ctypes.c_void_p
            self._kernel.ReadFile.argtypes = [
                *(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint32),
                *(ctypes.c_void_p, ctypes.c_void_p),
            ]
            self._kernel.SetFilePointerEx.argtypes = [
                *(ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_uint32),
            ]
            self._kernel.CloseHandle.argtypes = [ctypes.c_void_p]
            # GENERIC_READ; shared for all; OPEN_EXISTING; FILE_FLAG_NO_BUFFERING
            self._file = self._kernel.CreateFileW(
                ctypes.c_wchar_p(str(path)), 0x80000000, 7, None, 3, 0x20000000, None
            )
            if self._file is None or self._file == ctypes.c_void_p(-1).value:
                self._buffer.close()
                raise ctypes.WinError(ctypes.get_last_error())

        def read(self, offset: int, num_bytes: int) -> int:
            count = ctypes.c_uint32(0)
            if not self._kernel.SetFilePointerEx(self._file, offset, None, 0):
                return 0
            done = self._kernel.ReadFile(
                self._file, self._address, num_bytes, ctypes.byref(count), None
            )
            return count.value if done else 0

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_error: object) -> None:
            self._kernel.CloseHandle(self._file)
            self._buffer.close()
