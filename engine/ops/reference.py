"""The operations in numpy: slow, readable, the executable spec (spec/qwen4exp.md section 4).

Every operation computes in float64 and rounds its results to float32, row by row: a row meets the
same instructions whatever else is in the pass, so results are batch-invariant by construction.
Recurrent states are rounded to float32 after every token, because that is how they are stored
between passes; so cutting a sequence into passes elsewhere changes no bit.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from engine.core.ggml_types import GgmlType
from engine.core.kv_type import KvType
from engine.gguf.blocks import dequantise
from engine.gguf.reader import Tensor
from engine.ops.base import FloatArray, IntArray, Limits, Ops
from engine.ops.plan import PassPlan
from engine.ops.pools import DeltaPool, KvPool, PlePool
from engine.ops.reference_attention import append_keys, attend
from engine.ops.reference_delta import delta_commit, delta_mix
from engine.ops.reference_math import grouped_rms, rms, sigmoid, silu
from engine.ops.weights import (
    AttentionWeights,
    DeltaWeights,
    HyperConnectionWeights,
    Matrix,
    MoeWeights,
    PleWeights,
    RowTable,
)

Float64Array = npt.NDArray[np.float64]


class ReferenceMatrix:
    """A matrix whose values are decoded once, at first use, to float64."""

    def __init__(self, tensor: Tensor) -> None:
        self._tensor = tensor
        self._values: Float64Array | None = None

    @property
    def rows(self) -> int:
        """Output size."""
        return self._tensor.shape[-2]

    @property
    def columns(self) -> int:
        """Input size."""
        return self._tensor.shape[-1]

    @property
    def count(self) -> int:
        """How many matrices are stacked."""
        return self._tensor.shape[0] if len(self._tensor.shape) == 3 else 1

    @property
    def type(self) -> GgmlType:
        """Block format of the stored weights."""
        return self._tensor.type

    @property
    def values(self) -> Float64Array:
        """`[count, rows, columns]`."""
        if self._values is None:
            shape = (self.count, self.rows, self.columns)
            self._values = self._tensor.dequantise().astype(np.float64).reshape(shape)
        return self._values

    def some_rows(self, indices: npt.NDArray[np.int64]) -> FloatArray:
        """A few rows, decoded alone (tables can be larger than memory)."""
        return self._tensor.rows(indices)


class ReferenceRowTable:
    """A table on the disk: its rows are collected and decoded."""

    count = 1

    def __init__(self, table: RowTable) -> None:
        self._table = table
        self.rows, self.columns, self.type = table.num_rows, table.columns, table.type

    def some_rows(self, indices: npt.NDArray[np.int64]) -> FloatArray:
        """Decoded rows, `[n, columns]`."""
        raw = np.empty((indices.size, self._table.row_bytes), np.uint8)
        self._table.collect(np.ascontiguousarray(indices), raw)
        return dequantise(raw, self.type, (indices.size, self.columns))


def _values(matrix: Matrix, index: int = 0) -> Float64Array:
    if not isinstance(matrix, ReferenceMatrix):
        raise TypeError("the matrix was made by other operations")
    values: Float64Array = matrix.values[index]
    return values


class ReferenceOps(Ops):
    """The contract of `base.py` in numpy."""

    name = "reference"
    kv_types = frozenset(KvType)

    def __init__(self, limits: Limits) -> None:
        self.limits = limits

    def matrix(self, tensor: Tensor) -> Matrix:
        """See `Ops.matrix`."""
        return ReferenceMatrix(tensor)

    def row_table(self, table: RowTable) -> Matrix:
        """See `Ops.row_table`."""
        return ReferenceRowTable(table)

    # -- plain operations ------------------------------------------------------------------------

    def gather_rows(self, table: Matrix, rows: npt.NDArray[np.int64], out: FloatArray) -> None:
        """See `Ops.gather_rows`."""
        if not isinstance(table, ReferenceMatrix | ReferenceRowTable):
            raise TypeError("the matrix was made by other operations")
        out[...] = table.some_rows(rows.reshape(-1)).reshape(out.shape)

    def fill_streams(self, x: FloatArray, streams: FloatArray) -> None:
        """See `Ops.fill_streams`."""
        streams[...] = x[:, None, :]

    def add_to_streams(self, x: FloatArray, streams: FloatArray) -> None:
        """See `Ops.add_to_streams`."""
        streams += x[:, None, :]

    def rms_norm(self, x: FloatArray, weight: FloatArray, eps: float, out: FloatArray) -> None:
        """See `Ops.rms_norm`."""
        for r in range(len(x)):
            out[r] = rms(x[r], weight, eps)

    def matmul(self, matrices: Sequence[Matrix], x: FloatArray, outs: Sequence[FloatArray]) -> None:
        """See `Ops.matmul`."""
        rows = x.astype(np.float64)
        for matrix, out in zip(matrices, outs, strict=True):
            weights = _values(matrix)
            for r, row in enumerate(rows):
                out[r] = weights @ row

    # -- residual streams ------------------------------------------------------------------------

    def hc_mix(
        self,
        weights: HyperConnectionWeights,
        streams: FloatArray,
        x: FloatArray,
        inject: FloatArray | None,
    ) -> None:
        """See `Ops.hc_mix`; spec 4.3."""
        hc = streams.shape[1]
        down, up = _values(weights.down), _values(weights.up)
        for r in range(len(streams)):
            normed = grouped_rms(streams[r], weights.norm, weights.eps)  # (hc, H)
            flat = normed.reshape(-1)
            low = silu((down @ flat) / hc)  # (r,)
            gate = sigmoid(up @ low).reshape(normed.shape)  # (hc, H)
            x[r] = (gate * normed).sum(axis=0) / hc
            if weights.inject is not None and inject is not None:
                inject[r] = 2.0 * sigmoid((_values(weights.inject) @ flat) / hc)

    def hc_combine(self, streams: FloatArray, inject: FloatArray, y: FloatArray) -> None:
        """See `Ops.hc_combine`; spec 4.2."""
        added = inject[:, :, None].astype(np.float64) * y[:, None, :]  # (R, hc, H)
        streams[...] = streams + added

    # -- Gated DeltaNet --------------------------------------------------------------------------

    def delta_mix(
        self,
        weights: DeltaWeights,
        pool: DeltaPool,
        plan: PassPlan,
        qkv: FloatArray,
        z: FloatArray,
        alpha: FloatArray,
        beta: FloatArray,
        out: FloatArray,
    ) -> None:
        """See `Ops.delta_mix`; spec 4.4."""
        delta_mix(weights, pool, plan, qkv, z, alpha, beta, out)

    def delta_commit(
        self, weights: DeltaWeights, pool: DeltaPool, slot: int, half: int, num_tokens: int
    ) -> None:
        """See `Ops.delta_commit`."""
        delta_commit(weights, pool, slot, half, num_tokens)

    # -- sparse attention ------------------------------------------------------------------------

    def attention_append(
        self,
        weights: AttentionWeights,
        pool: KvPool,
        plan: PassPlan,
        k: FloatArray,
        v: FloatArray,
        index_k: FloatArray,
    ) -> None:
        """See `Ops.attention_append`; spec 4.5."""
        append_keys(weights, pool, plan, k, v, index_k)

    def attention(
        self,
        weights: AttentionWeights,
        pool: KvPool,
        plan: PassPlan,
        q: FloatArray,
        index_q: FloatArray,
        out: FloatArray,
        selected: IntArray | None = None,
    ) -> None:
        """See `Ops.attention`; spec 4.5."""
        attend(weights, pool, plan, q, index_q, out, selected)

    # -- experts ---------------------------------------------------------------------------------

    def route(
        self, weights: MoeWeights, x: FloatArray, expert_ids: IntArray, expert_weights: FloatArray
    ) -> None:
        """See `Ops.route`; spec 4.6."""
        router = _values(weights.router)
        for r, row in enumerate(x.astype(np.float64)):
            logits = router @ row  # (E,)
            p = np.exp(logits - logits.max())
            top = np.argsort(-p, kind="stable")[: weights.num_used]
            expert_ids[r] = top
            expert_weights[r] = p[top] / p[top].sum()

    def experts(
        self,
        weights: MoeWeights,
        x: FloatArray,
        expert_ids: IntArray,
        expert_weights: FloatArray,
        out: FloatArray,
    ) -> None:
        """See `Ops.experts`; spec 4.6."""
        for r, row in enumerate(x.astype(np.float64)):
            total = np.zeros(x.shape[1])
            for e, w in zip(expert_ids[r].tolist(), expert_weights[r].tolist(), strict=True):
                if e < 0:
                    continue
                inner = silu(_values(weights.gate, e) @ row) * (_values(weights.up, e) @ row)
                total += w * (_values(weights.down, e) @ inner)
            out[r] = total

    def shared_expert(self, weights: MoeWeights, x: FloatArray, out: FloatArray) -> None:
        """See `Ops.shared_expert`; spec 4.6."""
        gate_w, up_w = _values(weights.shared_gate), _values(weights.shared_up)
        down_w = _values(weights.shared_down)
        shared_router = weights.shared_router.astype(np.float64)
        for r, row in enumerate(x.astype(np.float64)):
            inner = silu(gate_w @ row) * (up_w @ row)  # (Fs,)
            out[r] = out[r] + sigmoid(shared_router @ row) * (down_w @ inner)

    # -- n-gram layer ----------------------------------------------------------------------------

    def ple_mix(
        self,
        weights: PleWeights,
        pool: PlePool,
        plan: PassPlan,
        key: FloatArray,
        value: FloatArray,
        streams: FloatArray,
    ) -> None:
        """See `Ops.ple_mix`; spec 4.7."""
        hc, H = streams.shape[1:]
        window = pool.window.shape[1]
        taps = weights.conv.astype(np.float64)  # (hc*H, K)
        num_history = pool.conv.shape[2]
        for s, (slot, half) in enumerate(zip(plan.seq_slot, plan.seq_half, strict=True)):
            first, stop = plan.seq_start[s : s + 2]
            inputs = np.empty((num_history + stop - first, hc * H), np.float32)
            inputs[:num_history] = pool.conv[slot, half]
            for i, r in enumerate(range(first, stop)):
                normed_key = grouped_rms(key[r].reshape(hc, H), weights.norm_key, weights.eps)
                query = grouped_rms(streams[r], weights.norm_query, weights.eps)
                score = (normed_key * query).sum(axis=1) / np.sqrt(H)  # (hc,)
                gate = sigmoid(np.sign(score) * np.sqrt(np.maximum(np.abs(score), 1e-6)))
                gated = gate[:, None] * value[r]  # (hc, H), float64
                at = num_history + i
                inputs[at] = grouped_rms(gated, weights.norm_conv, weights.eps).reshape(-1)
                # tap K-1-j reads the input j * dilation tokens ago
                read = inputs[at - num_history : at + 1 : weights.dilation]  # (K, hc*H)
                conv = silu((taps.T * read).sum(axis=0)).reshape(hc, H)
                streams[r] = streams[r] + gated + conv
            pool.conv[slot, 1 - half] = inputs[len(inputs) - num_history :]
            if stop - first <= window:
                pool.window[slot, : stop - first] = inputs[num_history:]

    def ple_commit(
        self, weights: PleWeights, pool: PlePool, slot: int, half: int, num_tokens: int
    ) -> None:
        """See `Ops.ple_commit`."""
        del weights  # the window holds all that is needed
        inputs = np.concatenate([pool.conv[slot, half], pool.window[slot, :num_tokens]])
        pool.conv[slot, 1 - half] = inputs[num_tokens:]
