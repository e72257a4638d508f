"""Launches that are the reference's operations on the memory of a `PlainDevice`.

So everything of the GPU engine but its kernels can be tested quickly: where arrays lie, what is uploaded
when, recordings, experts on two processors.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np

from engine.core.ggml_types import row_bytes
from engine.device.array import DeviceArray
from engine.gguf.reader import Tensor
from engine.ops.base import Limits
from engine.ops.cuda import CudaOps
from engine.ops.cuda_launch import Launcher
from engine.ops.cuda_launches import Launches
from engine.ops.cuda_matrix import CudaMatrix
from engine.ops.cuda_settings import CudaSettings
from engine.ops.pools import KvPool
from engine.ops.reference import ReferenceMatrix, ReferenceOps
from engine.ops.reference_math import sigmoid, silu
from tests.support.best_rows import pack_best
from tests.support.plain_device import PlainDevice, PlainStream, _bytes_at, host_view


def on_host(thing: Any) -> Any:
    """Arrays as numpy sees them, matrices as the reference reads them, groups of both."""
    if isinstance(thing, DeviceArray):
        return host_view(thing)
    if isinstance(thing, CudaMatrix):
        return _matrix(thing)
    if isinstance(thing, list | tuple):
        return [on_host(part) for part in thing]
    if dataclasses.is_dataclass(thing) and not isinstance(thing, type):
        names = [field.name for field in dataclasses.fields(thing) if field.init]
        return type(thing)(**{name: on_host(getattr(thing, name)) for name in names})
    return thing


def _matrix(matrix: CudaMatrix) -> ReferenceMatrix | None:
    if matrix.data is None:
        return None
    if matrix.prepared is None:
        data = host_view(matrix.data)
        tensor = Tensor(matrix.name, matrix.type, (matrix.rows, matrix.columns), data)
        matrix.prepared = ReferenceMatrix(tensor)
    return matrix.prepared


class PlainCalls:
    """Calls of the reference, in the order of the stream."""

    def __init__(self, launcher: Launcher, limits: Limits) -> None:
        self._launcher = launcher
        self._reference = ReferenceOps(limits)
        self._groups: dict[int, tuple[Any, Any]] = {}

    def _call(self, name: str, *arguments: Any) -> None:
        stream = self._launcher.stream
        assert isinstance(stream, PlainStream)
        values = [self._once(a) for a in arguments]
        stream.call(functools.partial(getattr(self._reference, name), *values))

    def _once(self, thing: Any) -> Any:
        """Groups of weights are taken over once: decoding them takes long."""
        if not hasattr(thing, "prepared") or isinstance(thing, CudaMatrix):
            return on_host(thing)
        if id(thing) not in self._groups:
            self._groups[id(thing)] = (thing, on_host(thing))
        return self._groups[id(thing)][1]

    def __getattr__(self, name: str) -> Any:
        return functools.partial(self._call, name)

    def attention_append(self, weights, pool, plan, k, v, index_k):
        self._on_pages("attention_append", weights, pool, plan, k, v, index_k)

    def attention(self, weights, pool, plan, q, index_q, out, selected=None):
        self._on_pages("attention", weights, pool, plan, q, index_q, out, selected)

    def _on_pages(self, name: str, weights: Any, pool: KvPool, *arguments: Any) -> None:
        """The reference knows no far pages: it gets all of them in one piece, and they go back from there."""
        if pool.far is None:
            self._call(name, weights, pool, *arguments)
            return
        far, near = pool.far, on_host(dataclasses.replace(pool, far=None))
        names = [f.name for f in dataclasses.fields(pool)]
        kept = [n for n in names if n not in {"far", "page_tokens", "index_pooled"}]
        kept = [n for n in kept if getattr(near, n) is not None]
        weights, *values = [self._once(a) for a in (weights, *arguments)]

        def compute() -> None:
            parts = [(getattr(near, n), a) for n, a in zip(kept, far.arrays, strict=True)]
            whole = {n: np.concatenate(both) for n, both in zip(kept, parts, strict=True)}
            method = getattr(self._reference, name)
            method(weights, dataclasses.replace(near, **whole), *values)
            for n, (first, rest) in zip(kept, parts, strict=True):
                first[...], rest[...] = np.split(whole[n], [len(first)])

        self._later(compute)

    def delta_commits(self, weights, pools, commits):
        for pool in pools:
            for commit in commits:
                self._call("delta_commit", weights, pool, *commit)

    def ple_commits(self, weights, pool, commits):
        for commit in commits:
            self._call("ple_commit", weights, pool, *commit)

    def hc_mix(self, weights, streams, x, inject, pending=None):
        if pending is not None:
            self._call("hc_combine", streams, pending.inject, pending.y)
        self._call("hc_mix", weights, streams, x, inject)

    def _later(self, function: Any) -> None:
        stream = self._launcher.stream
        assert isinstance(stream, PlainStream)
        stream.call(function)

    def expert_slots(self, expert_ids, slot_of, slots):
        ids, table, out = host_view(expert_ids), host_view(slot_of), host_view(slots)
        self._later(lambda: np.copyto(out, table[ids]))

    def expert_pairs(self, weights, bank, x, slots, pairs):
        parts = (weights.gate, weights.up, weights.down)
        layout = bank.layout  # captured launches know addresses, and keep no memory
        slot_0 = bank.address_of(0)
        rows, where, out = host_view(x), host_view(slots), host_view(pairs)

        def matrix(slot: int, index: int) -> Any:
            part = parts[index]
            size = part.rows * row_bytes(part.type, part.columns)
            assert size == layout.sizes[index]
            data = _bytes_at(slot_0 + slot * layout.slot_bytes + layout.offsets[index], size)
            tensor = Tensor("", part.type, (part.rows, part.columns), data)
            return tensor.dequantise().astype(np.float64)

        def compute() -> None:
            for r, k in np.argwhere(where >= 0).tolist():
                slot = int(where[r, k])
                row = rows[r].astype(np.float64)
                inner = silu(matrix(slot, 0) @ row) * (matrix(slot, 1) @ row)
                out[r, k] = matrix(slot, 2) @ inner

        self._later(compute)

    def expert_sum(self, pairs, slots, more_slots, expert_weights, host, out):
        values, shares, target = host_view(pairs), host_view(expert_weights), host_view(out)
        first = host_view(slots)
        second = first if more_slots is None else host_view(more_slots)

        def compute() -> None:
            is_used = (first >= 0) | (second >= 0)
            used = np.where(is_used[:, :, None], values, 0).astype(np.float64)
            total = (shares[:, :, None] * used).sum(axis=1)
            target[...] = total if host is None else total + host_view(host)

        self._later(compute)

    def argmax(self, logits, ids):
        values, target = on_host(logits), on_host(ids)

        def compute() -> None:
            target[...] = np.where(np.isfinite(values.max(1)), values.argmax(1), -1)

        self._later(compute)

    def candidates(self, logits, bests):
        values, target = on_host(logits), on_host(bests)

        def compute() -> None:
            for row, out in zip(values, target, strict=True):
                pack_best(row, out)

        self._later(compute)

    def shared_values(self, weights, x, values):
        gate, up, down = map(_matrix, (weights.shared_gate, weights.shared_up, weights.shared_down))
        rows, out = host_view(x), host_view(values)

        def compute() -> None:
            for r, row in enumerate(rows.astype(np.float64)):
                inner = silu(gate.values[0] @ row) * (up.values[0] @ row)
                out[r] = down.values[0] @ inner

        self._later(compute)

    def add_shared(self, weights, x, values, out):
        router, rows = host_view(weights.shared_router), host_view(x)
        added, target = host_view(values), host_view(out)

        def compute() -> None:
            for r, row in enumerate(rows.astype(np.float64)):
                target[r] = target[r] + sigmoid(router.astype(np.float64) @ row) * added[r]

        self._later(compute)


def plain_launches(launcher: Launcher, limits: Limits) -> Launches:
    """All groups of launches are the same object."""
    calls: Any = PlainCalls(launcher, limits)
    return Launches(calls, calls, calls, calls, calls, calls)


def plain_ops(
    limits: Limits, settings: CudaSettings | None = None, total_bytes: int = 1 << 30
) -> CudaOps:
    """The CUDA operations on a plain device."""
    return CudaOps(limits, PlainDevice(total_bytes), settings, plain_launches)
