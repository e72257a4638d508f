"""Weight groups as the C structures of `engine/kernels/host/api.h`.

A prepared group owns its structure, the arrays that it points to, and nothing else; it is kept in the
group's `prepared` slot, so that an operation passes one address. Field order and types mirror api.h.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from engine.core.ggml_types import GgmlType, row_bytes
from engine.gguf.blocks import dequantise
from engine.gguf.reader import Tensor
from engine.ops.weights import (
    AttentionWeights,
    DeltaWeights,
    HyperConnectionWeights,
    Matrix,
    MoeWeights,
    PleWeights,
    RowTable,
)

FloatArray = npt.NDArray[np.float32]

HOST_FORMATS = frozenset(
    {
        *(GgmlType.F32, GgmlType.F16, GgmlType.BF16, GgmlType.Q8_0, GgmlType.Q2_0),
        *(GgmlType.Q4_0, GgmlType.Q4_1, GgmlType.Q5_0, GgmlType.Q5_1, GgmlType.IQ4_NL),
        *(GgmlType.Q2_K, GgmlType.Q3_K, GgmlType.Q4_K, GgmlType.Q5_K, GgmlType.Q6_K),
        *(GgmlType.IQ1_S, GgmlType.IQ1_M, GgmlType.IQ2_XXS, GgmlType.IQ2_XS, GgmlType.IQ2_S),
        *(GgmlType.IQ3_XXS, GgmlType.IQ3_S, GgmlType.IQ4_XS, GgmlType.MXFP4),
    }
)

_POINTER = ctypes.c_void_p
_INTEGER = ctypes.c_int64
_REAL = ctypes.c_double


class MatrixStruct(ctypes.Structure):
    """`Matrix` of api.h."""

    _fields_ = (
        ("data", _POINTER),
        ("rows", _INTEGER),
        ("columns", _INTEGER),
        ("count", _INTEGER),
        ("row_bytes", _INTEGER),
        ("type", _INTEGER),
        ("tiles", _POINTER),
    )


class HyperConnectionStruct(ctypes.Structure):
    """`HyperConnection` of api.h."""

    _fields_ = (
        *((name, _POINTER) for name in ("norm", "down", "up", "inject", "up_columns")),
        *((name, _INTEGER) for name in ("streams", "hidden")),
        ("eps", _REAL),
    )


class DeltaStruct(ctypes.Structure):
    """`Delta` of api.h."""

    _fields_ = (
        *((name, _POINTER) for name in ("conv", "a", "dt", "norm")),
        *((name, _INTEGER) for name in ("k_heads", "v_heads", "head_dim", "taps")),
        ("eps", _REAL),
    )


class AttentionStruct(ctypes.Structure):
    """`Attention` of api.h."""

    _fields_ = (
        *((name, _POINTER) for name in ("q_norm", "k_norm", "index_q_norm", "index_k_norm")),
        *((name, _INTEGER) for name in ("heads", "kv_heads", "head_dim", "index_heads")),
        *((name, _INTEGER) for name in ("index_dim", "rope_dim", "ratio", "top_blocks")),
        ("eps", _REAL),
    )


class MoeStruct(ctypes.Structure):
    """`Moe` of api.h."""

    _fields_ = (
        *((name, _POINTER) for name in ("router", "gate", "up", "down", "shared_router")),
        *((name, _POINTER) for name in ("shared_gate", "shared_up", "shared_down")),
        ("used", _INTEGER),
    )


class PleStruct(ctypes.Structure):
    """`Ple` of api.h."""

    _fields_ = (
        *((name, _POINTER) for name in ("norm_key", "norm_query", "norm_conv", "conv")),
        *((name, _INTEGER) for name in ("streams", "hidden", "taps", "dilation")),
        ("eps", _REAL),
    )


MOST_RANK_BY_COLUMNS = 64  # of a gated mix whose up projection is held transposed
COLUMN_BLOCK = 16  # FloatColumns::kBlock in streams.h; half of BrainColumns::kBlock
FLOAT_TYPES = frozenset({GgmlType.F32, GgmlType.F16, GgmlType.BF16})


# Matrices of so few weights are worth a second copy in memory: their products are bound by decoding
# and by sums across lanes, not by memory. One whose copy is larger than a third-level cache is not.
MOST_TILED_COLUMNS = 512
MOST_TILED_WEIGHTS = 1 << 20
TILE_ROWS = 16  # RowTile::kRows in rowtiles.h
_TILED = frozenset({GgmlType.Q8_0, GgmlType.Q4_0, GgmlType.Q5_0, GgmlType.Q2_0, GgmlType.IQ4_NL})
_TILED_WITH_MINIMUM = frozenset({GgmlType.Q4_1, GgmlType.Q5_1, GgmlType.Q4_K})
_TILED_AS_NIBBLES = frozenset({GgmlType.Q4_0, GgmlType.Q4_1, GgmlType.Q4_K, GgmlType.IQ4_NL})


class HostMatrix:
    """A matrix in the file's own bytes: a `Matrix` of engine/ops/weights.py.

    Attributes:
        rows: output size.
        columns: input size.
        count: how many are stacked.
        type: block format.
        address: of the C structure.
    """

    __slots__ = ("_data", "_struct", "_tiles", "address", "columns", "count", "rows", "type")

    def __init__(self, tensor: Tensor) -> None:
        """Describe the bytes of a 2-D or 3-D tensor; they stay where they are."""
        shape = tensor.shape
        if len(shape) not in {2, 3}:
            raise ValueError(f"{tensor.name} has {len(shape)} dimensions; a matrix has 2 or 3")
        self.count = shape[0] if len(shape) == 3 else 1
        self.rows, self.columns = shape[-2:]
        self.type: GgmlType = tensor.type
        data = np.ascontiguousarray(tensor.data).reshape(-1)
        bytes_per_row = row_bytes(tensor.type, self.columns)
        if data.nbytes != self.count * self.rows * bytes_per_row:
            raise ValueError(f"{tensor.name} has {data.nbytes} bytes, which does not fit its shape")
        self._struct = MatrixStruct(
            data.ctypes.data,
            self.rows,
            self.columns,
            self.count,
            bytes_per_row,
            int(tensor.type),
            None,
        )
        self._data = data
        self._tiles: npt.NDArray[np.uint8] | None = None
        self.address = ctypes.addressof(self._struct)

    def _new_tiles(self) -> npt.NDArray[np.uint8] | None:
        """Memory for the weights as rowtiles.h lays them out, 64-byte aligned; None = none pays."""
        has_minimum = self.type in _TILED_WITH_MINIMUM
        if (
            not (has_minimum or self.type in _TILED)
            or self.columns > MOST_TILED_COLUMNS
            or self.count * self.rows * self.columns > MOST_TILED_WEIGHTS
        ):
            return None
        codes = 16 if self.type in _TILED_AS_NIBBLES else 32  # bytes of a row's 32 columns
        record = TILE_ROWS * (codes + 4 * (1 + has_minimum))
        size = self.count * -(-self.rows // TILE_ROWS) * (self.columns // 32) * record
        memory = np.zeros(size + 64, np.uint8)
        start = -memory.ctypes.data % 64
        return memory[start : start + size]

    def lay_out(self, context: int, row_tiles: Callable[[int, int, int], int]) -> None:
        """Hold a small matrix a second time as products read it fastest; others stay as they are."""
        tiles = self._new_tiles()
        if tiles is not None and not row_tiles(context, self.address, id(tiles)):
            self._tiles = tiles
            self._struct.tiles = tiles.ctypes.data

    def columns_in_blocks(
        self, *, as_halves: bool
    ) -> npt.NDArray[np.float32] | npt.NDArray[np.uint16]:
        """A plain float matrix transposed in blocks, as `up_columns` of api.h wants it.

        Args:
            as_halves: it is BF16 and stays so, in half the bytes; else it becomes float32.
        """
        if as_halves:
            halves = self._data.view(np.uint16).reshape(-1, 2, COLUMN_BLOCK, self.columns)
            return np.ascontiguousarray(halves.transpose(0, 3, 2, 1))
        values = self.values().reshape(-1, COLUMN_BLOCK, self.columns)
        return np.ascontiguousarray(values.transpose(0, 2, 1), dtype=np.float32)

    def values(self) -> FloatArray:
        """A plain matrix as float32, `[rows, columns]`; a copy."""
        return dequantise(self._data, self.type, (self.rows, self.columns))


class HostRowTable:
    """A table that is read by rows: a `Matrix` whose structure has no data.

    Attributes:
        reader: address of the library's reader.
        address: of the C structure.
    """

    __slots__ = ("_struct", "address", "columns", "count", "reader", "rows", "table", "type")

    def __init__(self, table: RowTable) -> None:
        """Describe a table; it stays open while this lives."""
        self.table = table
        self.count, self.rows, self.columns, self.type = (
            1,
            table.num_rows,
            table.columns,
            table.type,
        )
        self.reader = table.reader
        sizes = (self.rows, self.columns, 1, table.row_bytes, int(table.type))
        self._struct = MatrixStruct(None, *sizes)
        self.address = ctypes.addressof(self._struct)


class Prepared:
    """A C structure at a fixed address, with the arrays that it points to."""

    __slots__ = ("_keep", "address")

    def __init__(self, struct: ctypes.Structure, keep: Sequence[object]) -> None:
        """Keep `struct` and everything in `keep` alive."""
        self._keep = (struct, *keep)
        self.address = ctypes.addressof(struct)


def _matrix(matrix: Matrix) -> int:
    if not isinstance(matrix, HostMatrix):
        raise TypeError("the matrix was made by another implementation of the operations")
    return matrix.address


def _vectors(*arrays: FloatArray) -> tuple[list[FloatArray], list[int]]:
    """The arrays as the library reads them (contiguous float32), and their addresses."""
    kept = [np.ascontiguousarray(array, dtype=np.float32) for array in arrays]
    return kept, [array.ctypes.data for array in kept]


def _check(condition: bool, what: str) -> None:
    if not condition:
        raise ValueError(f"the {what} weights do not fit each other")


def prepare_hyper_connection(weights: HyperConnectionWeights) -> Prepared:
    """The structure of a gated residual mix."""
    hc, hidden = weights.norm.shape
    rank, width = weights.down.rows, hc * hidden
    fits = weights.down.columns == width and (weights.up.rows, weights.up.columns) == (width, rank)
    if weights.inject is not None:
        fits &= (weights.inject.rows, weights.inject.columns) == (hc, width)
    _check(fits, "residual mix")
    kept, (norm,) = _vectors(weights.norm)
    inject = None if weights.inject is None else _matrix(weights.inject)
    up, columns, up_columns = _matrix(weights.up), None, None
    is_small = rank <= MOST_RANK_BY_COLUMNS and hidden % COLUMN_BLOCK == 0
    if is_small and isinstance(weights.up, HostMatrix) and weights.up.type in FLOAT_TYPES:
        as_halves = weights.up.type is GgmlType.BF16 and hidden % (2 * COLUMN_BLOCK) == 0
        columns = weights.up.columns_in_blocks(as_halves=as_halves)
        up_columns = columns.ctypes.data
    struct = HyperConnectionStruct(
        norm, _matrix(weights.down), up, inject, up_columns, hc, hidden, weights.eps
    )
    return Prepared(struct, [kept, columns, weights.down, weights.up, weights.inject])


def prepare_delta(weights: DeltaWeights) -> Prepared:
    """The structure of a DeltaNet layer; the convolution is transposed to (taps, channels)."""
    channels = (2 * weights.num_k_heads + weights.num_v_heads) * weights.head_dim
    _check(
        weights.conv.shape == (channels, weights.conv_kernel)
        and weights.a.shape == weights.dt.shape == (weights.num_v_heads,)
        and weights.norm.shape == (weights.head_dim,),
        "DeltaNet",
    )
    kept, pointers = _vectors(weights.conv.T, weights.a, weights.dt, weights.norm)
    struct = DeltaStruct(
        *pointers,
        weights.num_k_heads,
        weights.num_v_heads,
        weights.head_dim,
        weights.conv_kernel,
        weights.eps,
    )
    return Prepared(struct, kept)


def prepare_attention(weights: AttentionWeights) -> Prepared:
    """The structure of a sparse attention layer."""
    _check(
        weights.q_norm.shape == weights.k_norm.shape == (weights.head_dim,)
        and weights.index_q_norm.shape == weights.index_k_norm.shape == (weights.index_dim,)
        and weights.num_heads % weights.num_kv_heads == 0
        and weights.rope_dim % 2 == 0
        and weights.rope_dim <= min(weights.head_dim, weights.index_dim),
        "attention",
    )
    kept, pointers = _vectors(
        weights.q_norm, weights.k_norm, weights.index_q_norm, weights.index_k_norm
    )
    struct = AttentionStruct(
        *pointers,
        weights.num_heads,
        weights.num_kv_heads,
        weights.head_dim,
        weights.num_index_heads,
        weights.index_dim,
        weights.rope_dim,
        weights.block_ratio,
        weights.top_blocks,
        weights.eps,
    )
    return Prepared(struct, kept)


def prepare_moe(weights: MoeWeights) -> Prepared:
    """The structure of router, experts and shared expert."""
    gate, up, down = weights.gate, weights.up, weights.down
    hidden, shared = weights.router.columns, weights.shared_gate.rows
    _check(
        gate.count == up.count == down.count == weights.router.rows
        and (gate.rows, gate.columns) == (up.rows, up.columns) == (down.columns, hidden)
        and down.rows == hidden
        and weights.shared_router.shape == (hidden,)
        and (weights.shared_up.rows, weights.shared_up.columns) == (shared, hidden)
        and weights.shared_gate.columns == hidden
        and (weights.shared_down.rows, weights.shared_down.columns) == (hidden, shared),
        "expert",
    )
    kept, (shared_router,) = _vectors(weights.shared_router)
    matrices = (weights.router, gate, up, down)
    shared_matrices = (weights.shared_gate, weights.shared_up, weights.shared_down)
    struct = MoeStruct(
        *map(_matrix, matrices), shared_router, *map(_matrix, shared_matrices), weights.num_used
    )
    return Prepared(struct, [kept, *matrices, *shared_matrices])


def prepare_ple(weights: PleWeights) -> Prepared:
    """The structure of an n-gram layer; the convolution is transposed to (taps, hc * H)."""
    hc, hidden = weights.norm_key.shape
    _check(
        weights.norm_query.shape == weights.norm_conv.shape == (hc, hidden)
        and weights.conv.shape == (hc * hidden, weights.conv_kernel),
        "n-gram layer",
    )
    kept, pointers = _vectors(
        weights.norm_key, weights.norm_query, weights.norm_conv, weights.conv.T
    )
    struct = PleStruct(*pointers, hc, hidden, weights.conv_kernel, weights.dilation, weights.eps)
    return Prepared(struct, kept)


_Group = TypeVar(
    "_Group", HyperConnectionWeights, DeltaWeights, AttentionWeights, MoeWeights, PleWeights
)


def structure_of(weights: _Group, prepare: Callable[[_Group], Prepared]) -> int:
    """Address of the C structure of a weight group, made at its first use."""
    prepared = weights.prepared
    if not isinstance(prepared, Prepared):
        prepared = weights.prepared = prepare(weights)
    return prepared.address


def address_of(matrix: Matrix) -> int:
    """Address of the C structure of a matrix."""
    if not isinstance(matrix, HostMatrix):
        raise TypeError("the matrix was made by another implementation of the operations")
    return matrix.address
