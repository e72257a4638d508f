"""Launches of the sparse attention kernels (attention*.cu).

Few rows (a decode window) split each row's tokens into parts that many blocks take at once; many rows take
a block for each row and key-value head. Both give the same bits. Prompts are worked through in groups of
rows, so that scratch memory stays small.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from engine.device.array import DeviceArray
from engine.ops.cuda_launch import Launcher, pointer
from engine.ops.cuda_structs import (
    AttendRowsStruct,
    AttentionSizesStruct,
    KvPagesStruct,
    PassStruct,
    PrepareInputsStruct,
    address_of,
    pass_struct,
    scratch_floats,
)
from engine.ops.weights import AttentionWeights

if TYPE_CHECKING:
    from engine.ops.plan import PassPlan
    from engine.ops.pools import KvPool

PART_TOKENS = 64  # as in attention.cuh, like the next ones
_MOST_HEADS = 64  # query heads of a key-value head
_MOST_DIM = 256
MOST_SHARED_BYTES = 45 << 10  # of 48 KB; the kernels' own arrays take less than the rest
_SPLIT_ROWS = 16  # passes of at most so many rows split their tokens among blocks
_SCORED_ROWS = 16  # of attention_select.cu
_SCORED_KEYS = 32
_GROUP_FLOATS = 4 << 20  # scores of a group of rows: 16 MB
_MOST_GROUP = 256  # rows
_THREADS = 128
_TYPE_NAMES = {np.dtype(np.float32): "f32", np.dtype(np.float16): "f16", np.dtype(np.int8): "i8"}


@dataclass(frozen=True, slots=True, eq=False)
class FarAddresses:
    """Addresses of a pool's far pages (`engine/ops/pools.py`), which the card reads over the bus.

    Page n of the pool is page n - num_near here, for all pages from num_near on. Pooled index keys lie
    on the card for all pages.

    Attributes:
        num_near: pages that lie on the card.
        keys: address of what `KvPool.keys` holds of these pages.
        values: the same of the values.
        index_raw: the same of the raw index keys.
        key_scales: of int8 pages.
        value_scales: of int8 pages.
    """

    num_near: int
    keys: int
    values: int
    index_raw: int
    key_scales: int | None = None
    value_scales: int | None = None


@dataclass(frozen=True, slots=True)
class _Call:
    """What the kernels of one call share."""

    pages: KvPagesStruct
    sizes: AttentionSizesStruct
    of_pass: PassStruct
    type_name: str
    index_name: str
    rows: int
    most_blocks: int  # that a row can see


class CudaAttention:
    """Appending to the pages, choosing blocks, attending.

    Far pages are those of the pool, where none are given.
    """

    def __init__(self, launcher: Launcher) -> None:
        self._launcher = launcher

    def attention_append(
        self,
        weights: AttentionWeights,
        pool: KvPool,
        plan: PassPlan,
        k: DeviceArray,
        v: DeviceArray,
        index_k: DeviceArray,
        far: FarAddresses | None = None,
    ) -> None:
        """See `Ops.attention_append`."""
        if not plan.num_rows:
            return
        call = _call(weights, pool, plan, far)
        inputs = PrepareInputsStruct(
            *(k.address, v.address, index_k.address, None, None),
            *_norms(weights),
            *(None, None, 0, 0),
        )
        self._prepare(call, weights, inputs, plan.num_rows, weights.num_kv_heads + 1)

    def attention(
        self,
        weights: AttentionWeights,
        pool: KvPool,
        plan: PassPlan,
        q: DeviceArray,
        index_q: DeviceArray,
        out: DeviceArray,
        selected: DeviceArray | None = None,
        far: FarAddresses | None = None,
    ) -> None:
        """See `Ops.attention`."""
        call = _call(weights, pool, plan, far)
        group = max(1, min(_MOST_GROUP, _GROUP_FLOATS // call.most_blocks))
        for first in range(0, call.rows, group):
            rows = min(group, call.rows - first)
            self._attend_group(call, weights, first, rows, q, index_q, out, selected)

    def _attend_group(
        self,
        call: _Call,
        weights: AttentionWeights,
        first: int,
        rows: int,
        q: DeviceArray,
        index_q: DeviceArray,
        out: DeviceArray,
        selected: DeviceArray | None,
    ) -> None:
        w, scratch = weights, self._launcher.scratch
        index_stride = -(-w.index_dim // 4) * 4
        queries = scratch_floats(
            self._launcher, "attention_queries", (rows, w.num_heads * w.head_dim)
        )
        index_queries = scratch_floats(
            self._launcher, "attention_index_queries", (rows, w.num_index_heads * index_stride)
        )
        inputs = PrepareInputsStruct(
            *(None, None, None, q.address, index_q.address),
            *_norms(w),
            *(queries.address, index_queries.address, w.num_kv_heads + 1, first),
        )
        self._prepare(call, w, inputs, rows, w.num_heads + w.num_index_heads)

        if selected is not None:
            chosen = selected[first : first + rows].address
        else:
            chosen = scratch("attention_chosen", rows * w.top_blocks * 4)
        if call.most_blocks > w.top_blocks or selected is not None:
            self._select(call, w, first, rows, index_queries, index_stride, chosen)

        most_tokens = min(
            w.top_blocks * w.block_ratio + w.block_ratio - 1,
            call.of_pass.max_pages * call.pages.page_tokens,
        )
        most_parts = -(-most_tokens // PART_TOKENS)
        of_rows = AttendRowsStruct(
            *(queries.address, chosen, q.address, out.address),
            *(None, None, None, first, most_parts),
        )
        heads = w.num_heads // w.num_kv_heads
        name = f"{call.type_name}_v{4 if w.head_dim % 4 == 0 else 1}"
        row_bytes = 4 * heads * w.head_dim
        shared = PART_TOKENS * -(-heads // 4) * 4 * 4 + row_bytes
        common = (call.pages, call.sizes, call.of_pass, of_rows)
        if call.rows > _SPLIT_ROWS and shared + row_bytes <= MOST_SHARED_BYTES:
            self._launcher.launch(
                f"attention_rows_{name}",
                (w.num_kv_heads, rows, 1),
                (_THREADS, 1, 1),
                *common,
                shared_bytes=shared + row_bytes,
            )
            return
        shape = (rows, most_parts, w.num_heads)
        of_rows.sums = scratch_floats(
            self._launcher, "attention_sums", (*shape, w.head_dim)
        ).address
        of_rows.tops = scratch_floats(self._launcher, "attention_tops", shape).address
        of_rows.totals = scratch_floats(self._launcher, "attention_totals", shape).address
        self._launcher.launch(
            f"attention_parts_{name}",
            (most_parts, w.num_kv_heads, rows),
            (_THREADS, 1, 1),
            *common,
            shared_bytes=shared,
        )
        self._launcher.launch(
            "attention_join",
            (w.num_heads, rows, 1),
            (_THREADS, 1, 1),
            *(call.sizes, call.of_pass, of_rows),
        )

    def _select(
        self,
        call: _Call,
        weights: AttentionWeights,
        first: int,
        rows: int,
        index_queries: DeviceArray,
        index_stride: int,
        chosen: int,
    ) -> None:
        """Scores of all blocks and the choice, for rows that see more than they may attend to."""
        scores = self._launcher.scratch("attention_scores", rows * call.most_blocks * 4)
        if call.most_blocks > weights.top_blocks:
            tiles = -(-call.most_blocks // _SCORED_KEYS)
            groups = -(-rows // _SCORED_ROWS)
            most = max(1, 8 * self._launcher.device.info.num_multiprocessors // groups)
            self._launcher.launch(
                f"attention_scores_{call.index_name}",
                (min(tiles, most), groups, 1),
                (_THREADS, 1, 1),
                *(call.pages, call.sizes, call.of_pass, pointer(index_queries), pointer(scores)),
                *(ctypes.c_int32(call.most_blocks), ctypes.c_int32(first), ctypes.c_int32(rows)),
                shared_bytes=_SCORED_KEYS * (index_stride + 4) * 4,
            )
        threads = 512 if call.most_blocks > 4096 else 128
        self._launcher.launch(
            "attention_select",
            (rows, 1, 1),
            (threads, 1, 1),
            *(call.sizes, call.of_pass, pointer(scores), ctypes.c_int32(call.most_blocks)),
            *(pointer(chosen), ctypes.c_int32(first)),
        )

    def _prepare(
        self,
        call: _Call,
        weights: AttentionWeights,
        inputs: PrepareInputsStruct,
        rows: int,
        jobs: int,
    ) -> None:
        threads = -(-max(weights.head_dim, weights.index_dim) // 32) * 32
        self._launcher.launch(
            f"attention_prepare_{call.type_name}",
            (rows, jobs, 1),
            (threads, 1, 1),
            *(call.pages, call.sizes, call.of_pass, inputs),
        )


def _norms(weights: AttentionWeights) -> tuple[int, int, int, int]:
    return (
        *(address_of(weights.k_norm), address_of(weights.q_norm)),
        *(address_of(weights.index_k_norm), address_of(weights.index_q_norm)),
    )


def _call(
    weights: AttentionWeights, pool: KvPool, plan: PassPlan, far: FarAddresses | None
) -> _Call:
    if far is None and pool.far is not None:
        far = FarAddresses(pool.far.num_near, *pool.far.addresses)
    heads = weights.num_heads // weights.num_kv_heads
    if (
        max(weights.head_dim, weights.index_dim) > _MOST_DIM
        or heads > _MOST_HEADS
        or (PART_TOKENS * -(-heads // 4) * 4 + heads * weights.head_dim) * 4 > MOST_SHARED_BYTES
    ):
        raise ValueError(
            f"{heads} query heads of {weights.head_dim} for a key are more than the kernels take"
        )
    type_name = _TYPE_NAMES[pool.keys.dtype]
    key_scales, value_scales = None, None
    if type_name == "i8":
        key_scales, value_scales = address_of(pool.key_scales), address_of(pool.value_scales)
    pages = KvPagesStruct(
        *(address_of(pool.keys), address_of(pool.values), key_scales, value_scales),
        *(address_of(pool.index_raw), address_of(pool.index_pooled)),
        *((None,) * 5 if far is None else _far_addresses(far)),
        *(pool.page_tokens, pool.keys.shape[0] if far is None else far.num_near),
    )
    sizes = AttentionSizesStruct(
        *(weights.num_heads, weights.num_kv_heads, weights.head_dim),
        *(weights.num_index_heads, weights.index_dim, weights.rope_dim),
        *(weights.block_ratio, weights.top_blocks, weights.eps),
    )
    of_pass = pass_struct(plan)
    most_tokens = of_pass.max_pages * pool.page_tokens
    return _Call(
        *(pages, sizes, of_pass, type_name, "f32" if type_name == "f32" else "f16"),
        *(plan.num_rows, max(1, most_tokens // weights.block_ratio)),
    )


def _far_addresses(far: FarAddresses) -> tuple[int | None, ...]:
    return (far.keys, far.values, far.key_scales, far.value_scales, far.index_raw)
