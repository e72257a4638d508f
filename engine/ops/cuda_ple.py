"""Launches of the n-gram layer's kernels (engine/kernels/cuda/ple.cu)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from engine.device.array import DeviceArray
from engine.ops.cuda_launch import Launcher, pointer
from engine.ops.cuda_structs import (
    PleSizesStruct,
    PleStateStruct,
    address_of,
    pass_struct,
    scratch_floats,
)
from engine.ops.plan import PassPlan
from engine.ops.pools import PlePool
from engine.ops.weights import PleWeights

_COLUMNS = 256

Commit = tuple[int, int, int]  # slot, half that is committed, tokens


class CudaPle:
    """Gating, the dilated convolution, and commits of part of a window."""

    def __init__(self, launcher: Launcher) -> None:
        self._launcher = launcher

    def ple_mix(
        self,
        weights: PleWeights,
        pool: PlePool,
        plan: PassPlan,
        key: DeviceArray,
        value: DeviceArray,
        streams: DeviceArray,
    ) -> None:
        """See `Ops.ple_mix`."""
        rows, hc, hidden = streams.shape
        if not rows:
            return
        width = hc * hidden
        scales = scratch_floats(self._launcher, "ple_scales", (rows, hc))
        sizes = _sizes(weights, pool)
        self._launcher.launch(
            "ple_gate",
            (rows, hc, 1),
            (min(512, max(32, -(-hidden // 256) * 32)), 1, 1),
            *(sizes, pointer(streams), pointer(value)),
            *(pointer(address_of(weights.norm_key)), pointer(address_of(weights.norm_query))),
            *(pointer(key), pointer(scales)),
        )
        self._launcher.launch(
            "ple_add",
            (-(-width // _COLUMNS), rows, 1),
            (_COLUMNS, 1, 1),
            *(_state(pool), sizes, pass_struct(plan), pointer(address_of(weights.conv))),
            *(pointer(address_of(weights.norm_conv)), pointer(key), pointer(scales)),
            pointer(streams),
        )

    def ple_commit(
        self, weights: PleWeights, pool: PlePool, slot: int, half: int, num_tokens: int
    ) -> None:
        """See `Ops.ple_commit`."""
        self.ple_commits(weights, pool, [(slot, half, num_tokens)])

    def ple_commits(self, weights: PleWeights, pool: PlePool, commits: Sequence[Commit]) -> None:
        """`ple_commit` of several slots in one launch; not to be captured."""
        slots, kept, width = pool.window.shape
        for slot, half, num_tokens in commits:
            if not (0 <= slot < slots and half in {0, 1} and 1 <= num_tokens <= kept):
                raise ValueError(f"{num_tokens} tokens of slot {slot} cannot be committed")
        table = np.array(commits, np.int32)
        address = self._launcher.scratch("ple_commits", table.nbytes)
        self._launcher.stream.upload(address, table)
        self._launcher.launch(
            "ple_commit",
            (-(-width // _COLUMNS), len(commits), 1),
            (_COLUMNS, 1, 1),
            *(_state(pool), _sizes(weights, pool), pointer(address)),
        )


def _state(pool: PlePool) -> PleStateStruct:
    return PleStateStruct(address_of(pool.conv), address_of(pool.window))


def _sizes(weights: PleWeights, pool: PlePool) -> PleSizesStruct:
    hc, hidden = weights.norm_key.shape
    return PleSizesStruct(
        *(hc, hidden, weights.conv_kernel, weights.dilation),
        *(pool.window.shape[1], weights.eps),
    )
