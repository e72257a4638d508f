"""The weight groups that operations take: one dataclass per part of a layer.

Vectors are float32 numpy arrays. A `Matrix` is a handle made by `Ops.matrix` or `Ops.experts`; only
the implementation that made it looks inside. Groups compare by identity and carry one free slot,
`prepared`, where an implementation may keep what it derives from the group once (a C struct, say).
Notation: H hidden size, hc residual streams, r low rank, E experts, F expert width.
Spec: sections 3.2 and 4.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from engine.core.errors import EngineError
from engine.core.ggml_types import GgmlType

FloatArray = npt.NDArray[np.float32]


class Matrix(Protocol):
    """A weight matrix `[rows, columns]`, or `[count, rows, columns]` for stacked experts."""

    @property
    def rows(self) -> int:
        """Output size."""

    @property
    def columns(self) -> int:
        """Input size."""

    @property
    def count(self) -> int:
        """How many matrices are stacked (1 for a plain one)."""

    @property
    def type(self) -> GgmlType:
        """Block format of the stored weights."""


class RowTable(Protocol):
    """A table on the disk whose rows are read as needed (engine/memory/ngram_table.py).

    Attributes:
        num_rows: rows.
        columns: values of a row.
        row_bytes: bytes of a row.
        type: block format.
        reader: address of the host library's reader.
    """

    num_rows: int
    columns: int
    row_bytes: int
    type: GgmlType
    reader: int

    def collect(self, rows: npt.NDArray[np.int64], out: npt.NDArray[np.uint8]) -> None:
        """Write the rows' bytes, `[rows.size, row_bytes]`; waits for the disk."""

    def failure(self) -> EngineError:
        """Why the newest collection failed."""


@dataclass(slots=True, eq=False)
class HyperConnectionWeights:
    """One gated-residual mix (spec 4.3)."""

    norm: FloatArray  # (hc, H), folded
    down: Matrix  # (r, hc*H)
    up: Matrix  # (hc*H, r)
    inject: Matrix | None  # (hc, hc*H); None for the final mixer
    eps: float
    prepared: object | None = field(default=None, repr=False)


@dataclass(slots=True, eq=False)
class DeltaWeights:
    """Gated DeltaNet (spec 4.4), heads in GGUF (tiled) order: v head v uses k head v % num_k_heads."""

    qkv: Matrix  # (C, H), C = 2*num_k_heads*head_dim + num_v_heads*head_dim, rows q | k | v
    gate: Matrix  # (num_v_heads*head_dim, H)
    alpha: Matrix  # (num_v_heads, H)
    beta: Matrix  # (num_v_heads, H)
    out: Matrix  # (H, num_v_heads*head_dim)
    conv: FloatArray  # (C, conv_kernel), tap conv_kernel-1 is the current token
    a: FloatArray  # (num_v_heads,), negative
    dt: FloatArray  # (num_v_heads,)
    norm: FloatArray  # (head_dim,), plain weight
    num_k_heads: int
    num_v_heads: int
    head_dim: int  # k and v
    conv_kernel: int
    eps: float
    prepared: object | None = field(default=None, repr=False)


@dataclass(slots=True, eq=False)
class AttentionWeights:
    """Sparse attention with its indexer (spec 4.5)."""

    q: Matrix  # (num_heads*2*head_dim, H): per head q rows, then gate rows
    k: Matrix  # (num_kv_heads*head_dim, H)
    v: Matrix  # (num_kv_heads*head_dim, H)
    out: Matrix  # (H, num_heads*head_dim)
    q_norm: FloatArray  # (head_dim,)
    k_norm: FloatArray  # (head_dim,)
    index_q: Matrix  # (num_index_heads*index_dim, H)
    index_k: Matrix  # (index_dim, H)
    index_q_norm: FloatArray  # (index_dim,)
    index_k_norm: FloatArray  # (index_dim,)
    num_heads: int
    num_kv_heads: int
    head_dim: int
    num_index_heads: int
    index_dim: int
    rope_dim: int  # rotated dims of every head, even
    block_ratio: int  # tokens per index block
    top_blocks: int  # token budget // block_ratio
    eps: float
    prepared: object | None = field(default=None, repr=False)


@dataclass(slots=True, eq=False)
class MoeWeights:
    """Router, experts and shared expert (spec 4.6)."""

    router: Matrix  # (E, H)
    gate: Matrix  # (E, F, H) stacked
    up: Matrix  # (E, F, H) stacked
    down: Matrix  # (E, H, F) stacked
    num_used: int
    shared_router: FloatArray  # (H,)
    shared_gate: Matrix  # (Fs, H)
    shared_up: Matrix  # (Fs, H)
    shared_down: Matrix  # (H, Fs)
    prepared: object | None = field(default=None, repr=False)


@dataclass(slots=True, eq=False)
class PleWeights:
    """The n-gram layer (spec 4.7). Its table is read through `Ops.gather_rows`."""

    table: Matrix  # (table rows, row width)
    key: Matrix  # (hc*H, H)
    value: Matrix  # (H, H)
    norm_key: FloatArray  # (hc, H)
    norm_query: FloatArray  # (hc, H)
    norm_conv: FloatArray  # (hc, H)
    conv: FloatArray  # (hc*H, conv_kernel), tap conv_kernel-1 is the current token
    conv_kernel: int
    dilation: int
    eps: float
    prepared: object | None = field(default=None, repr=False)
