"""The largest logits of a row as a card writes them, by numpy."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from engine.ops.best_logits import MOST_CANDIDATES, ROW_WORDS, BestLogits, FetchRow

FloatArray = npt.NDArray[np.float32]
IntArray = npt.NDArray[np.int32]


def pack_best(logits: FloatArray, out: IntArray) -> None:
    """What the kernels write of a row `[V]`, into `[ROW_WORDS]`."""
    out[:MOST_CANDIDATES] = -1
    values = out[MOST_CANDIDATES : 2 * MOST_CANDIDATES].view(np.float32)
    values[:] = -np.inf
    best = np.argsort(-logits, kind="stable")[:MOST_CANDIDATES]
    best = best[logits[best] > -np.inf]
    out[: len(best)], values[: len(best)] = best, logits[best]
    wide, log_sum = logits.astype(np.float64), np.nan
    if np.isfinite(wide.max()):
        log_sum = wide.max() + np.log(np.exp(wide - wide.max()).sum())
    out[-1:].view(np.float32)[0] = log_sum


def best_of(logits: FloatArray, fetch: FetchRow | None) -> BestLogits:
    """The largest logits of a row `[V]`."""
    packed = np.zeros(ROW_WORDS, np.int32)
    pack_best(logits, packed)
    return BestLogits(packed, fetch)
