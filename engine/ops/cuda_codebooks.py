"""The codebooks of the IQ formats as the CUDA kernels read them (`engine/kernels/cuda/formats_iq.cuh`).

They come from `engine/gguf/codebooks.npz` (see `engine/gguf/blocks_iq.py`), so they exist once.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

import engine.gguf
from engine.core.ggml_types import GgmlType

_GRIDS = {
    GgmlType.IQ2_XXS: "IQ2_XXS",
    GgmlType.IQ2_XS: "IQ2_XS",
    GgmlType.IQ2_S: "IQ2_S",
    GgmlType.IQ3_XXS: "IQ3_XXS",
    GgmlType.IQ3_S: "IQ3_S",
    GgmlType.IQ1_S: "IQ1_S",
    GgmlType.IQ1_M: "IQ1_S",  # they share it
}


def codebooks() -> dict[GgmlType, npt.NDArray[np.uint32]]:
    """The words of each format's codebook, `[words]` uint32.

    Rows of IQ2 and IQ3 are their magnitudes, a byte each. Rows of IQ1 are 16 bits, two to a word: eight
    numbers of 2 bits, 0, 1 and 2 for -1, 0 and 1, the first value lowest.
    """
    tables = {}
    with np.load(Path(engine.gguf.__file__).with_name("codebooks.npz")) as file:
        for ggml_type, name in _GRIDS.items():
            grid = file[f"{name}_grid"]
            if ggml_type in (GgmlType.IQ1_S, GgmlType.IQ1_M):
                numbers = (grid + np.int8(1)).astype(np.uint16) << (
                    2 * np.arange(8, dtype=np.uint16)
                )
                packed = np.bitwise_or.reduce(numbers, axis=1)  # (rows,), uint16
            else:
                packed = np.ascontiguousarray(grid.astype(np.uint8))
            tables[ggml_type] = packed.reshape(-1).view("<u4")
    return tables
