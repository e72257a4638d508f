"""Launches of the kernels for residual streams and norms (streams.cu, hc_up_*.cu).

Arrays are `DeviceArray`s, weights those of the CUDA operations. Nothing is read on the host.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

from engine.core.ggml_types import GgmlType, row_bytes
from engine.device.array import DeviceArray
from engine.ops.cuda_launch import Launcher, pointer
from engine.ops.cuda_matrix import cuda_matrix
from engine.ops.cuda_product_structs import FLOAT_FORMATS, lanes_of, record_bytes
from engine.ops.cuda_products import CudaProducts
from engine.ops.cuda_structs import HcNormStruct, HcUpStruct, address_of, scratch_floats
from engine.ops.weights import HyperConnectionWeights

_COLUMNS = 256  # threads of a block that takes columns
_MOST_INJECTED = 8  # streams whose injection hc_norm sums
_WARP = 32
_UP_WARPS = 16  # of a block of hc_up, at most
_RECORD_COLUMNS = 32  # of a block of hc_up that also writes records of x
_UP_ROWS = (4, 16)  # that hc_up takes at once
_UP_FORMATS = frozenset(
    {
        *(GgmlType.F32, GgmlType.F16, GgmlType.BF16, GgmlType.Q8_0),
        *(GgmlType.Q5_0, GgmlType.Q5_1, GgmlType.Q4_0, GgmlType.IQ4_NL),
    }
)
MOST_SHARED_BYTES = 47 << 10
_GROUP_ROWS = 1024  # of a long pass: what lies between the kernels is 100 KB a row


@dataclass(frozen=True, slots=True, eq=False)
class Pending:
    """What a layer's part computed and nobody has added to the streams yet.

    Attributes:
        inject: `[R, hc]` of the mix before the part.
        y: `[R, H]` its result.
        late: `[R, H]` what is added to y first (results of another processor); None = nothing.
    """

    inject: DeviceArray
    y: DeviceArray
    late: DeviceArray | None = None

    def part(self, rows: slice) -> Pending:
        """The same of some rows."""
        late = None if self.late is None else self.late[rows]
        return Pending(self.inject[rows], self.y[rows], late)


class CudaStreams:
    """Filling, adding, norms, and the gated residual mix."""

    def __init__(self, launcher: Launcher, products: CudaProducts) -> None:
        self._launcher = launcher
        self._products = products

    def fill_streams(self, x: DeviceArray, streams: DeviceArray) -> None:
        """See `Ops.fill_streams`."""
        self._products.known_records.forget()
        self._by_columns("fill_streams", streams, pointer(x), pointer(streams))

    def add_to_streams(self, x: DeviceArray, streams: DeviceArray) -> None:
        """See `Ops.add_to_streams`."""
        self._products.known_records.forget()
        self._by_columns("add_to_streams", streams, pointer(x), pointer(streams))

    def hc_combine(
        self,
        streams: DeviceArray,
        inject: DeviceArray,
        y: DeviceArray,
        late: DeviceArray | None = None,
    ) -> None:
        """See `Ops.hc_combine`; `late` `[R, H]` is added to y first."""
        self._products.known_records.forget()
        self._by_columns(
            "hc_combine", streams, pointer(streams), pointer(inject), pointer(y), pointer(late)
        )

    def rms_norm(self, x: DeviceArray, weight: DeviceArray, eps: float, out: DeviceArray) -> None:
        """See `Ops.rms_norm`."""
        self._products.known_records.forget()
        if not x.size:
            return
        rows, width = x.shape
        threads = min(512, max(_WARP, _warps(-(-width // 8))))
        self._launcher.launch(
            "rms_norm",
            (rows, 1, 1),
            (threads, 1, 1),
            *(pointer(x), pointer(weight), pointer(out)),
            *(ctypes.c_int32(width), ctypes.c_float(eps)),
        )

    def hc_mix(
        self,
        weights: HyperConnectionWeights,
        streams: DeviceArray,
        x: DeviceArray,
        inject: DeviceArray | None,
        pending: Pending | None = None,
    ) -> None:
        """See `Ops.hc_mix`; `pending` is added to the streams first, with the bits of `hc_combine`."""
        self._products.known_records.forget()
        rows = len(streams)
        for first in range(0, rows, _GROUP_ROWS):
            part = slice(first, min(rows, first + _GROUP_ROWS))
            self._mix_group(
                weights,
                streams[part],
                x[part],
                None if inject is None else inject[part],
                None if pending is None else pending.part(part),
            )

    def _mix_group(
        self,
        weights: HyperConnectionWeights,
        streams: DeviceArray,
        x: DeviceArray,
        inject: DeviceArray | None,
        pending: Pending | None,
    ) -> None:
        rows, hc, hidden = streams.shape
        down, width = cuda_matrix(weights.down), hc * hidden
        normed = self._floats("hc_normed", rows, width)
        low = self._floats("hc_low", rows, down.rows)
        partials: DeviceArray | None = None
        if inject is not None and self._is_injection_fused(weights, hc):
            partials = self._floats("hc_partials", rows, hc * hc)
        read = self._norm(weights, streams, normed, partials, pending)
        self._products.multiply(down, read, low, rows)
        self._finish(weights, normed, low, x, None if partials is None else (partials, inject))
        if inject is not None and weights.inject is not None and partials is None:
            raw = self._floats("hc_raw", rows, hc)
            self._products.matmul([cuda_matrix(weights.inject)], normed, [raw])
            self._launcher.launch(
                "hc_inject",
                (-(-rows * hc // _COLUMNS), 1, 1),
                (_COLUMNS, 1, 1),
                *(pointer(raw), pointer(inject)),
                *(ctypes.c_int32(rows * hc), ctypes.c_int32(hc)),
            )

    @staticmethod
    def _is_injection_fused(weights: HyperConnectionWeights, num_streams: int) -> bool:
        return (
            weights.inject is not None
            and weights.inject.type is GgmlType.F32
            and num_streams <= _MOST_INJECTED
        )

    def _norm(
        self,
        weights: HyperConnectionWeights,
        streams: DeviceArray,
        normed: DeviceArray,
        partials: DeviceArray | None,
        pending: Pending | None,
    ) -> DeviceArray | int:
        """The normed rows, in the form that the down projection reads."""
        rows, hc, hidden = streams.shape
        is_quantised = weights.down.type not in FLOAT_FORMATS
        inject = None if weights.inject is None else cuda_matrix(weights.inject)
        records: int | None = None
        if is_quantised and hidden % 64 == 0:
            records = self._launcher.scratch("hc_records", rows * record_bytes(hc * hidden))
        struct = HcNormStruct(
            streams=streams.address,
            last_inject=None if pending is None else pending.inject.address,
            y=None if pending is None else pending.y.address,
            late=None if pending is None or pending.late is None else pending.late.address,
            norm=address_of(weights.norm),
            inject_rows=None if partials is None or inject is None else inject.address,
            normed=normed.address,
            records=records,
            partials=None if partials is None else partials.address,
            num_streams=hc,
            hidden=hidden,
            eps=weights.eps,
        )
        threads = min(_COLUMNS, _warps(hidden))
        self._launcher.launch("hc_norm", (rows, hc, 1), (threads, 1, 1), struct)
        if is_quantised and records is None:
            records = self._products.quantise(normed, rows, hc * hidden, "hc_records")
        return normed if records is None else records

    def _finish(
        self,
        weights: HyperConnectionWeights,
        normed: DeviceArray,
        low: DeviceArray,
        x: DeviceArray,
        injection: tuple[DeviceArray, DeviceArray | None] | None,
    ) -> None:
        """From the down projection to x, and the injection from its parts."""
        up = cuda_matrix(weights.up)
        rows, rank = low.shape
        hidden = x.shape[1]
        hc = normed.shape[1] // hidden
        partials, inject = (None, None) if injection is None else injection
        is_float = up.type in FLOAT_FORMATS
        at_once = next((size for size in _UP_ROWS if rows <= size), None)
        lanes = _WARP if is_float else lanes_of(rank)
        warps = _UP_WARPS // hc * hc
        columns = warps // hc * (_WARP // lanes)  # of x that a block computes
        shared = (at_once or 0) * (
            (4 * rank if is_float else record_bytes(rank)) + 4 * hc * columns
        )
        if at_once and warps and up.type in _UP_FORMATS and shared <= MOST_SHARED_BYTES:
            records: int | None = None
            if columns == _RECORD_COLUMNS and hidden % 64 == 0:  # else no block has whole records
                # Each x has its own: another pass may come between what makes and what reads them.
                name = f"hc_x_records {x.address:#x}"
                records = self._launcher.scratch(name, rows * record_bytes(hidden))
                self._products.known_records.remember(x, records)
            struct = HcUpStruct(
                *(up.address, row_bytes(up.type, rank), low.address, normed.address, x.address),
                records=records,
                partials=None if partials is None else partials.address,
                inject=None if inject is None else inject.address,
                num_rows=rows,
                num_streams=hc,
                hidden=hidden,
                rank=rank,
                lanes=lanes,
            )
            self._launcher.launch(
                f"hc_up_{up.type.name.lower()}_r{at_once}",
                (-(-hidden // columns), 1, 1),
                (warps * _WARP, 1, 1),
                struct,
                shared_bytes=shared,
            )
            return
        self._launcher.launch(
            "hc_low",
            (-(-max(low.size, rows * hc) // _COLUMNS), 1, 1),
            (_COLUMNS, 1, 1),
            *(pointer(low), ctypes.c_int32(low.size), ctypes.c_int32(hc)),
            *(pointer(partials), pointer(inject), ctypes.c_int32(rows)),
        )
        gates = self._floats("hc_gates", rows, hc * hidden)
        self._products.matmul([up], low, [gates])
        self._launcher.launch(
            "hc_output",
            (-(-hidden // _COLUMNS), rows, 1),
            (_COLUMNS, 1, 1),
            *(pointer(gates), pointer(normed), pointer(x)),
            *(ctypes.c_int32(hc), ctypes.c_int32(hidden)),
        )

    def _by_columns(self, name: str, streams: DeviceArray, *addresses: ctypes.c_void_p) -> None:
        rows, hc, hidden = streams.shape
        if not rows:
            return
        self._launcher.launch(
            name,
            (-(-hidden // _COLUMNS), rows, hc),
            (_COLUMNS, 1, 1),
            *addresses,
            *(ctypes.c_int32(hc), ctypes.c_int32(hidden)),
        )

    def _floats(self, name: str, rows: int, width: int) -> DeviceArray:
        return scratch_floats(self._launcher, name, (rows, width))


def _warps(count: int) -> int:
    """Rounded up to whole warps."""
    return -(-count // _WARP) * _WARP
