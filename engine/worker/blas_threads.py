"""Keeps numpy's own thread pool out of the way; must be called before numpy is imported.

Our kernels have their own threads, and two pools would fight for the same cores (so would the pools
of two engines).
"""

from __future__ import annotations

import os

_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def limit_blas_threads() -> None:
    """One thread for each BLAS, unless the person has chosen a number."""
    for name in _VARIABLES:
        os.environ.setdefault(name, "1")
