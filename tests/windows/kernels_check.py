"""Run by a Windows Python without numpy: the kernel library's vectors, threads and file reading.

    python kernels_check.py LIBRARY FOLDER

Prints one JSON object. Numbers are chosen so that every product is exact: activations are whole
numbers of which each block has one of 127, so quantising them to 8 bits changes nothing.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import struct
import sys
from pathlib import Path

ROWS, COLUMNS, TOKENS = 70, 512, 3
Q8_0 = 8
BLOCK = 32
VARIANTS = {"avx512": 4, "avxvnni": 2, "avx2": 1}


class ArrayHeader(ctypes.Structure):
    """What the library reads of an array."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("dimensions", ctypes.c_int),
        ("shape", ctypes.POINTER(ctypes.c_ssize_t)),
        ("strides", ctypes.POINTER(ctypes.c_ssize_t)),
    )


class Matrix(ctypes.Structure):
    """`Matrix` of api.h."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        *((name, ctypes.c_int64) for name in ("rows", "columns", "count", "row_bytes", "type")),
        ("tiles", ctypes.c_void_p),
    )


def array(rows: int, width: int) -> tuple[ArrayHeader, ctypes.Array[ctypes.c_float]]:
    data = (ctypes.c_float * (rows * width))()
    shape = (ctypes.c_ssize_t * 2)(rows, width)
    strides = (ctypes.c_ssize_t * 2)(4 * width, 4)
    return ArrayHeader(ctypes.addressof(data), 2, shape, strides), data


def weight(row: int, column: int) -> int:
    return (row * 31 + column * 17) % 255 - 127


def activation(token: int, column: int) -> int:
    return 127 if column % BLOCK == token else (token * 13 + column * 7) % 251 - 125


def write_matrix(path: Path) -> None:
    with path.open("wb") as file:
        for row in range(ROWS):
            for block in range(0, COLUMNS, BLOCK):
                values = [weight(row, block + i) for i in range(BLOCK)]
                file.write(struct.pack(f"<e{BLOCK}b", 0.5, *values))


def main() -> None:
    library = ctypes.CDLL(sys.argv[1])
    library.stratum_create.restype = ctypes.c_void_p
    library.stratum_create.argtypes = [ctypes.c_int64, ctypes.c_int64]
    library.stratum_threads.restype = ctypes.c_int64
    library.stratum_threads.argtypes = [ctypes.c_void_p]
    library.stratum_destroy.argtypes = [ctypes.c_void_p]
    library.stratum_operation.restype = ctypes.c_void_p
    library.stratum_operation.argtypes = [ctypes.c_char_p, ctypes.c_char_p]
    library.stratum_cpu_features.restype = ctypes.c_uint32
    features = library.stratum_cpu_features()
    variants = [name for name, bit in VARIANTS.items() if features & bit]

    path = Path(sys.argv[2]) / "gewichte ünï 中文.bin"
    write_matrix(path)
    expected = [
        [
            0.5 * sum(weight(row, i) * activation(token, i) for i in range(COLUMNS))
            for row in range(ROWS)
        ]
        for token in range(TOKENS)
    ]
    wrong: list[str] = []
    threads: list[int] = []
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY) as mapped:
        view = (ctypes.c_char * len(mapped)).from_buffer(mapped)
        row_bytes = len(mapped) // ROWS
        matrix = Matrix(ctypes.addressof(view), ROWS, COLUMNS, 1, row_bytes, Q8_0, None)
        x_header, x = array(TOKENS, COLUMNS)
        for token in range(TOKENS):
            for column in range(COLUMNS):
                x[token * COLUMNS + column] = activation(token, column)
        pointers = ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, *[ctypes.c_void_p] * 12
        kind = ctypes.CFUNCTYPE(ctypes.c_int32, *pointers)
        for variant in variants:
            matmul = kind(library.stratum_operation(variant.encode(), b"matmul"))
            for count in (1, 4):
                context = library.stratum_create(count, 0)
                threads.append(library.stratum_threads(context))
                for _ in range(50):
                    out_header, out = array(TOKENS, ROWS)
                    pairs = ctypes.addressof(matrix), ctypes.addressof(out_header), *[None] * 10
                    status = matmul(context, ctypes.addressof(x_header), 1, *pairs)
                    found = [list(out[t * ROWS : (t + 1) * ROWS]) for t in range(TOKENS)]
                    if status or found != expected:
                        wrong.append(f"{variant}, {count} threads, status {status}")
                library.stratum_destroy(context)
        del view
    print(json.dumps({"variants": variants, "threads": threads, "wrong": wrong}))  # noqa: T201


main()
