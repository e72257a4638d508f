"""Write `engine/gguf/codebooks.npz`, the tables of the IQ formats, from those of the `gguf` package.

Run again only if a format with a new codebook is added:

    .venv/bin/python tools/make_codebooks.py
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from gguf import quants

TARGET = Path(__file__).resolve().parent.parent / "engine" / "gguf" / "codebooks.npz"
GRID_TYPES = ("IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "IQ1_S")


def main() -> None:
    """Collect the tables and write them."""
    tables = {"signs": np.frombuffer(quants.IQ2_XXS.ksigns, np.uint8)}  # (128,)
    for name in GRID_TYPES:
        quantisation = getattr(quants, name)
        quantisation.init_grid()
        grid = quantisation.grid[0, 0]  # (rows, 8 or 4), float32 of whole numbers
        tables[name + "_grid"] = grid.astype(np.int8)
        if not np.array_equal(tables[name + "_grid"], grid):
            raise SystemExit(f"the codebook of {name} does not fit into int8")
    np.savez_compressed(TARGET, allow_pickle=False, **tables)
    print(f"{TARGET}: {TARGET.stat().st_size} bytes")


if __name__ == "__main__":
    main()
