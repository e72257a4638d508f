"""The tables that the IQ formats need, handed to the host kernels.

They come from `engine/gguf/codebooks.npz` (see `engine/gguf/blocks_iq.py`), so they exist once.
"""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
import numpy.typing as npt

import engine.gguf
from engine.kernels.library import HostLibrary

# The order of `Codebooks` in engine/kernels/host/api.h: name, rows, values of a row, and what a value
# is multiplied with.
_GRIDS = (
    ("IQ2_XXS", 256, 8, 1),
    ("IQ2_XS", 512, 8, 1),
    ("IQ2_S", 1024, 8, 1),
    ("IQ3_XXS", 256, 4, 1),
    ("IQ3_S", 512, 4, 1),
    ("IQ1_S", 2048, 8, 8),
)
# Magnitudes of the codebooks whose numbers are looked up instead: format, bits of a number.
_IQ2_LEVELS = (8, 25, 43)
_LEVELS = (
    ("IQ2_XXS", _IQ2_LEVELS, 2),
    ("IQ2_XS", _IQ2_LEVELS, 2),
    ("IQ2_S", _IQ2_LEVELS, 2),
    ("IQ3_XXS", (4, 12, 20, 28, 36, 44, 52, 62), 4),
    ("IQ3_S", tuple(range(1, 16, 2)), 4),
)


def _numbers(
    grid: npt.NDArray[np.int8], levels: tuple[int, ...], bits: int
) -> npt.NDArray[np.int8]:
    """The numbers of the values of a grid among `levels`, packed in two columns of bytes `[2, rows]`."""
    numbers = np.searchsorted(levels, grid)
    if not np.array_equal(np.asarray(levels)[numbers], grid):
        raise ValueError("a codebook has other magnitudes than its kernel")
    per_byte = 8 // bits
    columns = numbers.reshape(len(grid), 2, per_byte) << (bits * np.arange(per_byte))
    packed = columns.sum(axis=2).astype(np.uint8).T
    return np.ascontiguousarray(packed).view(np.int8)


@functools.cache
def _tables() -> tuple[npt.NDArray[np.int8], ...]:
    """Grids `[rows, 8 or 4]`, sign patterns `[128]` and numbers `[2, rows]`, as the library reads them."""
    tables = []
    with np.load(Path(engine.gguf.__file__).with_name("codebooks.npz")) as file:
        for name, rows, width, factor in _GRIDS:
            grid = file[f"{name}_grid"]
            if grid.shape != (rows, width):
                raise ValueError(f"codebooks.npz does not hold the table of {name}")
            tables.append(np.ascontiguousarray(grid * np.int8(factor), dtype=np.int8))
        signs = np.ascontiguousarray(file["signs"].astype(np.uint8)).view(np.int8)
        codes = [_numbers(file[f"{name}_grid"], levels, bits) for name, levels, bits in _LEVELS]
    if signs.shape != (128,):
        raise ValueError("codebooks.npz does not hold the sign patterns")
    return (*tables, signs, *codes)


def set_codebooks(library: HostLibrary) -> None:
    """Give the library the tables; they stay in memory for the rest of the process."""
    library.set_codebooks([table.ctypes.data for table in _tables()])
