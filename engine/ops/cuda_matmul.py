"""Products of matrices with rows of activations on a card: which kernel is launched how.

The kernels are in `engine/kernels/cuda/products*.cu*` and `quantise.cu`; what the operations compute is
said in `engine/ops/base.py`. Everything goes into the launcher's stream and can be captured: sizes depend
on the number of rows only.

Weights lie as in the file, each matrix begun at a multiple of 16 bytes, in memory whose size is a
multiple of 16. Arrays are C-contiguous; R rows.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from engine.core.ggml_types import GgmlType, row_bytes
from engine.device.array import DeviceArray
from engine.ops.cuda_codebooks import codebooks
from engine.ops.cuda_launch import Launcher, pointer
from engine.ops.cuda_matrix import CudaMatrix, cuda_matrix
from engine.ops.cuda_product_structs import (
    FLOAT_FORMATS,
    MANY_MATRIX_ROWS,
    MANY_ROWS,
    MOST_MATRICES,
    ROWS,
    THREADS,
    UNIT,
    Choices,
    Product,
    lanes_of,
    record_bytes,
    tile_rows,
)
from engine.ops.cuda_records import KnownRecords
from engine.ops.weights import Matrix

_WARP = 32
# Blocks that fill any card; where there are more, each takes several sets of rows, one while it copies the
# next, and for the codebook that it copies.
_ENOUGH_BLOCKS = 1024
_MOST_SETS = 4
_MOST_SETS_WITH_CODEBOOK = 8
_MOST_QUANTISING_BLOCKS = 1 << 16  # beyond, each takes several times


class MatrixProducts:
    """Launches products into the stream of one launcher.

    Attributes:
        known_records: rows that need not be quantised again.
    """

    def __init__(self, launcher: Launcher) -> None:
        """Upload the codebooks.

        Raises:
            DeviceMemoryError: there is no room for them.
        """
        self._launcher = launcher
        self.known_records = KnownRecords()
        self._grids = {t: launcher.space.upload(words) for t, words in codebooks().items()}

    # -- parts that other launch modules may use -------------------------------------------------

    def quantise(self, x: DeviceArray | int, num_rows: int, columns: int, scratch: str) -> int:
        """Quantise rows to 8-bit blocks; the address of their records.

        Args:
            x: `[num_rows, columns]` float32.
            num_rows: R.
            columns: of a row.
            scratch: name of the launcher's scratch memory that takes the records, unless they
                are there already.
        """
        known = self.known_records.find(pointer(x).value, num_rows, columns)
        if known is not None:
            return known
        records = self._launcher.scratch(scratch, num_rows * record_bytes(columns))
        self._launcher.launch(
            "quantise_rows",
            _quantising_grid(num_rows, columns),
            (256, 1, 1),
            pointer(x),
            ctypes.c_int64(columns),
            pointer(records),
            ctypes.c_int32(num_rows),
            ctypes.c_int32(columns),
        )
        return records

    def multiply(
        self, matrix: CudaMatrix, x: DeviceArray | int, out: DeviceArray | int, num_rows: int
    ) -> None:
        """`out = x @ matrix.T` for rows in the form that the matrix reads.

        Args:
            matrix: `[out_size, in_size]`.
            x: records by `quantise` for a quantised matrix, else floats `[num_rows, in_size]`.
            out: `[num_rows, out_size]` float32.
            num_rows: R.
        """
        self._multiply_together([matrix], x, [out], num_rows)

    # -- products --------------------------------------------------------------------------------

    def matmul(
        self, matrices: Sequence[Matrix], x: DeviceArray, outs: Sequence[DeviceArray]
    ) -> None:
        """See `Ops.matmul`; x `[R, in]`, outs `[R, out_m]`.

        Raises:
            ValueError: the shapes do not fit together.
        """
        num_rows, columns = x.shape
        ours = [cuda_matrix(matrix) for matrix in matrices]
        for matrix, out in zip(ours, outs, strict=True):
            if matrix.columns != columns or out.shape != (num_rows, matrix.rows):
                raise ValueError(f"matmul: arrays do not fit the matrix {matrix.name}")
        self._multiply_all(ours, x, outs, num_rows)

    def gather_rows(self, table: CudaMatrix, rows: DeviceArray, out: DeviceArray) -> None:
        """See `Ops.gather_rows`, for a table on the card; rows int64, negative ones are left out."""
        count, columns = rows.nbytes // 8, table.columns
        items = count * (columns if table.type in FLOAT_FORMATS else -(-columns // UNIT))
        if items == 0:
            return
        self._launcher.launch(
            f"gather_{table.type.name.lower()}",
            (-(-items // 256), 1, 1),
            (256, 1, 1),
            pointer(table.address),
            ctypes.c_int64(row_bytes(table.type, columns)),
            pointer(self._grids.get(table.type)),
            pointer(rows),
            ctypes.c_int32(count),
            ctypes.c_int32(columns),
            pointer(out),
        )

    # -- launches --------------------------------------------------------------------------------

    def _multiply_all(
        self,
        matrices: Sequence[CudaMatrix],
        x: DeviceArray,
        outs: Sequence[DeviceArray | int],
        num_rows: int,
    ) -> None:
        """Products of float rows with matrices of any format.

        Rows are quantised once, and matrices of one format share a launch: small ones do not fill
        the card alone.
        """
        by_type: dict[GgmlType, list[int]] = {}
        for i, matrix in enumerate(matrices):
            by_type.setdefault(matrix.type, []).append(i)
        records: int | None = None
        for ggml_type, places in by_type.items():
            read: DeviceArray | int = x
            if ggml_type not in FLOAT_FORMATS:
                if records is None:
                    columns = matrices[places[0]].columns
                    records = self.quantise(x, num_rows, columns, "products: rows")
                read = records
            for first in range(0, len(places), MOST_MATRICES):
                some = places[first : first + MOST_MATRICES]
                self._multiply_together(
                    [matrices[i] for i in some], read, [outs[i] for i in some], num_rows
                )

    def _multiply_together(
        self,
        matrices: Sequence[CudaMatrix],
        x: DeviceArray | int,
        outs: Sequence[DeviceArray | int],
        num_rows: int,
    ) -> None:
        """Products with at most MOST_MATRICES matrices of one format and width."""
        if num_rows == 0:
            return
        ggml_type = matrices[0].type
        product = self._product(ggml_type, matrices[0].columns, x)
        for i, (matrix, out) in enumerate(zip(matrices, outs, strict=True)):
            product.weights[i], product.out[i] = matrix.address, pointer(out).value
            product.matrix_rows[i] = matrix.rows
        product.num_rows = num_rows
        rows = tile_rows(num_rows)
        if ggml_type in FLOAT_FORMATS:
            rows = min(rows, ROWS[-1])
        self._launch(product, ggml_type, rows, -(-num_rows // rows), len(matrices))

    def _product(self, ggml_type: GgmlType, columns: int, x: DeviceArray | int) -> Product:
        is_float = ggml_type in FLOAT_FORMATS
        return Product(
            x=pointer(x).value,
            grid=pointer(self._grids.get(ggml_type)).value,
            row_bytes=row_bytes(ggml_type, columns),
            x_stride=columns if is_float else record_bytes(columns),
            columns=columns,
            per_row=1,
            lanes=_WARP if is_float else lanes_of(columns),
        )

    def _launch(
        self,
        product: Product,
        ggml_type: GgmlType,
        rows: int,
        num_tiles: int,
        num_matrices: int = 1,
    ) -> None:
        """A product of tiles of at most `rows` rows of activations."""
        matrix_rows = list(product.matrix_rows)[:num_matrices]
        if rows == MANY_ROWS:
            product.block_rows, variant = MANY_MATRIX_ROWS, "many"
        else:
            at_once, variant = THREADS // product.lanes, f"r{rows}"
            most = _MOST_SETS_WITH_CODEBOOK if ggml_type in self._grids else _MOST_SETS
            blocks = sum(matrix_rows) * num_tiles // at_once
            each = max(1, min(most, blocks // _ENOUGH_BLOCKS))
            product.block_rows = at_once * each
        self._launcher.launch(
            f"product_{ggml_type.name.lower()}_{variant}",
            (-(-max(matrix_rows) // product.block_rows), num_tiles, num_matrices),
            (THREADS, 1, 1),
            product,
        )

    def _gated(
        self,
        ggml_type: GgmlType,
        gate_and_up: Sequence[int],
        width: int,
        count: int,
        choices: Choices | None,
    ) -> int:
        """silu(gate) * up in the form that a matrix of this type reads: `count` rows, or chosen ones."""
        if count == 0:
            return gate_and_up[0]
        sizes = (
            pointer(None if choices is None else choices.tiles),
            pointer(None if choices is None else choices.pairs),
            ctypes.c_int32(count),
            ctypes.c_int32(width),
        )
        grid, block = _quantising_grid(count, width), (256, 1, 1)
        gate, up = (pointer(array) for array in gate_and_up)
        if ggml_type in FLOAT_FORMATS:
            self._launcher.launch("gated_rows", grid, block, gate, up, *sizes)
            return gate_and_up[0]
        records = self._launcher.scratch("products: hidden", count * record_bytes(width))
        self._launcher.launch(
            "gated_quantise_rows", grid, block, gate, up, pointer(records), *sizes
        )
        return records


def _quantising_grid(num_rows: int, columns: int) -> tuple[int, int, int]:
    """A warp for each block of 32 values, eight to a block of threads."""
    blocks = num_rows * (-(-columns // UNIT) * 2)
    return (max(1, min(-(-blocks // 8), _MOST_QUANTISING_BLOCKS)), 1, 1)
