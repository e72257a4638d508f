"""Matrix products, router and experts on a card: which kernel is launched how.

The kernels of router and experts are in `engine/kernels/cuda/experts.cu` and `route.cu`; products by
themselves are in `cuda_matmul.py`. What changes between passes (choices, slots) is read on the card, so
that launches can be captured.

An expert's parts begin at multiples of 256 bytes. Arrays are C-contiguous; R rows, H hidden size, F width
of an expert, K choices of a row, E experts.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from engine.device.array import DeviceArray
from engine.memory.expert_bank import Bank
from engine.ops.cuda_launch import pointer
from engine.ops.cuda_matmul import MatrixProducts
from engine.ops.cuda_matrix import CudaMatrix, cuda_matrix
from engine.ops.cuda_product_structs import (
    BLOCK,
    FLOAT_FORMATS,
    MANY_ROWS,
    ROWS,
    THREADS,
    Choices,
    Product,
    record_bytes,
    tile_rows,
)
from engine.ops.weights import MoeWeights

_WARP = 32
MOST_SHARED_BYTES = 48 << 10
_FEW_PAIRS = 256  # that are grouped by comparing each with each


class CudaProducts(MatrixProducts):
    """All products of a model; see `MatrixProducts` for those without experts."""

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
        warps = max(1, min(4, num_rows, MOST_SHARED_BYTES // row))
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
            if num_slots * 4 > MOST_SHARED_BYTES:
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


def _on_card(vector: object) -> DeviceArray:
    if not isinstance(vector, DeviceArray):
        raise TypeError("a vector of the weights does not lie on the card")
    return vector
