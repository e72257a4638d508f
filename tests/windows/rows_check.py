"""Run by a Windows Python without numpy: rows of a table, read by the kernel library.

    python rows_check.py LIBRARY FOLDER

Prints one JSON object: what is wrong, as sentences, and what the reads were.
"""

from __future__ import annotations

import ctypes
import json
import os
import random
import sys
from collections.abc import Sequence
from pathlib import Path

NUM_ROWS, ROW_BYTES, OFFSET = 30_000, 90, 5 * 4096 + 32
BUFFERED = 2  # PageIoKind
NOT_READ = 3  # Status
FIGURES = (
    *("rows", "hits", "reads", "read_bytes", "wait_ns", "waits"),
    *("failed_reads", "cached_rows", "evicted_rows", "kind"),
)


class Reader:
    """The library's functions on one file."""

    def __init__(self, dll: ctypes.CDLL, path: Path, cache_rows: int, wanted: int = 0) -> None:
        self.dll = dll
        pointer, integer = ctypes.c_void_p, ctypes.c_int64
        dll.stratum_rows_open.restype = pointer
        dll.stratum_rows_open.argtypes = [ctypes.c_char_p, *[integer] * 5, pointer]
        for name in ("close", "advance"):
            function = getattr(dll, f"stratum_rows_{name}")
            function.argtypes, function.restype = [pointer], None
        dll.stratum_rows_shrink.argtypes, dll.stratum_rows_shrink.restype = [pointer], integer
        for name in ("figures", "failure"):
            function = getattr(dll, f"stratum_rows_{name}")
            function.argtypes, function.restype = [pointer, pointer], None
        dll.stratum_rows_request.argtypes = [pointer, pointer, integer]
        dll.stratum_rows_collect.argtypes = [pointer, pointer, integer, pointer]
        text = str(path)
        name = text.encode("utf-16-le") + b"\0\0" if os.name == "nt" else os.fsencode(text)
        self.error = ctypes.c_int32(0)
        self.at = dll.stratum_rows_open(
            *(name, OFFSET, NUM_ROWS, ROW_BYTES, cache_rows, wanted), ctypes.byref(self.error)
        )

    def request(self, rows: Sequence[int]) -> int:
        return self.dll.stratum_rows_request(
            self.at, (ctypes.c_int64 * len(rows))(*rows), len(rows)
        )

    def collect(self, rows: Sequence[int]) -> tuple[int, bytes]:
        out = ctypes.create_string_buffer(len(rows) * ROW_BYTES)
        array = (ctypes.c_int64 * len(rows))(*rows)
        return self.dll.stratum_rows_collect(self.at, array, len(rows), out), out.raw

    def figures(self) -> dict[str, int]:
        found = (ctypes.c_int64 * len(FIGURES))()
        self.dll.stratum_rows_figures(self.at, found)
        return dict(zip(FIGURES, found, strict=True))

    def failure(self) -> tuple[int, int]:
        found = (ctypes.c_int64 * 2)()
        self.dll.stratum_rows_failure(self.at, found)
        return found[0], found[1]

    def shrink(self) -> int:
        return int(self.dll.stratum_rows_shrink(self.at))

    def close(self) -> None:
        self.dll.stratum_rows_close(self.at)


def check(dll: ctypes.CDLL, folder: Path) -> dict[str, object]:
    path = folder / "tâble 表.gguf"
    draw = random.Random(1)  # noqa: S311  # the same bytes each time
    data = draw.randbytes(NUM_ROWS * ROW_BYTES)
    path.write_bytes(bytes(OFFSET) + data)
    wrong: list[str] = []

    def expect(is_right: bool, sentence: str) -> None:
        if not is_right:
            wrong.append(sentence)

    def wanted(rows: Sequence[int]) -> bytes:
        return b"".join(data[row * ROW_BYTES : (row + 1) * ROW_BYTES] for row in rows)

    kinds = []
    for ways in (0, BUFFERED):
        reader = Reader(dll, path, 2000, ways)
        expect(bool(reader.at), f"the file is not opened: error {reader.error.value}")
        kinds.append(reader.figures()["kind"])
        every = list(range(NUM_ROWS))
        draw.shuffle(every)
        for first in range(0, NUM_ROWS, 3000):
            reader.request(every[first + 3000 : first + 6000])
            rows = every[first : first + 3000]
            expect(reader.collect(rows) == (0, wanted(rows)), f"rows {first}, way {ways}")
        again = rows[-16:]
        reader.collect(again)
        before = reader.figures()
        expect(reader.collect(again) == (0, wanted(again)), "rows of the cache")
        after = reader.figures()
        expect(after["reads"] == before["reads"], "cached rows were read again")
        expect(after["hits"] == before["hits"] + 16, "cached rows are no hits")
        expect(after["evicted_rows"] > 0, "nothing made room")
        expect(reader.collect([NUM_ROWS])[0] == 1, "a row outside is not refused")
        reader.request(draw.sample(range(NUM_ROWS), 2000))
        reader.close()  # while it reads
    reader = Reader(dll, path, 20_000)
    reader.collect(every[:10_000])
    expect(reader.shrink() > 900_000, "the cache gives no memory back")
    expect(reader.collect(every[:3000]) == (0, wanted(every[:3000])), "rows after that")
    expect(reader.collect(every[-3000:]) == (0, wanted(every[-3000:])), "other rows after that")
    reader.close()
    short = folder / "short.gguf"
    short.write_bytes(path.read_bytes()[: OFFSET + 1000 * ROW_BYTES])
    reader = Reader(dll, short, 100)
    reader.request([20_000])
    expect(reader.collect([20_000])[0] == NOT_READ, "a row behind the file's end is read")
    offset, error = reader.failure()
    expect(error == 0 and offset > 0, f"its failure is {offset}, {error}")
    expect(reader.collect([5, 999]) == (0, wanted([5, 999])), "others after a failure")
    reader.close()
    missing = Reader(dll, folder / "nowhere", 100)
    expect(not missing.at and missing.error.value != 0, "a file that is not there is opened")
    return {"wrong": wrong, "kinds": kinds}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(check(ctypes.CDLL(sys.argv[1]), Path(sys.argv[2]))) + "\n")
