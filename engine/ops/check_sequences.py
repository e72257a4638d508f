"""Checks of the operations that keep state: DeltaNet, sparse attention, the n-gram layer.

`run` advances one sequence by the rows of each pass. `run_together` puts that sequence between two
others in every pass: its results must be the same bits. `run_committed` computes a window and commits
its first rows only.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from engine.core.ggml_types import GgmlType
from engine.ops.base import FloatArray, Ops
from engine.ops.check_cases import OpCase, Results, slices
from engine.ops.check_inputs import (
    Inputs,
    SequenceRows,
    delta_pool,
    kv_pool,
    make_plan,
    ple_pool,
)
from engine.ops.plan import PassPlan
from engine.ops.weights import AttentionWeights, DeltaWeights, PleWeights

_OTHERS = (0, 2)  # slots of the sequences beside the one that is looked at, which has slot 1
_SLOT = 1
_OTHER_ROWS = (3, 2)  # their rows in every pass


class SequenceCase(OpCase):
    """A case whose operation reads and writes the state of sequences."""

    def run(self, ops: Ops, cuts: Sequence[int]) -> Results:
        """See `OpCase.run`."""
        return self._advance(ops, cuts, together=False)

    def run_together(self, ops: Ops, cuts: Sequence[int]) -> Results:
        """As `run`, with two other sequences in every pass; results of the one sequence."""
        return self._advance(ops, cuts, together=True)

    @abstractmethod
    def _advance(self, ops: Ops, cuts: Sequence[int], *, together: bool) -> Results: ...

    def _rows(self, part: slice, half: int, *, together: bool) -> tuple[list[SequenceRows], slice]:
        """The sequences of a pass, and where the rows of the one lie in it."""
        count = part.stop - part.start
        mine = SequenceRows(_SLOT, half, part.start, count)
        if not together:
            return [mine], slice(0, count)
        before, after = (
            SequenceRows(slot, 0, 0, rows) for slot, rows in zip(_OTHERS, _OTHER_ROWS, strict=True)
        )
        return [before, mine, after], slice(_OTHER_ROWS[0], _OTHER_ROWS[0] + count)

    @staticmethod
    def _around(rows: FloatArray, *, together: bool) -> FloatArray:
        """The rows of a pass: those of the one sequence, maybe between rows of the others."""
        if not together:
            return rows.copy()
        before = np.resize(rows[::-1] * 2, (_OTHER_ROWS[0], *rows.shape[1:]))
        after = np.resize(rows * -3, (_OTHER_ROWS[1], *rows.shape[1:]))
        return np.concatenate([before, rows, after]).astype(np.float32)


@dataclass(frozen=True, slots=True)
class DeltaSizes:
    """Sizes of a DeltaNet layer."""

    k_heads: int
    v_heads: int
    head_dim: int
    conv_kernel: int


class DeltaCase(SequenceCase):
    """DeltaNet from its projections to the input of the output projection."""

    def __init__(self, sizes: DeltaSizes, *, num_rows: int = 16, seed: int = 6) -> None:
        inputs = Inputs(seed)
        nk, nv, d = sizes.k_heads, sizes.v_heads, sizes.head_dim
        channels = (2 * nk + nv) * d
        self.sizes = sizes
        self.name = f"delta_mix {nk}/{nv} heads of {d}, {sizes.conv_kernel} taps"
        self.num_rows = num_rows
        self.matrix = inputs.tensor(GgmlType.F32, 1, 1)  # the projections are not computed here
        self.conv = inputs.normal(channels, sizes.conv_kernel, scale=0.5)
        self.a = -np.abs(inputs.normal(nv)) - np.float32(0.01)
        self.dt = inputs.normal(nv)
        self.norm = inputs.weight(d)
        self.qkv = inputs.normal(num_rows, channels)
        self.z = inputs.normal(num_rows, nv * d)
        self.alpha = inputs.normal(num_rows, nv, scale=3.0)
        self.beta = inputs.normal(num_rows, nv, scale=2.0)

    def _weights(self, ops: Ops) -> DeltaWeights:
        m = ops.matrix(self.matrix)
        s = self.sizes
        return DeltaWeights(
            *(m, m, m, m, m),
            *(self.conv, self.a, self.dt, self.norm),
            *(s.k_heads, s.v_heads, s.head_dim, s.conv_kernel),
            eps=1e-6,
        )

    def _advance(self, ops: Ops, cuts: Sequence[int], *, together: bool) -> Results:
        s = self.sizes
        weights = self._weights(ops)
        pool = delta_pool(3, 8, s.k_heads, s.v_heads, s.head_dim, s.conv_kernel)
        outs = []
        for i, part in enumerate(slices(cuts)):
            sequences, mine = self._rows(part, i % 2, together=together)
            qkv, z, alpha, beta = (
                self._around(a[part], together=together)
                for a in (self.qkv, self.z, self.alpha, self.beta)
            )
            out = np.zeros_like(z)
            ops.delta_mix(weights, pool, make_plan(sequences), qkv, z, alpha, beta, out)
            outs.append(out[mine])
        half = len(cuts) % 2
        return {
            "out": np.concatenate(outs),
            "state": pool.state[_SLOT, half],
            "conv": pool.conv[_SLOT, half],
        }

    def run_committed(self, ops: Ops, before: int, window: int, commit: int) -> Results:
        """State after `before` rows and the first `commit` rows of a pass of `window` rows."""
        s = self.sizes
        weights = self._weights(ops)
        pool = delta_pool(3, 8, s.k_heads, s.v_heads, s.head_dim, s.conv_kernel)
        for half, part in enumerate(slices([before, window])):
            plan = make_plan([SequenceRows(_SLOT, half, part.start, part.stop - part.start)])
            out = np.zeros_like(self.z[part])
            qkv = self.qkv[part].copy()  # may be overwritten
            ops.delta_mix(
                weights, pool, plan, qkv, self.z[part], self.alpha[part], self.beta[part], out
            )
        ops.delta_commit(weights, pool, _SLOT, 1, commit)
        return {"state": pool.state[_SLOT, 0], "conv": pool.conv[_SLOT, 0]}


@dataclass(frozen=True, slots=True)
class PleSizes:
    """Sizes of an n-gram layer."""

    streams: int
    hidden: int
    conv_kernel: int
    dilation: int


class PleCase(SequenceCase):
    """The n-gram layer from its projections to the streams."""

    def __init__(self, sizes: PleSizes, *, num_rows: int = 16, seed: int = 7) -> None:
        inputs = Inputs(seed)
        hc, hidden = sizes.streams, sizes.hidden
        self.sizes = sizes
        self.name = f"ple_mix {hc}x{hidden}, {sizes.conv_kernel} taps {sizes.dilation} apart"
        self.num_rows = num_rows
        self.matrix = inputs.tensor(GgmlType.F32, 1, 1)
        self.norms = [inputs.weight(hc, hidden) for _ in range(3)]
        self.conv = inputs.normal(hc * hidden, sizes.conv_kernel, scale=0.5)
        self.key = inputs.normal(num_rows, hc * hidden)
        self.value = inputs.normal(num_rows, hidden)
        self.streams = inputs.normal(num_rows, hc, hidden)

    def _weights(self, ops: Ops) -> PleWeights:
        m = ops.matrix(self.matrix)
        s = self.sizes
        norm_key, norm_query, norm_conv = self.norms
        return PleWeights(
            *(m, m, m, norm_key, norm_query, norm_conv),
            *(self.conv, s.conv_kernel, s.dilation),
            eps=1e-6,
        )

    def _history(self) -> int:
        return (self.sizes.conv_kernel - 1) * self.sizes.dilation

    def _advance(self, ops: Ops, cuts: Sequence[int], *, together: bool) -> Results:
        weights = self._weights(ops)
        pool = ple_pool(3, 8, self._history(), self.key.shape[1])
        outs = []
        for i, part in enumerate(slices(cuts)):
            sequences, mine = self._rows(part, i % 2, together=together)
            key, value, streams = (
                self._around(a[part], together=together)
                for a in (self.key, self.value, self.streams)
            )
            ops.ple_mix(weights, pool, make_plan(sequences), key, value, streams)
            outs.append(streams[mine])
        return {"streams": np.concatenate(outs), "conv": pool.conv[_SLOT, len(cuts) % 2]}

    def run_committed(self, ops: Ops, before: int, window: int, commit: int) -> Results:
        """History after `before` rows and the first `commit` rows of a pass of `window` rows."""
        weights = self._weights(ops)
        pool = ple_pool(3, 8, self._history(), self.key.shape[1])
        for half, part in enumerate(slices([before, window])):
            plan = make_plan([SequenceRows(_SLOT, half, part.start, part.stop - part.start)])
            arrays = (self.key[part].copy(), self.value[part], self.streams[part].copy())
            ops.ple_mix(weights, pool, plan, *arrays)
        ops.ple_commit(weights, pool, _SLOT, 1, commit)
        return {"conv": pool.conv[_SLOT, 0]}


@dataclass(frozen=True, slots=True)
class AttentionSizes:
    """Sizes of a sparse attention layer."""

    heads: int
    kv_heads: int
    head_dim: int
    index_heads: int
    index_dim: int
    rope_dim: int
    ratio: int
    top_blocks: int
    page_blocks: int


class AttentionCase(SequenceCase):
    """Appending to the pages and attending; `num_rows` rows of which the last ones are looked at."""

    def __init__(
        self,
        sizes: AttentionSizes,
        *,
        dtype: npt.DTypeLike = np.float32,
        num_rows: int = 40,
        seed: int = 8,
    ) -> None:
        inputs = Inputs(seed)
        s = self.sizes = sizes
        self.dtype = np.dtype(dtype)
        self.name = f"attention {s.heads}/{s.kv_heads} heads of {s.head_dim}, {self.dtype.name}"
        self.name += f", {s.top_blocks} blocks of {s.ratio}"
        self.num_rows = num_rows
        self.matrix = inputs.tensor(GgmlType.F32, 1, 1)
        self.norms = [inputs.weight(n) for n in (s.head_dim, s.head_dim, s.index_dim, s.index_dim)]
        self.k = inputs.normal(num_rows, s.kv_heads * s.head_dim)
        self.v = inputs.normal(num_rows, s.kv_heads * s.head_dim)
        self.index_k = inputs.normal(num_rows, s.index_dim)
        self.q = inputs.normal(num_rows, s.heads * 2 * s.head_dim, scale=2.0)
        self.index_q = inputs.normal(num_rows, s.index_heads * s.index_dim)

    def _weights(self, ops: Ops) -> AttentionWeights:
        m = ops.matrix(self.matrix)
        s = self.sizes
        q_norm, k_norm, index_q_norm, index_k_norm = self.norms
        return AttentionWeights(
            *(m, m, m, m, q_norm, k_norm, m, m, index_q_norm, index_k_norm),
            *(s.heads, s.kv_heads, s.head_dim, s.index_heads, s.index_dim, s.rope_dim),
            *(s.ratio, s.top_blocks),
            eps=1e-6,
        )

    def _plan(self, sequences: list[SequenceRows]) -> PassPlan:
        s = self.sizes
        page_tokens = s.ratio * s.page_blocks
        return make_plan(
            sequences,
            rope_dim=s.rope_dim,
            block_ratio=s.ratio,
            pages_per_sequence=-(-self.num_rows // page_tokens),
        )

    def _advance(self, ops: Ops, cuts: Sequence[int], *, together: bool) -> Results:
        s = self.sizes
        weights = self._weights(ops)
        page_tokens = s.ratio * s.page_blocks
        pages = 3 * -(-self.num_rows // page_tokens)
        pool = kv_pool(pages, page_tokens, s.ratio, s.kv_heads, s.head_dim, s.index_dim, self.dtype)
        outs, chosen = [], []
        for part in slices(cuts):
            sequences, mine = self._rows(part, 0, together=together)
            plan = self._plan(sequences)
            k, v, index_k, q, index_q = (
                self._around(a[part], together=together)
                for a in (self.k, self.v, self.index_k, self.q, self.index_q)
            )
            ops.attention_append(weights, pool, plan, k, v, index_k)
            out = np.zeros((len(q), s.heads * s.head_dim), np.float32)
            selected = np.zeros((len(q), s.top_blocks), np.int32)
            ops.attention(weights, pool, plan, q, index_q, out, selected)
            outs.append(out[mine])
            chosen.append(selected[mine])
        own_pages = slice(_SLOT, None, 3)
        return {
            "out": np.concatenate(outs),
            "selected": np.concatenate(chosen),
            "keys": pool.keys[own_pages],
            "values": pool.values[own_pages],
            "index_pooled": pool.index_pooled[own_pages],
        }
