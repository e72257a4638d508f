"""Random weights, pools and passes of any size, for checks of the operations.

Used by the self-test that runs on people's machines (`self_test.py`) and by the tests. Tensors of
every block format come from random bytes with sensible scales, so all codes of a format occur.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from engine.core.ggml_types import GgmlType, row_bytes
from engine.gguf.quantise import quantise
from engine.gguf.reader import Tensor
from engine.ops.base import FloatArray
from engine.ops.plan import PassPlan
from engine.ops.pools import DeltaPool, KvPool, PlePool

# format -> offsets of the float16 numbers in a block, the scale first, and the largest code
_SCALES: dict[GgmlType, tuple[tuple[int, ...], float]] = {
    GgmlType.Q4_0: ((0,), 8),
    GgmlType.Q4_1: ((0, 2), 15),
    GgmlType.Q5_0: ((0,), 16),
    GgmlType.Q5_1: ((0, 2), 31),
    GgmlType.Q8_0: ((0,), 128),
    GgmlType.Q2_K: ((80, 82), 45),
    GgmlType.Q3_K: ((108,), 128),
    GgmlType.Q4_K: ((0, 2), 945),
    GgmlType.Q5_K: ((0, 2), 1953),
    GgmlType.Q6_K: ((208,), 4096),
    GgmlType.IQ1_S: ((0,), 17),
    GgmlType.IQ2_XXS: ((0,), 167),
    GgmlType.IQ2_XS: ((0,), 167),
    GgmlType.IQ2_S: ((0,), 167),
    GgmlType.IQ3_XXS: ((0,), 480),
    GgmlType.IQ3_S: ((0,), 465),
    GgmlType.IQ4_NL: ((0,), 127),
    GgmlType.IQ4_XS: ((0,), 4064),
    GgmlType.Q2_0: ((0,), 2),
}

_QUANTISED_FROM_FLOATS = frozenset({GgmlType.F32, GgmlType.F16, GgmlType.BF16})


class Inputs:
    """Random arrays and tensors from one seed."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)

    def normal(self, *shape: int, scale: float = 1.0) -> FloatArray:
        """Normally distributed float32 values."""
        return (self.random.standard_normal(shape) * scale).astype(np.float32)

    def weight(self, *shape: int) -> FloatArray:
        """Norm weights near 1."""
        return (1 + self.normal(*shape, scale=0.2)).astype(np.float32)

    def tensor(self, ggml_type: GgmlType, *shape: int) -> Tensor:
        """A matrix `[rows, columns]` or `[count, rows, columns]` with values about 1 / sqrt(columns)."""
        columns = shape[-1]
        if ggml_type in _QUANTISED_FROM_FLOATS:
            values = self.normal(*shape, scale=columns**-0.5)
            return Tensor("weights", ggml_type, shape, quantise(values, ggml_type).reshape(-1))
        num_rows = int(np.prod(shape[:-1]))
        num_blocks = num_rows * row_bytes(ggml_type, columns) // ggml_type.block_bytes
        raw = self.random.integers(0, 256, (num_blocks, ggml_type.block_bytes)).astype(np.uint8)
        offsets, largest = _SCALES.get(ggml_type, ((), 1))
        if ggml_type is GgmlType.MXFP4:  # a power of two, with the offset 128
            raw[:, 0] = self.random.integers(124, 127, num_blocks) - round(np.log2(columns) / 2)
        if ggml_type is GgmlType.IQ1_M:  # a float16 in the top nibbles of four numbers
            scale = self.random.uniform(0.5, 1.0, num_blocks) * (0.1 * columns**-0.5)
            bits = scale.astype("<f2").view(np.uint16)
            for part in range(4):
                low = raw[:, 49 + 2 * part] & 15
                raw[:, 49 + 2 * part] = low | (bits >> (4 * part) & 15) << 4
        for offset in offsets:
            scale = self.random.uniform(0.5, 1.0, num_blocks) * (2 / largest * columns**-0.5)
            raw[:, offset : offset + 2] = scale.astype("<f2").view(np.uint8).reshape(-1, 2)
        return Tensor("weights", ggml_type, shape, raw.reshape(-1))


@dataclass(frozen=True, slots=True)
class SequenceRows:
    """Rows of one sequence in a pass.

    Attributes:
        slot: of the sequence.
        half: which half of its slot is committed.
        length: tokens committed before.
        count: rows in this pass.
    """

    slot: int
    half: int
    length: int
    count: int


def make_plan(
    sequences: list[SequenceRows],
    *,
    rope_dim: int = 2,
    block_ratio: int = 1,
    pages_per_sequence: int = 1,
) -> PassPlan:
    """The plan of a pass; the sequence in slot 0, 1 or 2 owns every third page from there on."""
    counts = [s.count for s in sequences]
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    positions = np.concatenate([np.arange(s.length, s.length + s.count) for s in sequences]).astype(
        np.int32
    )
    pages = np.arange(pages_per_sequence)
    table = np.array([pages * 3 + s.slot for s in sequences], np.int32)
    frequencies = 100.0 ** (-np.arange(rope_dim // 2) / max(1, rope_dim // 2))
    angles = positions[:, None] * frequencies
    block_angles = (positions[:, None] - (block_ratio - 1)) * frequencies
    return PassPlan(
        token_ids=np.zeros(len(positions), np.int32),
        positions=positions,
        row_seq=np.repeat(np.arange(len(sequences)), counts).astype(np.int32),
        seq_start=starts,
        seq_slot=np.array([s.slot for s in sequences], np.int32),
        seq_half=np.array([s.half for s in sequences], np.int32),
        seq_length=np.array([s.length for s in sequences], np.int32),
        page_table=table,
        rope_cos=np.cos(angles).astype(np.float32),
        rope_sin=np.sin(angles).astype(np.float32),
        block_rope_cos=np.cos(block_angles).astype(np.float32),
        block_rope_sin=np.sin(block_angles).astype(np.float32),
    )


def delta_pool(
    slots: int, window: int, num_k_heads: int, num_v_heads: int, head_dim: int, conv_kernel: int
) -> DeltaPool:
    """A pool of zeros."""
    channels = (2 * num_k_heads + num_v_heads) * head_dim
    return DeltaPool(
        state=np.zeros((slots, 2, num_v_heads, head_dim, head_dim), np.float32),
        conv=np.zeros((slots, 2, conv_kernel - 1, channels), np.float32),
        window_conv=np.zeros((slots, window, channels), np.float32),
        window_k=np.zeros((slots, window, num_k_heads, head_dim), np.float32),
        window_v=np.zeros((slots, window, num_v_heads, head_dim), np.float32),
        window_decay=np.zeros((slots, window, num_v_heads), np.float32),
        window_beta=np.zeros((slots, window, num_v_heads), np.float32),
    )


def ple_pool(slots: int, window: int, history: int, width: int) -> PlePool:
    """A pool of zeros."""
    return PlePool(
        conv=np.zeros((slots, 2, history, width), np.float32),
        window=np.zeros((slots, window, width), np.float32),
    )


def kv_pool(
    pages: int,
    page_tokens: int,
    block_ratio: int,
    num_kv_heads: int,
    head_dim: int,
    index_dim: int,
    dtype: npt.DTypeLike,
) -> KvPool:
    """Pages of zeros."""
    return KvPool(
        keys=np.zeros((pages, page_tokens, num_kv_heads, head_dim), dtype),
        values=np.zeros((pages, page_tokens, num_kv_heads, head_dim), dtype),
        index_raw=np.zeros((pages, page_tokens, index_dim), dtype),
        index_pooled=np.zeros((pages, page_tokens // block_ratio, index_dim), dtype),
        page_tokens=page_tokens,
    )
