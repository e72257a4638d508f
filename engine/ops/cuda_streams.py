"""Launches of the kernels for residual streams and norms (engine/kernels/cuda/streams.cu).

Arrays are `DeviceArray`s, weights those of the CUDA operations. Nothing is read on the host.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from engine.core.ggml_types import GgmlType
from engine.device.array import DeviceArray
from engine.ops.cuda_launch import Launcher, pointer
from engine.ops.cuda_structs import HcNormStruct, address_of, scratch_floats
from engine.ops.weights import HyperConnectionWeights, Matrix

_COLUMNS = 256  # threads of a block that takes columns
_MOST_THREADS = 1024
_MOST_INJECTED = 8  # streams whose injection hc_norm computes
_WARP = 32


class Products(Protocol):
    """Matrix products on the card."""

    def matmul(
        self, matrices: Sequence[Matrix], x: DeviceArray, outs: Sequence[DeviceArray]
    ) -> None:
        """As `Ops.matmul`."""


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


class CudaStreams:
    """Filling, adding, norms, and the gated residual mix."""

    def __init__(self, launcher: Launcher, products: Products) -> None:
        self._launcher = launcher
        self._products = products

    def fill_streams(self, x: DeviceArray, streams: DeviceArray) -> None:
        """See `Ops.fill_streams`."""
        self._by_columns("fill_streams", streams, pointer(x), pointer(streams))

    def add_to_streams(self, x: DeviceArray, streams: DeviceArray) -> None:
        """See `Ops.add_to_streams`."""
        self._by_columns("add_to_streams", streams, pointer(x), pointer(streams))

    def hc_combine(
        self,
        streams: DeviceArray,
        inject: DeviceArray,
        y: DeviceArray,
        late: DeviceArray | None = None,
    ) -> None:
        """See `Ops.hc_combine`; `late` `[R, H]` is added to y first."""
        self._by_columns(
            "hc_combine", streams, pointer(streams), pointer(inject), pointer(y), pointer(late)
        )

    def rms_norm(self, x: DeviceArray, weight: DeviceArray, eps: float, out: DeviceArray) -> None:
        """See `Ops.rms_norm`."""
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
        rows, hc, hidden = streams.shape
        if not rows:
            return
        width, rank = hc * hidden, weights.down.rows
        normed = self._floats("hc_normed", rows, width)
        low = self._floats("hc_low", rows, rank)
        gates = self._floats("hc_gates", rows, width)
        is_fused = inject is not None and self._is_injection_fused(weights, hc)
        matrices: list[Matrix] = [weights.down]
        outs = [low]
        raw: DeviceArray | None = None
        if inject is not None and weights.inject is not None and not is_fused:
            raw = self._floats("hc_raw", rows, hc)
            matrices.append(weights.inject)
            outs.append(raw)

        self._norm(weights, streams, normed, inject if is_fused else None, pending)
        self._products.matmul(matrices, normed, outs)
        self._elementwise("hc_low", low, pointer(low), hc)
        if raw is not None and inject is not None:
            self._launcher.launch(
                "hc_inject",
                (-(-rows * hc // _COLUMNS), 1, 1),
                (_COLUMNS, 1, 1),
                *(pointer(raw), pointer(inject)),
                *(ctypes.c_int32(rows * hc), ctypes.c_int32(hc)),
            )
        self._products.matmul([weights.up], low, [gates])
        self._by_columns("hc_output", streams, pointer(gates), pointer(normed), pointer(x))

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
        inject: DeviceArray | None,
        pending: Pending | None,
    ) -> None:
        rows, hc, hidden = streams.shape
        if hc * _WARP > _MOST_THREADS:
            raise ValueError(f"{hc} residual streams are more than the kernels take")
        each = min(_COLUMNS, _MOST_THREADS // hc // _WARP * _WARP, _warps(hidden))
        inject_rows = None
        if inject is not None:
            inject_rows = getattr(weights.inject, "address")  # noqa: B009  # of CudaMatrix alone
        struct = HcNormStruct(
            streams=streams.address,
            last_inject=None if pending is None else pending.inject.address,
            y=None if pending is None else pending.y.address,
            late=None if pending is None or pending.late is None else pending.late.address,
            norm=address_of(weights.norm),
            inject_rows=inject_rows,
            normed=normed.address,
            inject=None if inject is None else inject.address,
            num_streams=hc,
            hidden=hidden,
            eps=weights.eps,
        )
        self._launcher.launch("hc_norm", (rows, 1, 1), (hc * each, 1, 1), struct)

    def _elementwise(
        self, name: str, array: DeviceArray, first: ctypes.c_void_p, num_streams: int
    ) -> None:
        self._launcher.launch(
            name,
            (-(-array.size // _COLUMNS), 1, 1),
            (_COLUMNS, 1, 1),
            *(first, ctypes.c_int32(array.size), ctypes.c_int32(num_streams)),
        )

    def _by_columns(self, name: str, streams: DeviceArray, *addresses: ctypes.c_void_p) -> None:
        rows, hc, hidden = streams.shape
        if not rows:
            return
        self._launcher.launch(
            name,
            (-(-hidden // _COLUMNS), rows, 1),
            (_COLUMNS, 1, 1),
            *addresses,
            *(ctypes.c_int32(hc), ctypes.c_int32(hidden)),
        )

    def _floats(self, name: str, rows: int, width: int) -> DeviceArray:
        return scratch_floats(self._launcher, name, (rows, width))


def _warps(count: int) -> int:
    """Rounded up to whole warps."""
    return -(-count // _WARP) * _WARP
