"""Launches of what drawing needs of logits (engine/kernels/cuda/sampling.cu)."""

from __future__ import annotations

import ctypes

from engine.device.array import DeviceArray
from engine.ops.best_logits import MOST_CANDIDATES
from engine.ops.cuda_launch import Launcher, pointer
from engine.ops.cuda_structs import scratch_floats

_MOST_PARTS = 32
_PART_LOGITS = 4096  # of a row that a block looks at, or more
_THREADS = 256
_PART_THREADS = 512  # walk over a part's keys in shared memory
_JOIN_THREADS = 1024  # sort the candidates of all parts
_BEST_BYTES = 8  # a logit and its id


def num_parts(vocabulary: int) -> int:
    """Parts that a row is cut into; it depends on the vocabulary alone, and so do the sums' bits."""
    return max(1, min(_MOST_PARTS, -(-vocabulary // _PART_LOGITS)))


class CudaSampling:
    """The largest logit of each row, or the best 64 with the sum of all exponentials."""

    def __init__(self, launcher: Launcher) -> None:
        self._launcher = launcher

    def argmax(self, logits: DeviceArray, ids: DeviceArray) -> None:
        """Ids of the largest logits; ties go to the lower id.

        Args:
            logits: `[R, V]`.
            ids: `[R]` int32; -1 for rows that hold a NaN or whose largest logit is not finite.
        """
        rows, vocabulary = logits.shape
        if not rows:
            return
        parts = num_parts(vocabulary)
        bests = self._launcher.scratch("argmax_bests", rows * parts * _BEST_BYTES)
        self._launcher.launch(
            "argmax_parts",
            (parts, rows, 1),
            (_THREADS, 1, 1),
            *(pointer(logits), pointer(bests), ctypes.c_int32(vocabulary)),
        )
        self._launcher.launch(
            "argmax_join",
            (rows, 1, 1),
            (32, 1, 1),
            *(pointer(bests), pointer(ids), ctypes.c_int32(parts)),
        )

    def candidates(self, logits: DeviceArray, bests: DeviceArray) -> None:
        """The 64 largest logits of each row, and the sum of all.

        Args:
            logits: `[R, V]`.
            bests: `[R, ROW_WORDS]` int32, as engine/ops/best_logits.py says.
        """
        rows, vocabulary = logits.shape
        if not rows:
            return
        parts = num_parts(vocabulary)
        size = rows * parts * MOST_CANDIDATES * _BEST_BYTES
        found = self._launcher.scratch("candidates", size)
        tops = scratch_floats(self._launcher, "candidate_tops", (rows, parts))
        sums = scratch_floats(self._launcher, "candidate_sums", (rows, parts))
        self._launcher.launch(
            "candidate_parts",
            (parts, rows, 1),
            (_PART_THREADS, 1, 1),
            *(pointer(logits), pointer(found), pointer(tops), pointer(sums)),
            ctypes.c_int32(vocabulary),
        )
        self._launcher.launch(
            "candidate_join",
            (rows, 1, 1),
            (_JOIN_THREADS, 1, 1),
            *(pointer(found), pointer(tops), pointer(sums), pointer(bests)),
            ctypes.c_int32(parts),
        )
