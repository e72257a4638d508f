"""Matrix products, router and experts on a card: which kernel is launched how.

The kernels are in `engine/kernels/cuda/products*.cu*`, `quantise.cu`, `experts.cu` and `route.cu`; what the
operations compute is said in `engine/ops/base.py`. Everything goes into the launcher's stream and can be
captured: sizes depend on the number of rows only, and what changes between passes is read on the card.

Weights lie as in the file, each matrix begun at a multiple of 16 bytes (parts of experts: 256), in memory
whose size is a multiple of 16. Arrays are C-contiguous; R rows, H hidden size, F width of an expert, K
choices of a row.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from engine.core.ggml_types import GgmlType, row_bytes
from engine.device.array import DeviceArray
from engine.memory.expert_bank import Bank
from engine.ops.cuda_codebooks import codebooks
from engine.ops.cuda_launch import Launcher, pointer
from engine.ops.cuda_matrix import CudaMatrix, cuda_matrix
from engine.ops.cuda_product_structs import (
    BLOCK,
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
from engine.ops.weights import Matrix, MoeWeights

_WARP = 32
# Blocks that fill any card; where there are more, each takes several sets of rows, one while it copies the
# next, and for the codebook that it copies.
_ENOUGH_BLOCKS = 1024
_MOST_SETS = 4
_MOST_SETS_WITH_CODEBOOK = 8
_MOST_QUANTISING_BLOCKS = 1 << 16  # beyond, each takes several times
_MOST_SHARED_BYTES = 48 << 10
_FEW_PAIRS = 256  # that are grouped by comparing each with each


class CudaProducts:
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

    # -- experts ---------------------------------------------------------------------------------

    def route(
        self,
        weights: MoeWeights,
        x: DeviceArray,
        expert_ids: DeviceArray,
        expert_weights: DeviceArray,
    ) -> None:
        """See `Ops.route`; x `[R, H]`, ids int32 and weights `[R, K]`."""
        router = cuda_matrix(weights.router)
        num_rows, num_used = expert_ids.shape
        if num_rows == 0:
            return
        logits = self._launcher.scratch("products: logits", num_rows * router.rows * 4)
        self._multiply_all([router], x, [logits], num_rows)
        row = router.rows * 4
        warps = max(1, min(4, num_rows, _MOST_SHARED_BYTES // row))
        self._launcher.launch(
            "route",
            (-(-num_rows // warps), 1, 1),
            (warps * _WARP, 1, 1),
            pointer(logits),
            pointer(expert_ids),
            pointer(expert_weights),
            ctypes.c_int32(num_rows),
            ctypes.c_int32(router.rows),
            ctypes.c_int32(num_used),
            shared_bytes=warps * row,
        )

    def expert_slots(
        self, expert_ids: DeviceArray, slot_of: DeviceArray, slots: DeviceArray
    ) -> None:
        """`slots[r, k] = slot_of[expert_ids[r, k]]`, -1 for negative ids.

        Args:
            expert_ids: `[R, K]` int32.
            slot_of: `[E]` int32: the slot of each expert, negative: it has none.
            slots: `[R, K]` int32.
        """
        count = expert_ids.nbytes // 4
        if count == 0:
            return
        self._launcher.launch(
            "expert_slots",
            (-(-count // 256), 1, 1),
            (256, 1, 1),
            pointer(expert_ids),
            pointer(slot_of),
            pointer(slots),
            ctypes.c_int32(count),
        )

    def expert_pairs(
        self,
        weights: MoeWeights,
        bank: Bank,
        x: DeviceArray,
        slots: DeviceArray,
        pairs: DeviceArray,
    ) -> None:
        """What each chosen expert makes of its row, unweighted.

        Args:
            weights: formats and sizes of the experts.
            bank: where they lie.
            x: `[R, H]`.
            slots: `[R, K]` int32: the slot of each choice; pairs with a negative one are left alone.
            pairs: `[R, K, H]`, written where the slot is not negative.

        Raises:
            ValueError: the shapes do not fit together.
        """
        num_rows, num_used = slots.shape
        gate, up, down = (cuda_matrix(m) for m in (weights.gate, weights.up, weights.down))
        if x.shape != (num_rows, gate.columns) or pairs.shape != (num_rows, num_used, down.rows):
            raise ValueError(f"experts: arrays do not fit the matrices of {gate.name}")
        if num_rows == 0 or bank.memory is None or bank.num_slots == 0:
            return
        choices = self._choices(weights, bank.num_slots, slots)
        records: int | None = None
        if not {gate.type, up.type} <= FLOAT_FORMATS:
            records = self.quantise(x, num_rows, gate.columns, "products: rows")
        if choices.tile_rows == MANY_ROWS and gate.type is up.type:
            hidden = self._gated_product(bank, choices, gate, records or 0, num_used)
        else:
            outs = [
                self._launcher.scratch(f"experts: {name}", choices.count * gate.rows * 4)
                for name in ("gate", "up")
            ]
            for parts in ((0, 1),) if gate.type is up.type else ((0,), (1,)):
                matrix = (gate, up)[parts[0]]
                read = x if matrix.type in FLOAT_FORMATS or records is None else records
                targets = [outs[part] for part in parts]
                self._expert_product(bank, choices, matrix, parts, read, targets, num_used)
            hidden = self._gated(down.type, outs, gate.rows, choices.count, choices)
        self._expert_product(bank, choices, down, (2,), hidden, [pairs.address], 1)

    def expert_sum(
        self,
        pairs: DeviceArray,
        slots: DeviceArray,
        more_slots: DeviceArray | None,
        expert_weights: DeviceArray,
        host: DeviceArray | None,
        out: DeviceArray,
    ) -> None:
        """The weighted sum of pairs, in the order of the choices.

        Args:
            pairs: `[R, K, H]` by `expert_pairs`.
            slots: `[R, K]` int32 of a first call.
            more_slots: of a second call; a pair counts where either is not negative.
            expert_weights: `[R, K]`.
            host: `[R, H]`, what another place computed of the other choices; added at the end.
            out: `[R, H]`, set.
        """
        num_rows, width = out.shape
        if num_rows == 0:
            return
        self._launcher.launch(
            "sum_experts",
            (-(-width // 256), num_rows, 1),
            (256, 1, 1),
            pointer(pairs),
            pointer(slots),
            pointer(more_slots),
            pointer(expert_weights),
            pointer(host),
            pointer(out),
            ctypes.c_int32(slots.shape[1]),
            ctypes.c_int32(width),
        )

    def shared_values(self, weights: MoeWeights, x: DeviceArray, values: DeviceArray) -> None:
        """What the shared expert makes of rows, not yet gated; x, values `[R, H]`."""
        gate, up, down = (
            cuda_matrix(m) for m in (weights.shared_gate, weights.shared_up, weights.shared_down)
        )
        num_rows = x.shape[0]
        outs = [
            self._launcher.scratch(f"shared expert: {name}", num_rows * gate.rows * 4)
            for name in ("gate", "up")
        ]
        self._multiply_all([gate, up], x, outs, num_rows)
        hidden = self._gated(down.type, outs, gate.rows, num_rows, None)
        self.multiply(down, hidden, values, num_rows)

    def add_shared(
        self, weights: MoeWeights, x: DeviceArray, values: DeviceArray, out: DeviceArray
    ) -> None:
        """`out[r] += sigmoid(shared_router . x[r]) * values[r]`; all `[R, H]`."""
        num_rows, columns = x.shape
        if num_rows == 0:
            return
        self._launcher.launch(
            "add_shared_expert",
            (num_rows, 1, 1),
            (256, 1, 1),
            pointer(_on_card(weights.shared_router)),
            pointer(x),
            pointer(values),
            pointer(out),
            ctypes.c_int32(columns),
            ctypes.c_int32(out.shape[1]),
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

    def _choices(self, weights: MoeWeights, num_slots: int, slots: DeviceArray) -> Choices:
        """Cut the pairs into tiles: on the card, unless each is one."""
        num_rows, num_used = slots.shape
        count = num_rows * num_used
        if num_rows == 1:
            return Choices(slots.address, count, 1, count, None, None)
        # A tile that is not full costs registers, pairs beyond a tile read the weights again. A row
        # chooses an expert once, so few rows fill no large tile.
        rows = tile_rows(min(num_rows, max(4, -(-count // weights.gate.count))))
        kinds = {m.type for m in (weights.gate, weights.up, weights.down)}
        if not FLOAT_FORMATS.isdisjoint(kinds):
            rows = min(rows, ROWS[-1])
        most_tiles = min(count, count // rows + num_slots)
        tiles = self._launcher.scratch("experts: tiles", 16 + 16 * most_tiles)
        pairs = self._launcher.scratch("experts: pairs", 4 * count)
        arrays = (pointer(slots), pointer(tiles), pointer(pairs), ctypes.c_int32(count))
        if count <= _FEW_PAIRS:
            block = (-(-count // _WARP) * _WARP, 1, 1)
            self._launcher.launch(
                "group_few_experts", (1, 1, 1), block, *arrays, ctypes.c_int32(rows)
            )
        else:
            if num_slots * 4 > _MOST_SHARED_BYTES:
                raise ValueError(
                    f"{num_slots} slots of one layer are more than can be sorted at once"
                )
            self._launcher.launch(
                "group_experts",
                (1, 1, 1),
                (1024, 1, 1),
                *arrays,
                ctypes.c_int32(num_slots),
                ctypes.c_int32(rows),
                shared_bytes=4 * num_slots,
            )
        return Choices(slots.address, count, rows, most_tiles, tiles, pairs)

    def _expert_product(
        self,
        bank: Bank,
        choices: Choices,
        matrix: CudaMatrix,
        parts: tuple[int, ...],
        x: DeviceArray | int,
        outs: Sequence[int],
        per_row: int,
    ) -> None:
        """One or two matrices of a slot (0 gate, 1 up, 2 down) of one shape with their pairs."""
        product = self._product_of_slots(bank, choices, matrix, parts, x, per_row)
        for i, out in enumerate(outs):
            product.out[i] = out
        self._launch(product, matrix.type, choices.tile_rows, choices.most_tiles, len(parts))

    def _gated_product(
        self, bank: Bank, choices: Choices, gate: CudaMatrix, x: int, per_row: int
    ) -> int:
        """Records of silu(gate) * up of large tiles; both matrices are quantised, and so is down."""
        hidden = self._launcher.scratch("products: hidden", choices.count * record_bytes(gate.rows))
        product = self._product_of_slots(bank, choices, gate, (0, 1), x, per_row)
        product.out[0] = hidden
        self._launcher.launch(
            f"product_{gate.type.name.lower()}_many_gated",
            (-(-gate.rows // BLOCK), choices.most_tiles, 1),
            (THREADS, 1, 1),
            product,
        )
        return hidden

    def _product_of_slots(
        self,
        bank: Bank,
        choices: Choices,
        matrix: CudaMatrix,
        parts: tuple[int, ...],
        x: DeviceArray | int,
        per_row: int,
    ) -> Product:
        product = self._product(matrix.type, matrix.columns, x)
        for i, part in enumerate(parts):
            product.weights[i] = bank.address_of(0) + bank.layout.offsets[part]
            product.matrix_rows[i] = matrix.rows
        product.tiles, product.pairs = choices.tiles, choices.pairs
        product.slots = choices.slots
        product.slot_bytes = bank.layout.slot_bytes
        product.num_rows, product.per_row = choices.count, per_row
        return product

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


def _on_card(vector: object) -> DeviceArray:
    if not isinstance(vector, DeviceArray):
        raise TypeError("a vector of the weights does not lie on the card")
    return vector
