"""The parameters of the product kernels (`engine/kernels/cuda/tiles.cuh`), and sizes that both sides know."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

from engine.core.ggml_types import GgmlType

FLOAT_FORMATS = frozenset({GgmlType.F32, GgmlType.F16, GgmlType.BF16})

MOST_MATRICES = 6  # of one launch
BLOCK = 32  # values that share an activation scale
UNIT = 64  # values that a lane decodes at once (formats.cuh)
THREADS = 128  # of a block of a product
ROWS = (1, 2, 4, 8, 16)  # rows of activations of a tile for which there are kernels
MANY_ROWS = 64  # and those of the tensor-core form
MANY_MATRIX_ROWS = 64  # of a block of it


class Product(ctypes.Structure):
    """`Product` of tiles.cuh."""

    _fields_ = (
        ("weights", ctypes.c_void_p * MOST_MATRICES),
        ("out", ctypes.c_void_p * MOST_MATRICES),
        ("matrix_rows", ctypes.c_int32 * MOST_MATRICES),
        ("x", ctypes.c_void_p),
        ("grid", ctypes.c_void_p),
        ("tiles", ctypes.c_void_p),
        ("pairs", ctypes.c_void_p),
        ("slots", ctypes.c_void_p),
        ("slot_bytes", ctypes.c_int64),
        ("row_bytes", ctypes.c_int64),
        ("x_stride", ctypes.c_int64),
        ("columns", ctypes.c_int32),
        ("num_rows", ctypes.c_int32),
        ("per_row", ctypes.c_int32),
        ("block_rows", ctypes.c_int32),
        ("lanes", ctypes.c_int32),
    )


@dataclass(frozen=True, slots=True)
class Choices:
    """The pairs (row, choice) of a pass, and how they are cut into tiles.

    Attributes:
        slots: `[R, K]` int32: where each pair's expert lies, negative: nowhere.
        count: of pairs.
        tile_rows: most pairs of a tile, as the kernels are named; 64 for the tensor-core form.
        most_tiles: that there can be.
        tiles: address of the tiles on the card, None: each pair is one.
        pairs: address of the sorted pairs.
    """

    slots: int
    count: int
    tile_rows: int
    most_tiles: int
    tiles: int | None
    pairs: int | None


def lanes_of(columns: int) -> int:
    """How many lanes share a matrix row: the order of float sums, so a function of the columns alone."""
    units = -(-columns // UNIT)
    return 4 if units <= 16 else 8 if units <= 64 else 16 if units <= 128 else 32


def record_bytes(columns: int) -> int:
    """Bytes of a quantised row of activations (activations.cuh)."""
    padded = -(-columns // 64) * 64
    return padded + padded // 4


def tile_rows(num_rows: int) -> int:
    """The smallest kernel for a number of rows of activations."""
    return next((size for size in ROWS if num_rows <= size), MANY_ROWS)
