"""The operations of this machine against the reference: small sizes, every instruction set.

`engine doctor` runs it. Bounds are relative to the root mean square of the right values: float32
operations differ by rounding alone; where activations are rounded to 8 bits, by about a percent.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.core.ggml_types import GgmlType
from engine.kernels.library import load_library
from engine.ops.base import Limits
from engine.ops.check_cases import (
    GatherCase,
    MatmulCase,
    MixCase,
    MoeCase,
    MoeSizes,
    OpCase,
    RowsCase,
    error_of,
)
from engine.ops.check_sequences import (
    AttentionCase,
    AttentionSizes,
    DeltaCase,
    DeltaSizes,
    PleCase,
    PleSizes,
)
from engine.ops.host import HostOps
from engine.ops.host_structs import HOST_FORMATS
from engine.ops.reference import ReferenceOps

FLOAT_BOUND = 2e-5
HALF_BOUND = 2e-3  # caches in float16: a value may round to its neighbour
QUANTISED_BOUND = 0.08


@dataclass(frozen=True, slots=True)
class OpCheck:
    """One operation compared with the reference.

    Attributes:
        name: operation and sizes.
        isa: variant of the kernels.
        max_error: largest difference over the root mean square of the right values.
        bound: what it may be.
        ok: it is.
    """

    name: str
    isa: str
    max_error: float
    bound: float
    ok: bool


def small_cases() -> list[OpCase]:
    """Every operation and every format once, in sizes that have remainders."""
    formats = sorted(HOST_FORMATS)
    return [
        *(MatmulCase([t], [19], 512, num_rows=5) for t in formats),
        *(GatherCase(t, 256, 1) for t in formats),
        *(RowsCase(name, 37) for name in ("rms_norm", "fill_streams", "add_to_streams")),
        RowsCase("hc_combine", 37),
        MixCase(GgmlType.Q8_0, 3, 96, 32),
        MixCase(GgmlType.F32, 2, 40, 12, has_inject=False),
        MixCase(GgmlType.BF16, 4, 48, 20),
        MixCase(GgmlType.Q8_0, 4, 128, 32, is_behind=True),
        MoeCase(GgmlType.Q4_K, GgmlType.Q8_0, MoeSizes(6, 2, 256, 64, 32), num_rows=5),
        DeltaCase(DeltaSizes(2, 4, 24, 4), num_rows=6),
        PleCase(PleSizes(2, 40, 3, 2), num_rows=6),
        AttentionCase(AttentionSizes(4, 2, 24, 3, 16, 8, 2, 4, 3), num_rows=20),
        AttentionCase(AttentionSizes(3, 1, 32, 2, 16, 16, 3, 3, 2), dtype=np.float16, num_rows=20),
    ]


def bound_of(case: OpCase) -> float:
    """The largest error that a case may show."""
    if case.quantises:
        return QUANTISED_BOUND
    if isinstance(case, AttentionCase) and case.dtype == np.float16:
        return HALF_BOUND
    return FLOAT_BOUND


def self_test() -> list[OpCheck]:
    """All small cases on each instruction set of this processor.

    Raises:
        ResourceError: the host kernels cannot be used here at all.
    """
    limits = Limits(max_rows=16, max_window=8, num_slots=3, num_pages=64)
    reference = ReferenceOps(limits)
    cases = small_cases()
    wanted = [case.run(reference, [case.num_rows]) for case in cases]
    checks = []
    for isa in load_library().variants:
        ops = HostOps(limits, isa)
        try:
            for case, right in zip(cases, wanted, strict=True):
                error = error_of(case.run(ops, [case.num_rows]), right)
                bound = bound_of(case)
                checks.append(OpCheck(case.name, isa, error, bound, error <= bound))
        finally:
            ops.close()
    return checks
