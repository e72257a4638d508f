"""The table of operations and sizes that host operations are compared on.

Sizes lie around what a kernel takes at once (a vector of 8 or 16 floats, a unit of 1 or 2 blocks, a
super of 8 blocks, a tile of 32 rows or columns): one less, equal, one more.
"""

from __future__ import annotations

import numpy as np

from engine.core.ggml_types import GgmlType
from engine.ops.check_cases import (
    GatherCase,
    MatmulCase,
    MixCase,
    MoeCase,
    MoeSizes,
    OpCase,
    RowsCase,
)
from engine.ops.check_sequences import (
    AttentionCase,
    AttentionSizes,
    DeltaCase,
    DeltaSizes,
    PleCase,
    PleSizes,
    SequenceCase,
)
from engine.ops.host import HOST_FORMATS

F32, F16, BF16 = GgmlType.F32, GgmlType.F16, GgmlType.BF16
Q8_0, Q4_K, Q2_0, IQ4_NL = GgmlType.Q8_0, GgmlType.Q4_K, GgmlType.Q2_0, GgmlType.IQ4_NL
Q5_K, Q6_K, Q5_1 = GgmlType.Q5_K, GgmlType.Q6_K, GgmlType.Q5_1

FLOAT_COLUMNS = (1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 100, 257)
ROWS = (1, 2, 3, 4, 5, 31, 32, 33, 70)


def _columns(ggml_type: GgmlType) -> tuple[int, ...]:
    """Row lengths of a quantised format: around a unit, a super, and a few supers."""
    size = ggml_type.block_values
    if size == 256:
        return (256, 512, 1280)
    return tuple(n for n in (32, 64, 96, 192, 224, 256, 288, 320, 544, 640) if n % size == 0)


def matmul_cases() -> list[MatmulCase]:
    """Every format with its row lengths, numbers of matrix rows going round."""
    cases = [
        MatmulCase([t], [ROWS[i % len(ROWS)]], columns, seed=100 + i)
        for t in (F32, F16, BF16)
        for i, columns in enumerate(FLOAT_COLUMNS)
    ]
    for t in sorted(HOST_FORMATS - {F32, F16, BF16}):
        cases += [
            MatmulCase([t], [ROWS[(i + int(t)) % len(ROWS)]], columns, seed=200 + i)
            for i, columns in enumerate(_columns(t))
        ]
    # Small ones, of which some lie a second time, 16 rows side by side.
    cases += [
        MatmulCase([t], [rows], columns, seed=300 + columns)
        for t in sorted(HOST_FORMATS - {F32, F16, BF16})
        for rows, columns in ((48, 256), (34, 128), (32, 96))
        if columns % t.block_values == 0
    ]
    # Rows that end inside of 256 values, too long to lie a second time; and rows of long activations.
    cases += [
        MatmulCase([t], [45], 544, seed=400)
        for t in sorted(HOST_FORMATS - {F32, F16, BF16})
        if 544 % t.block_values == 0
    ]
    cases += [MatmulCase([t], [19], 4352, seed=401) for t in (Q8_0, Q4_K, Q6_K, IQ4_NL)]
    cases.append(MatmulCase([Q8_0, F32, Q4_K, BF16, Q2_0, Q6_K, Q8_0], [7, 3, 33, 5, 9, 4, 2], 256))
    return cases


def row_cases() -> list[OpCase]:
    """Operations on rows without matrices, and tables."""
    cases: list[OpCase] = [
        RowsCase(operation, size)
        for operation in ("rms_norm", "fill_streams", "add_to_streams", "hc_combine")
        for size in (1, 8, 15, 16, 17, 64, 65, 192)
    ]
    cases += [RowsCase("rms_norm", 64, scale=scale) for scale in (1e-12, 1e12)]
    cases += [GatherCase(t, 256 * 2, 3) for t in sorted(HOST_FORMATS)]
    cases += [GatherCase(IQ4_NL, 160, 16), GatherCase(F16, 7, 1), GatherCase(Q2_0, 192, 2)]
    return cases


def layer_cases() -> list[OpCase]:
    """Mixes and experts."""
    return [
        MixCase(F32, 1, 16, 8),
        MixCase(F16, 4, 33, 15),
        MixCase(BF16, 3, 40, 17, has_inject=False),
        MixCase(BF16, 4, 64, 20),  # held by columns as it is, and all its rows at once
        MixCase(BF16, 4, 1056, 64),  # the same in tiles of columns
        MixCase(Q8_0, 4, 192, 64),
        MixCase(Q8_0, 2, 16, 32),
        MixCase(Q8_0, 4, 96, 96, has_inject=False),
        MoeCase(F32, F32, MoeSizes(5, 2, 20, 12, 7)),
        MoeCase(F16, BF16, MoeSizes(16, 4, 33, 17, 40)),
        MoeCase(Q8_0, Q8_0, MoeSizes(8, 3, 64, 32, 96)),
        MoeCase(Q4_K, IQ4_NL, MoeSizes(7, 2, 256, 96, 32)),
        MoeCase(Q2_0, Q2_0, MoeSizes(4, 1, 192, 64, 64)),
        MoeCase(Q5_K, Q5_1, MoeSizes(3, 3, 256, 32, 64)),
        MoeCase(F32, Q8_0, MoeSizes(1, 1, 40, 32, 32)),
        MoeCase(Q4_K, IQ4_NL, MoeSizes(6, 2, 256, 128, 96)),
        MoeCase(Q8_0, Q5_1, MoeSizes(9, 4, 64, 32, 96), left_out=0.4),
        MoeCase(F32, BF16, MoeSizes(6, 2, 33, 17, 40), left_out=1.0),
    ]


def sequence_cases() -> list[SequenceCase]:
    """Operations with state."""
    return [
        DeltaCase(DeltaSizes(1, 1, 1, 2)),
        DeltaCase(DeltaSizes(2, 6, 15, 3)),
        DeltaCase(DeltaSizes(2, 4, 31, 4)),
        DeltaCase(DeltaSizes(1, 3, 32, 4)),
        DeltaCase(DeltaSizes(2, 2, 33, 4)),
        DeltaCase(DeltaSizes(1, 2, 70, 4)),
        PleCase(PleSizes(1, 8, 2, 1)),
        PleCase(PleSizes(4, 33, 4, 3)),
        PleCase(PleSizes(3, 64, 3, 4)),
        AttentionCase(AttentionSizes(1, 1, 2, 1, 2, 2, 1, 2, 4)),
        AttentionCase(AttentionSizes(2, 2, 15, 2, 9, 8, 2, 3, 2)),
        AttentionCase(AttentionSizes(6, 2, 32, 4, 16, 16, 4, 4, 4)),
        AttentionCase(AttentionSizes(7, 1, 33, 5, 32, 32, 3, 5, 1)),
        AttentionCase(AttentionSizes(12, 1, 64, 4, 32, 16, 4, 2, 8), num_rows=45),
        AttentionCase(AttentionSizes(6, 2, 32, 4, 16, 16, 4, 4, 4), dtype=np.float16),
        AttentionCase(AttentionSizes(5, 1, 17, 3, 8, 4, 2, 20, 3), dtype=np.float16),
    ]


def all_cases() -> list[OpCase]:
    """The whole table."""
    return [*matmul_cases(), *row_cases(), *layer_cases(), *sequence_cases()]
