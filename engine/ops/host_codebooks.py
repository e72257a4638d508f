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


@functools.cache
def _tables() -> tuple[npt.NDArray[np.int8], ...]:
    """The grids, `[rows, 8 or 4]`, and the sign patterns `[128]`; each as the library reads it."""
    tables = []
    with np.load(Path(engine.gguf.__file__).with_name("codebooks.npz")) as file:
        for name, rows, width, factor in _GRIDS:
            grid = file[f"{name}_grid"]
            if grid.shape != (rows, width):
                raise ValueError(f"codebooks.npz does not hold the table of {name}")
            tables.append(np.ascontiguousarray(grid * np.int8(factor), dtype=np.int8))
        signs = np.ascontiguousarray(file["signs"].astype(np.uint8)).view(np.int8)
    if signs.shape != (128,):
        raise ValueError("codebooks.npz does not hold the sign patterns")
    return (*tables, signs)


def set_codebooks(library: HostLibrary) -> None:
    """Give the library the tables; they stay in memory for the rest of the process."""
    library.set_codebooks([table.ctypes.data for table in _tables()])
