"""Checks of the operations: each case runs one operation on given rows, cut into passes as asked.

A case holds inputs for a number of rows. `run(ops, cuts)` computes them in passes of `cuts[i]` rows
and returns everything that the operation wrote, joined over the passes: so the results of two
implementations can be compared, and the results of one for different cuts, bit for bit. `quantises`
says that the operation rounds activations to 8 bits; then the reference is met within a percent only.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from engine.core.ggml_types import GgmlType
from engine.ops.base import FloatArray, Ops
from engine.ops.check_inputs import Inputs
from engine.ops.weights import HyperConnectionWeights, MoeWeights

Results = dict[str, npt.NDArray[np.generic]]

FLOAT_TYPES = frozenset({GgmlType.F32, GgmlType.F16, GgmlType.BF16})


class OpCase(ABC):
    """One operation, or two that belong together, with sizes and inputs.

    Attributes:
        name: operation and what is special.
        num_rows: rows that the inputs have.
        quantises: activations are rounded to 8 bits on the way.
    """

    name: str
    num_rows: int
    quantises: bool = False

    @abstractmethod
    def run(self, ops: Ops, cuts: Sequence[int]) -> Results:
        """Everything written, after passes of these numbers of rows (their sum at most num_rows)."""


def slices(cuts: Sequence[int]) -> Iterator[slice]:
    """The rows of each pass."""
    ends = list(accumulate(cuts))
    return (slice(end - count, end) for end, count in zip(ends, cuts, strict=True))


def error_of(got: Results, wanted: Results) -> float:
    """The largest difference, in units of the root mean square of the wanted values.

    Integer results must be equal, else the error is infinite; so is it where a value is not finite.
    """
    worst = 0.0
    for name, value in wanted.items():
        other = got[name]
        if np.issubdtype(value.dtype, np.integer):
            if not np.array_equal(value, other):
                return float("inf")
            continue
        wide = value.astype(np.float64)
        scale = max(float(np.sqrt(np.mean(wide**2))), 1e-30)
        difference = float(np.abs(other.astype(np.float64) - wide).max(initial=0.0)) / scale
        worst = max(worst, difference if np.isfinite(difference) else float("inf"))
    return worst


class MatmulCase(OpCase):
    """Several matrices of one input; the first output is a strided view."""

    def __init__(
        self,
        types: Sequence[GgmlType],
        rows: Sequence[int],
        columns: int,
        *,
        num_rows: int = 16,
        seed: int = 1,
    ) -> None:
        inputs = Inputs(seed)
        self.name = f"matmul {'+'.join(t.name for t in types)} {list(rows)}x{columns}"
        self.num_rows = num_rows
        self.quantises = not set(types) <= FLOAT_TYPES
        self.tensors = [inputs.tensor(t, out, columns) for t, out in zip(types, rows, strict=True)]
        self.x = inputs.normal(num_rows, columns)

    def run(self, ops: Ops, cuts: Sequence[int]) -> Results:
        """See `OpCase.run`."""
        matrices = [ops.matrix(tensor) for tensor in self.tensors]
        count = sum(cuts)
        wide = np.zeros((count, self.tensors[0].shape[0] + 3), np.float32)
        outs = [wide[:, 1:-2]]
        outs += [np.zeros((count, t.shape[0]), np.float32) for t in self.tensors[1:]]
        for part in slices(cuts):
            ops.matmul(matrices, self.x[part], [out[part] for out in outs])
        results: Results = {f"out{i}": out.copy() for i, out in enumerate(outs)}
        results["untouched"] = (wide[:, [0, -2, -1]] != 0).sum(keepdims=True)
        return results


class GatherCase(OpCase):
    """Rows of a table, one or several for each result row."""

    def __init__(self, ggml_type: GgmlType, columns: int, per_row: int, *, seed: int = 2) -> None:
        inputs = Inputs(seed)
        self.name = f"gather_rows {ggml_type.name} {per_row}x{columns}"
        self.num_rows = 16
        self.table = inputs.tensor(ggml_type, 50, columns)
        self.indices = inputs.random.integers(0, 50, (self.num_rows, per_row))

    def run(self, ops: Ops, cuts: Sequence[int]) -> Results:
        """See `OpCase.run`."""
        table = ops.matrix(self.table)
        per_row = self.indices.shape[1]
        out = np.zeros((sum(cuts), per_row * self.table.shape[1]), np.float32)
        for part in slices(cuts):
            rows = self.indices[part] if per_row > 1 else self.indices[part, 0]
            ops.gather_rows(table, np.ascontiguousarray(rows, dtype=np.int64), out[part])
        return {"out": out}


class RowsCase(OpCase):
    """Norm, filling, adding and combining: `size` values a row, four streams."""

    def __init__(self, operation: str, size: int, *, scale: float = 1.0, seed: int = 3) -> None:
        inputs = Inputs(seed)
        self.operation = operation
        self.name = f"{operation} {size}" + (f" scaled by {scale}" if scale != 1.0 else "")
        self.num_rows = 16
        self.x = inputs.normal(16, size, scale=scale)
        self.weight = inputs.weight(size)
        self.streams = inputs.normal(16, 4, size, scale=scale)
        self.inject = inputs.normal(16, 4)

    def run(self, ops: Ops, cuts: Sequence[int]) -> Results:
        """See `OpCase.run`."""
        count = sum(cuts)
        out = np.zeros_like(self.x[:count])
        streams = self.streams[:count].copy()
        for part in slices(cuts):
            if self.operation == "rms_norm":
                ops.rms_norm(self.x[part], self.weight, 1e-6, out[part])
            elif self.operation == "fill_streams":
                ops.fill_streams(self.x[part], streams[part])
            elif self.operation == "add_to_streams":
                ops.add_to_streams(self.x[part], streams[part])
            else:
                ops.hc_combine(streams[part], self.inject[part], self.x[part])
        return {"out": out} if self.operation == "rms_norm" else {"streams": streams}


class MixCase(OpCase):
    """The gated residual mix, alone or behind what the part before it leaves to be added."""

    def __init__(
        self,
        ggml_type: GgmlType,
        streams: int,
        hidden: int,
        rank: int,
        *,
        has_inject: bool = True,
        is_behind: bool = False,
        seed: int = 4,
    ) -> None:
        inputs = Inputs(seed)
        operation = "hc_combine_mix" if is_behind else "hc_mix"
        self.name = f"{operation} {ggml_type.name} {streams}x{hidden} rank {rank}"
        self.name += "" if has_inject else " without inject"
        self.num_rows = 16
        self.quantises = ggml_type not in FLOAT_TYPES
        self.norm = inputs.weight(streams, hidden)
        self.down = inputs.tensor(ggml_type, rank, streams * hidden)
        self.up = inputs.tensor(ggml_type, streams * hidden, rank)
        self.inject = inputs.tensor(GgmlType.F32, streams, streams * hidden) if has_inject else None
        self.streams = inputs.normal(16, streams, hidden, scale=3.0)
        self.before = inputs.normal(16, hidden) if is_behind else None
        self.inject_before = inputs.normal(16, streams)

    def run(self, ops: Ops, cuts: Sequence[int]) -> Results:
        """See `OpCase.run`."""
        weights = HyperConnectionWeights(
            self.norm,
            ops.matrix(self.down),
            ops.matrix(self.up),
            None if self.inject is None else ops.matrix(self.inject),
            1e-6,
        )
        count = sum(cuts)
        x = np.zeros((count, self.norm.shape[1]), np.float32)
        inject = np.zeros((count, self.norm.shape[0]), np.float32)
        if self.before is not None:
            streams, inject[...] = self.streams[:count].copy(), self.inject_before[:count]
            for part in slices(cuts):
                arrays = (streams[part], inject[part], self.before[part], x[part])
                ops.hc_combine_mix(weights, *arrays)
            return {"x": x, "inject": inject, "streams": streams}
        for part in slices(cuts):
            to = None if self.inject is None else inject[part]
            ops.hc_mix(weights, self.streams[part], x[part], to)
        return {"x": x} if self.inject is None else {"x": x, "inject": inject}


@dataclass(frozen=True, slots=True)
class MoeSizes:
    """Sizes of a mixture of experts."""

    experts: int
    used: int
    hidden: int
    width: int
    shared_width: int


class MoeCase(OpCase):
    """Router, chosen experts and shared expert, each on the same inputs."""

    def __init__(
        self,
        gate_type: GgmlType,
        down_type: GgmlType,
        sizes: MoeSizes,
        *,
        num_rows: int = 16,
        seed: int = 5,
        left_out: float = 0.0,
    ) -> None:
        """`left_out`: the share of choices that become -1 before the experts are computed."""
        inputs = Inputs(seed)
        e, hidden, width = sizes.experts, sizes.hidden, sizes.width
        self.sizes = sizes
        self.name = f"experts {gate_type.name}/{down_type.name} {e} of {hidden}x{width}"
        if left_out:
            self.name += f", {left_out:.0%} left out"
        self.num_rows = num_rows
        self.quantises = not {gate_type, down_type} <= FLOAT_TYPES
        self.router = inputs.tensor(GgmlType.F32, e, hidden)
        self.gate = inputs.tensor(gate_type, e, width, hidden)
        self.up = inputs.tensor(gate_type, e, width, hidden)
        self.down = inputs.tensor(down_type, e, hidden, width)
        self.shared_router = inputs.normal(hidden, scale=hidden**-0.5)
        self.shared_gate = inputs.tensor(gate_type, sizes.shared_width, hidden)
        self.shared_up = inputs.tensor(gate_type, sizes.shared_width, hidden)
        self.shared_down = inputs.tensor(down_type, hidden, sizes.shared_width)
        self.x = inputs.normal(num_rows, hidden, scale=2.0)
        self.left_out = inputs.random.random((num_rows, sizes.used)) < left_out

    def run(self, ops: Ops, cuts: Sequence[int]) -> Results:
        """See `OpCase.run`."""
        weights = MoeWeights(
            ops.matrix(self.router),
            ops.matrix(self.gate),
            ops.matrix(self.up),
            ops.matrix(self.down),
            self.sizes.used,
            self.shared_router,
            ops.matrix(self.shared_gate),
            ops.matrix(self.shared_up),
            ops.matrix(self.shared_down),
        )
        count = sum(cuts)
        ids = np.zeros((count, self.sizes.used), np.int32)
        chosen = np.zeros((count, self.sizes.used), np.float32)
        routed: FloatArray = np.zeros((count, self.sizes.hidden), np.float32)
        shared: FloatArray = np.ones((count, self.sizes.hidden), np.float32)
        for part in slices(cuts):
            ops.route(weights, self.x[part], ids[part], chosen[part])
            shares = chosen[part].copy()
            shares[self.left_out[part]] = np.nan  # must not be read
            ids[part][self.left_out[part]] = -1
            ops.experts(weights, self.x[part], ids[part], shares, routed[part])
            ops.shared_expert(weights, self.x[part], shared[part])
        return {"ids": ids, "weights": chosen, "routed": routed, "shared": shared}
