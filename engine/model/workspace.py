"""The buffers of a pass, allocated once: activations, and the small arrays of the plan.

Mixers and the n-gram layer are never at work together, so their buffers share memory; operations may use it
too while a layer's experts are computed. A pass of R rows uses the first R rows of each buffer. The views for each R are made once and kept,
so a decode step slices nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from engine.core.model_config import ModelConfig
from engine.core.model_sizes import mixer_widths
from engine.ops.base import Ops
from engine.ops.best_logits import ROW_WORDS

FloatArray = npt.NDArray[np.float32]
IntArray = npt.NDArray[np.int32]

_ALIGNMENT = 64  # floats: where an array begins in memory that several share
_MAX_KEPT_VIEWS = 64  # passes of other sizes than small windows and full chunks are rare


@dataclass(slots=True, eq=False)
class RowBuffers:
    """Activations of R rows. `streams` lives through a pass, the others through a layer."""

    streams: FloatArray  # (R, hc, H)
    x: FloatArray  # (R, H) input of a mixer or of the experts
    y: FloatArray  # (R, H) their output
    inject: FloatArray  # (R, hc)
    ids: npt.NDArray[np.int64]  # (R,) token ids as table rows, on the host
    ple_rows: npt.NDArray[np.int64]  # (R, n-gram heads), on the host
    ple_input: FloatArray  # (R, H) joined table rows
    ple_key: FloatArray  # (R, hc * H)
    delta_qkv: FloatArray  # (R, C)
    delta_z: FloatArray  # (R, inner)
    delta_alpha: FloatArray  # (R, num_v_heads)
    delta_beta: FloatArray  # (R, num_v_heads)
    delta_mixed: FloatArray  # (R, inner)
    attn_q: FloatArray  # (R, num_heads * 2 * head_dim)
    attn_k: FloatArray  # (R, num_kv_heads * head_dim)
    attn_v: FloatArray  # (R, num_kv_heads * head_dim)
    attn_index_q: FloatArray  # (R, num_index_heads * index_dim)
    attn_index_k: FloatArray  # (R, index_dim)
    attn_mixed: FloatArray  # (R, num_heads * head_dim)
    expert_ids: IntArray  # (R, num_used)
    expert_weights: FloatArray  # (R, num_used)

    def first(self, num_rows: int) -> RowBuffers:
        """The first rows of every buffer."""
        return RowBuffers(*(getattr(self, name)[:num_rows] for name in self.__slots__))


class Workspace:
    """All buffers of one pass in flight.

    Attributes:
        max_rows: of a pass.
        shared: memory that holds nothing while a layer's experts are computed, nor between layers.
    """

    def __init__(
        self, config: ModelConfig, ops: Ops, max_rows: int, first: Workspace | None = None
    ) -> None:
        """Allocate.

        Args:
            config: sizes.
            ops: what computes in it.
            max_rows: of a pass.
            first: of the first of several stages, whose row numbers are read here too.
        """
        self.max_rows = max_rows
        self._config = config
        self._ops = ops
        self.shared = ops.zeros((_shared_size(config, ops, max_rows),))
        self._rows: RowBuffers = _allocate(
            config, ops, max_rows, self.shared, None if first is None else first._rows
        )
        self._views: dict[int, RowBuffers] = {max_rows: self._rows}
        hc, H = config.num_streams, config.hidden_size
        self._head_streams = ops.zeros((1, hc, H))
        self._mixed = ops.zeros((1, H))
        (self._logits,) = ops.host_arrays(((1, config.vocab_size), np.float32))
        self._candidates = np.zeros((0, ROW_WORDS), np.int32)

    def rows(self, num_rows: int) -> RowBuffers:
        """Buffers of a pass with this many rows."""
        views = self._views.get(num_rows)
        if views is None:
            views = self._rows.first(num_rows)
            if len(self._views) < _MAX_KEPT_VIEWS:
                self._views[num_rows] = views
        return views

    def head(self, num_rows: int) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Streams `[n, hc, H]`, mixed rows `[n, H]` and logits `[n, V]` of rows with logits.

        The logits are on the host, where tokens are chosen.

        Grows to the largest number asked for: a vocabulary is large, and most passes want one row.
        """
        if num_rows > len(self._logits):
            config = self._config
            count = min(self.max_rows, max(num_rows, 2 * len(self._logits)))
            self._head_streams = self._ops.zeros((count, config.num_streams, config.hidden_size))
            self._mixed = self._ops.zeros((count, config.hidden_size))
            (self._logits,) = self._ops.host_arrays(((count, config.vocab_size), np.float32))
        return self._head_streams[:num_rows], self._mixed[:num_rows], self._logits[:num_rows]

    def candidates(self, num_rows: int) -> IntArray:
        """The largest logits `[n, ROW_WORDS]` of rows with logits, on the host."""
        if num_rows > len(self._candidates):
            count = min(self.max_rows, max(num_rows, 2 * len(self._candidates)))
            (self._candidates,) = self._ops.host_arrays(((count, ROW_WORDS), np.int32))
        return self._candidates[:num_rows]


def _allocate(
    config: ModelConfig, ops: Ops, R: int, shared: FloatArray, first: RowBuffers | None
) -> RowBuffers:
    hc, H = config.num_streams, config.hidden_size
    ple_heads = config.ple.num_heads if config.ple is not None else 0
    if first is not None:
        ids, ple_rows = first.ids, first.ple_rows
    else:
        ids, ple_rows = ops.host_arrays(((R,), np.int64), ((R, ple_heads), np.int64))
    return RowBuffers(
        streams=ops.zeros((R, hc, H)),
        x=ops.zeros((R, H)),
        y=ops.zeros((R, H)),
        inject=ops.zeros((R, hc)),
        ids=ids,
        ple_rows=ple_rows,
        expert_ids=ops.zeros((R, config.num_experts_used), np.int32),
        expert_weights=ops.zeros((R, config.num_experts_used)),
        **_mixer_buffers(config, R, shared),
    )


def _shared_size(config: ModelConfig, ops: Ops, R: int) -> int:
    """Floats that mixers, n-gram layer and experts use one after the other."""
    kinds = [sum(_aligned(R * width) for width in kind.values()) for kind in mixer_widths(config)]
    if ops.keeps_results:
        kinds.append(R * config.num_experts_used * config.hidden_size)
    return max(kinds)


def _mixer_buffers(config: ModelConfig, R: int, memory: FloatArray) -> dict[str, FloatArray]:
    """The buffers of mixers and n-gram layer by name, those of each kind from the same address on."""
    buffers = {}
    for kind in mixer_widths(config):
        start = 0
        for name, width in kind.items():
            buffers[name] = memory[start : start + R * width].reshape(R, width)
            start += _aligned(R * width)
    return buffers


def _aligned(count: int) -> int:
    return math.ceil(count / _ALIGNMENT) * _ALIGNMENT
