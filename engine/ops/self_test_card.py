"""The operations on a card against the reference, on the same small cases as those of the CPU.

`engine doctor` runs it where there is a card. The cases hand numpy arrays to operations; here each call
takes copies of them to the card and what it wrote back.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from engine.core.ggml_types import GgmlType
from engine.device.array import DeviceArray
from engine.device.base import Device
from engine.gguf.reader import Tensor
from engine.kernels.cuda_compile import kernel_files
from engine.ops.base import FloatArray, IntArray, Limits, Ops
from engine.ops.best_logits import MOST_CANDIDATES, ROW_WORDS, BestRows
from engine.ops.check_cases import OpCase, error_of
from engine.ops.cuda import CudaOps
from engine.ops.cuda_settings import CudaSettings
from engine.ops.plan import PassPlan
from engine.ops.pools import DeltaPool, KvPool, PlePool
from engine.ops.reference import ReferenceOps
from engine.ops.self_test import OpCheck, bound_of, small_cases
from engine.ops.weights import (
    AttentionWeights,
    DeltaWeights,
    HyperConnectionWeights,
    Matrix,
    MoeWeights,
    PleWeights,
)

LIMITS = Limits(max_rows=16, max_window=8, num_slots=3, num_pages=64)
_CACHE_BYTES = 1 << 20
_VOCABULARY = 9000  # more than one block looks at


class CardCalls(Ops):
    """Operations on host arrays, computed on a card call by call."""

    name = "card"

    def __init__(self, ops: CudaOps) -> None:
        self._ops = ops
        self._groups: dict[int, tuple[Any, Any]] = {}

    def matrix(self, tensor: Tensor) -> Matrix:
        """See `Ops.matrix`."""
        return self._ops.matrix(tensor)

    def _call(self, name: str, *arguments: Any) -> None:  # noqa: ANN401  # whatever operations take
        back: list[tuple[npt.NDArray[np.generic], DeviceArray]] = []
        taken = [self._take(argument, back) for argument in arguments]
        getattr(self._ops, name)(*taken)
        self._ops.synchronize()
        for array, copy in back:
            if array.flags.writeable:
                array[...] = copy.numpy()

    def _take(self, thing: Any, back: list[tuple[Any, DeviceArray]]) -> Any:  # noqa: ANN401
        """A thing as the card's operations take it; what must be read `back` is noted."""
        if isinstance(thing, np.ndarray):
            copy = self._ops.upload(np.ascontiguousarray(thing))
            back.append((thing, copy))
            return copy
        if isinstance(thing, PassPlan):
            return self._take_plan(thing)
        if isinstance(thing, DeltaPool | PlePool | KvPool):
            return self._take_fields(thing, back)
        if dataclasses.is_dataclass(thing):
            if id(thing) not in self._groups:
                self._groups[id(thing)] = (thing, self._take_fields(thing, []))
            return self._groups[id(thing)][1]
        if isinstance(thing, list):
            return [self._take(part, back) for part in thing]
        return thing

    def _take_fields(self, group: Any, back: list[tuple[Any, DeviceArray]]) -> Any:  # noqa: ANN401
        values = {
            field.name: self._take(getattr(group, field.name), back)
            for field in dataclasses.fields(group)
            if field.name != "prepared"
        }
        return type(group)(**values)

    def _take_plan(self, plan: PassPlan) -> PassPlan:
        values = [getattr(plan, field.name) for field in dataclasses.fields(plan)]
        arrays = self._ops.host_arrays(*((value.shape, value.dtype) for value in values))
        for array, value in zip(arrays, values, strict=True):
            array[...] = value
        taken = PassPlan(*arrays)
        self._ops.begin_pass(taken)
        return taken

    # -- the contract ----------------------------------------------------------------------------

    def gather_rows(self, table: Matrix, rows: npt.NDArray[np.int64], out: FloatArray) -> None:
        """See `Ops`; row numbers stay on the host."""
        copy = self._ops.upload(out)
        self._ops.gather_rows(table, rows, cast("FloatArray", copy))  # as models pass them
        self._ops.synchronize()
        out[...] = copy.numpy()

    def fill_streams(self, x: FloatArray, streams: FloatArray) -> None:
        """See `Ops`."""
        self._call("fill_streams", x, streams)

    def add_to_streams(self, x: FloatArray, streams: FloatArray) -> None:
        """See `Ops`."""
        self._call("add_to_streams", x, streams)

    def rms_norm(self, x: FloatArray, weight: FloatArray, eps: float, out: FloatArray) -> None:
        """See `Ops`."""
        self._call("rms_norm", x, weight, eps, out)

    def matmul(self, matrices: Sequence[Matrix], x: FloatArray, outs: Sequence[FloatArray]) -> None:
        """See `Ops`."""
        self._call("matmul", matrices, x, list(outs))

    def hc_mix(
        self,
        weights: HyperConnectionWeights,
        streams: FloatArray,
        x: FloatArray,
        inject: FloatArray | None,
    ) -> None:
        """See `Ops`."""
        self._call("hc_mix", weights, streams, x, inject)

    def hc_combine(self, streams: FloatArray, inject: FloatArray, y: FloatArray) -> None:
        """See `Ops`."""
        self._call("hc_combine", streams, inject, y)

    def hc_combine_mix(
        self,
        weights: HyperConnectionWeights,
        streams: FloatArray,
        inject: FloatArray,
        y: FloatArray,
        x: FloatArray,
    ) -> None:
        """See `Ops`."""
        self._call("hc_combine_mix", weights, streams, inject, y, x)

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
        """See `Ops`."""
        self._call("delta_mix", weights, pool, plan, qkv, z, alpha, beta, out)

    def delta_commit(
        self, weights: DeltaWeights, pool: DeltaPool, slot: int, half: int, num_tokens: int
    ) -> None:
        """See `Ops`."""
        self._call("delta_commit", weights, pool, slot, half, num_tokens)

    def attention_append(
        self,
        weights: AttentionWeights,
        pool: KvPool,
        plan: PassPlan,
        k: FloatArray,
        v: FloatArray,
        index_k: FloatArray,
    ) -> None:
        """See `Ops`."""
        self._call("attention_append", weights, pool, plan, k, v, index_k)

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
        """See `Ops`."""
        self._call("attention", weights, pool, plan, q, index_q, out, selected)

    def route(
        self, weights: MoeWeights, x: FloatArray, expert_ids: IntArray, expert_weights: FloatArray
    ) -> None:
        """See `Ops`."""
        self._call("route", weights, x, expert_ids, expert_weights)

    def experts(
        self,
        weights: MoeWeights,
        x: FloatArray,
        expert_ids: IntArray,
        expert_weights: FloatArray,
        out: FloatArray,
    ) -> None:
        """See `Ops`; these experts are the only ones of a model."""
        self._ops.finish_loading([self._take(weights, [])], [])
        self._call("experts", weights, x, expert_ids, expert_weights, out)

    def shared_expert(self, weights: MoeWeights, x: FloatArray, out: FloatArray) -> None:
        """See `Ops`."""
        self._call("shared_expert", weights, x, out)

    def ple_mix(
        self,
        weights: PleWeights,
        pool: PlePool,
        plan: PassPlan,
        key: FloatArray,
        value: FloatArray,
        streams: FloatArray,
    ) -> None:
        """See `Ops`."""
        self._call("ple_mix", weights, pool, plan, key, value, streams)

    def ple_commit(
        self, weights: PleWeights, pool: PlePool, slot: int, half: int, num_tokens: int
    ) -> None:
        """See `Ops`."""
        self._call("ple_commit", weights, pool, slot, half, num_tokens)


def card_self_test(
    device: Device,
    cases: Sequence[OpCase] | None = None,
    on_step: Callable[[int, int], None] | None = None,
) -> list[OpCheck]:
    """All small cases on a card, which is closed afterwards.

    Args:
        device: the card.
        cases: others than the small ones.
        on_step: told how many of how many steps are done: sources that are compiled and loaded, cases.

    Raises:
        EngineError: the card or the CPU's kernels cannot be used at all.
    """
    cases = small_cases() if cases is None else cases
    sources = kernel_files()
    num_steps = len(sources) + len(cases) + 1

    def tell(done: int) -> None:
        if on_step is not None:
            on_step(done, num_steps)

    reference = ReferenceOps(LIMITS)
    ops = CudaOps(LIMITS, device, CudaSettings(cache_bytes=_CACHE_BYTES, ring_experts=2))
    checks = []
    try:
        at_once = max(1, os.cpu_count() or 1)  # as many as are compiled side by side
        for start in range(0, len(sources), at_once):
            tell(start)
            device.load_kernels(sources[start : start + at_once])
        calls = CardCalls(ops)
        for done, case in enumerate(cases, len(sources)):
            tell(done)
            right = case.run(reference, [case.num_rows])
            error = error_of(case.run(calls, [case.num_rows]), right)
            bound = bound_of(case)
            checks.append(OpCheck(case.name, ops.isa, error, bound, error <= bound))
        tell(num_steps - 1)
        checks.append(_check_choices(ops))
        tell(num_steps)
    finally:
        ops.close()
    return checks


def _check_choices(ops: CudaOps) -> OpCheck:
    """The largest logits and the best token of each row: exactly those of the row's logits."""
    random = np.random.default_rng(8)
    weights = np.round(random.standard_normal((_VOCABULARY, 32)) * 4).astype(np.float32)
    matrix = ops.matrix(
        Tensor("logits", GgmlType.F32, weights.shape, weights.view(np.uint8).reshape(-1))
    )
    rows = np.round(random.standard_normal((3, 32)) * 4).astype(np.float32)  # many are equal
    x = cast("FloatArray", ops.upload(rows))
    best, found, logits = ops.host_arrays(
        ((3,), np.int32), ((3, ROW_WORDS), np.int32), ((3, _VOCABULARY), np.float32)
    )
    ops.choose(matrix, x, best)
    ops.best_logits(matrix, x, found)
    ops.synchronize()
    for row, out in enumerate(logits):
        ops.fetch_logits(row, out)
    wrong = 0
    for row, own in enumerate(logits):
        order = np.argsort(-own, kind="stable")[:MOST_CANDIDATES]
        candidates = BestRows(found).row(row)
        same = np.array_equal(candidates.ids, order)
        wrong += not (same and np.array_equal(candidates.values, own[order]))
        wrong += int(best[row]) != int(order[0])
    return OpCheck(f"largest of {_VOCABULARY} logits", ops.isa, float(wrong), 0.0, wrong == 0)
