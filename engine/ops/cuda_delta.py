"""Launches of the Gated DeltaNet kernels (engine/kernels/cuda/delta.cu)."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np

from engine.device.array import DeviceArray
from engine.ops.cuda_launch import Launcher, pointer
from engine.ops.cuda_structs import (
    DeltaGateStruct,
    DeltaInputsStruct,
    DeltaSizesStruct,
    DeltaStateStruct,
    address_of,
    pass_struct,
    scratch_floats,
)
from engine.ops.plan import PassPlan
from engine.ops.pools import DeltaPool
from engine.ops.weights import DeltaWeights

_HEAD_DIMS = (32, 64, 128)  # of which there are kernels; others take the next larger one
_COLUMNS = 32  # of a state that a block carries
_RULE_THREADS = 128
_WARP = 32
_FEW_ROWS = 16  # passes of at most so many rows: a block has all columns of a head, and gates them
_GROUP_ROWS = 1024  # of a long pass: what lies between the kernels is 40 KB a row

Commit = tuple[int, int, int]  # slot, half that is committed, tokens


class CudaDelta:
    """Convolution, gates, delta rule, gated norm; commits of part of a window."""

    def __init__(self, launcher: Launcher) -> None:
        self._launcher = launcher

    def delta_mix(
        self,
        weights: DeltaWeights,
        pool: DeltaPool,
        plan: PassPlan,
        qkv: DeviceArray,
        z: DeviceArray,
        alpha: DeviceArray,
        beta: DeviceArray,
        out: DeviceArray,
    ) -> None:
        """See `Ops.delta_mix`. Sequences without rows are passed over."""
        rows, channels = qkv.shape
        if not rows:
            return
        heads, d = weights.num_v_heads, weights.head_dim
        group = min(rows, _GROUP_ROWS)
        mixed = scratch_floats(self._launcher, "delta_mixed", (group, channels))
        decay = scratch_floats(self._launcher, "delta_decay", (group, heads))
        rate = scratch_floats(self._launcher, "delta_rate", (group, heads))
        state, sizes = _state(pool), _sizes(weights, pool)
        of_pass = pass_struct(plan)
        head_threads = -(-d // _WARP) * _WARP
        num_heads = 2 * weights.num_k_heads + heads
        dim = _kernel_dim(d)
        for first in range(0, rows, group):
            inputs = DeltaInputsStruct(
                *(address_of(weights.conv), address_of(weights.a), address_of(weights.dt)),
                *(qkv.address, alpha.address, beta.address),
                *(mixed.address, decay.address, rate.address),
                *(first, min(group, rows - first)),
            )
            self._launcher.launch(
                "delta_prepare",
                (inputs.num_rows, num_heads, 1),
                (head_threads, 1, 1),
                *(state, sizes, of_pass, inputs),
            )
            if rows <= min(_FEW_ROWS, group):
                gate = DeltaGateStruct(z.address, address_of(weights.norm), weights.eps)
                self._launcher.launch(
                    f"delta_heads_d{dim}",
                    (heads, plan.num_sequences, 1),
                    (4 * dim, 1, 1),
                    *(state, sizes, of_pass, inputs, gate, pointer(out)),
                )
                return
            self._launcher.launch(
                f"delta_rule_d{dim}",
                (heads * -(-d // _COLUMNS), plan.num_sequences, 1),
                (_RULE_THREADS, 1, 1),
                *(state, sizes, of_pass, inputs, pointer(out)),
            )
        self._launcher.launch(
            "delta_output",
            (rows, heads, 1),
            (head_threads, 1, 1),
            *(pointer(out), pointer(z), pointer(address_of(weights.norm))),
            *(ctypes.c_int32(d), ctypes.c_float(weights.eps)),
        )

    def delta_commit(
        self, weights: DeltaWeights, pool: DeltaPool, slot: int, half: int, num_tokens: int
    ) -> None:
        """See `Ops.delta_commit`."""
        self.delta_commits(weights, [pool], [(slot, half, num_tokens)])

    def delta_commits(
        self, weights: DeltaWeights, pools: Sequence[DeltaPool], commits: Sequence[Commit]
    ) -> None:
        """`delta_commit` of several slots in several layers of the same sizes, in one launch.

        The host's part is an upload of a few hundred bytes; not to be captured.

        Args:
            weights: of any of the layers: only sizes are used.
            pools: of the layers.
            commits: what to commit in each of them; no slot twice.
        """
        for slot, half, num_tokens in commits:
            kept = pools[0].window_conv.shape
            if not (0 <= slot < kept[0] and half in {0, 1} and 1 <= num_tokens <= kept[1]):
                raise ValueError(f"{num_tokens} tokens of slot {slot} cannot be committed")
        layers = b"".join(bytes(_state(pool)) for pool in pools)
        table = layers + np.array(commits, np.int32).tobytes()
        address = self._launcher.scratch("delta_commits", len(table))
        self._launcher.stream.upload(address, np.frombuffer(table, np.uint8))
        d = weights.head_dim
        self._launcher.launch(
            f"delta_commit_d{_kernel_dim(d)}",
            (weights.num_v_heads * -(-d // _COLUMNS) + 1, len(commits), len(pools)),
            (_RULE_THREADS, 1, 1),
            *(pointer(address), pointer(address + len(layers))),
            _sizes(weights, pools[0]),
        )


def _kernel_dim(head_dim: int) -> int:
    for dim in _HEAD_DIMS:
        if head_dim <= dim:
            return dim
    raise ValueError(f"DeltaNet heads of {head_dim} are larger than the kernels take")


def _state(pool: DeltaPool) -> DeltaStateStruct:
    return DeltaStateStruct(
        *(address_of(pool.state), address_of(pool.conv), address_of(pool.window_conv)),
        *(address_of(pool.window_k), address_of(pool.window_v)),
        *(address_of(pool.window_decay), address_of(pool.window_beta)),
    )


def _sizes(weights: DeltaWeights, pool: DeltaPool) -> DeltaSizesStruct:
    return DeltaSizesStruct(
        *(weights.num_k_heads, weights.num_v_heads, weights.head_dim),
        *(weights.conv_kernel, pool.window_conv.shape[1]),
    )
