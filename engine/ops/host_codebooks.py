"""The tables that some block formats need, handed to the host kernels.

They come from `engine/gguf/codebooks.npz` (see `engine/gguf/blocks_iq.py`), so they exist once.
"""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
import numpy.typing as npt

import engine.gguf
from engine.kernels.library import HostLibrary


@functools.cache
def _tables() -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
    """Magnitudes of IQ2_XS `[512, 8]` and sign patterns `[128]`."""
    with np.load(Path(engine.gguf.__file__).with_name("codebooks.npz")) as file:
        grid = np.ascontiguousarray(file["IQ2_XS_grid"].astype(np.uint8))
        signs = np.ascontiguousarray(file["signs"].astype(np.uint8))
    if grid.shape != (512, 8) or signs.shape != (128,):
        raise ValueError("codebooks.npz does not hold the tables of IQ2_XS")
    return grid, signs


def set_codebooks(library: HostLibrary) -> None:
    """Give the library the tables; they stay in memory for the rest of the process."""
    grid, signs = _tables()
    library.set_codebooks(grid.ctypes.data, signs.ctypes.data)
