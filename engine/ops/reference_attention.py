"""Sparse attention of the reference operations: caches, block selection, attention (spec 4.5)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from engine.ops.base import FloatArray, IntArray
from engine.ops.plan import PassPlan
from engine.ops.pools import KeyArray, KvPool
from engine.ops.reference_math import rms, rotate, sigmoid
from engine.ops.weights import AttentionWeights

Float64Array = npt.NDArray[np.float64]
IndexArray = npt.NDArray[np.int64]

_INT8_TOP = np.float32(127)


def append_keys(
    weights: AttentionWeights,
    pool: KvPool,
    plan: PassPlan,
    k: FloatArray,
    v: FloatArray,
    index_k: FloatArray,
) -> None:
    """See `Ops.attention_append`."""
    nkv, hd, ratio = weights.num_kv_heads, weights.head_dim, weights.block_ratio
    for r in range(plan.num_rows):
        pages = plan.page_table[plan.row_seq[r]]
        position = int(plan.positions[r])
        page, at = pages[position // pool.page_tokens], position % pool.page_tokens
        normed = rms(k[r].reshape(nkv, hd), weights.k_norm, weights.eps)
        key = rotate(normed, plan.rope_cos[r], plan.rope_sin[r])
        _store(pool.keys, pool.key_scales, (page, at), key)
        _store(pool.values, pool.value_scales, (page, at), v[r].reshape(nkv, hd))
        pool.index_raw[page, at] = index_k[r]
        if position % ratio == ratio - 1:  # the row completes a block, which lies in this page
            raw = pool.index_raw[page, at - ratio + 1 : at + 1].astype(np.float64)
            pooled = rms(raw.mean(axis=0), weights.index_k_norm, weights.eps)
            turned = rotate(pooled[None], plan.block_rope_cos[r], plan.block_rope_sin[r])
            pool.index_pooled[page, at // ratio] = turned[0]


def attend(
    weights: AttentionWeights,
    pool: KvPool,
    plan: PassPlan,
    q: FloatArray,
    index_q: FloatArray,
    out: FloatArray,
    selected: IntArray | None,
) -> None:
    """See `Ops.attention`."""
    nh, nkv, hd = weights.num_heads, weights.num_kv_heads, weights.head_dim
    keys = pool.keys.reshape(-1, nkv, hd)  # (pages * page_tokens, nkv, hd)
    values = pool.values.reshape(-1, nkv, hd)
    key_scales, value_scales = (
        None if scales is None else scales.reshape(-1, nkv)
        for scales in (pool.key_scales, pool.value_scales)
    )
    for r in range(plan.num_rows):
        pages = plan.page_table[plan.row_seq[r]]
        num_seen = int(plan.positions[r]) + 1
        cos, sin = plan.rope_cos[r], plan.rope_sin[r]

        queries = index_q[r].reshape(weights.num_index_heads, weights.index_dim)
        queries64 = rotate(rms(queries, weights.index_q_norm, weights.eps), cos, sin)
        blocks = _select_blocks(weights, pool, pages, queries64, num_seen)
        if selected is not None:
            selected[r] = -1
            selected[r, : len(blocks)] = blocks

        positions = _positions(blocks, weights.block_ratio, num_seen)
        places = pages[positions // pool.page_tokens] * pool.page_tokens
        places = places + positions % pool.page_tokens  # where each position lies in the pool

        q_and_gate = q[r].reshape(nh, 2, hd)
        head_q = rotate(rms(q_and_gate[:, 0], weights.q_norm, weights.eps), cos, sin)
        grouped = head_q.reshape(nkv, nh // nkv, hd)
        seen_keys = _load(keys, key_scales, places)  # (n, nkv, hd)
        scores = np.einsum("ghd,ngd->ghn", grouped, seen_keys) / np.sqrt(hd)
        p = np.exp(scores - scores.max(axis=-1, keepdims=True))
        p /= p.sum(axis=-1, keepdims=True)
        mixed = np.einsum("ghn,ngd->ghd", p, _load(values, value_scales, places))
        out[r] = (mixed.reshape(nh, hd) * sigmoid(q_and_gate[:, 1])).reshape(-1)


def _store(
    cache: KeyArray,
    scales: npt.NDArray[np.float32] | None,
    place: tuple[int, int],
    rows: Float64Array | npt.NDArray[np.float32],
) -> None:
    """Heads `[nkv, hd]` of a position; int8 with a scale for each head, else as they are."""
    if scales is None:
        cache[place] = rows
        return
    largest = np.abs(rows).max(axis=-1).astype(np.float32)  # (nkv,)
    inverse = np.divide(_INT8_TOP, largest, out=np.zeros_like(largest), where=largest > 0)
    cache[place] = np.rint(rows * inverse[:, None])
    scales[place] = largest / _INT8_TOP


def _load(
    cache: KeyArray, scales: npt.NDArray[np.float32] | None, places: IndexArray
) -> Float64Array:
    """Heads `[n, nkv, hd]` of these places."""
    numbers = cache[places].astype(np.float64)
    return numbers if scales is None else numbers * scales[places][:, :, None]


def _select_blocks(
    weights: AttentionWeights,
    pool: KvPool,
    pages: IntArray,
    index_q: Float64Array,
    num_seen: int,
) -> IndexArray:
    """Numbers of the complete blocks that a query attends to, ascending.

    Ties go to the lower number.
    """
    blocks: IndexArray = np.arange(num_seen // weights.block_ratio, dtype=np.int64)
    if len(blocks) <= weights.top_blocks:
        return blocks
    per_page = pool.page_tokens // weights.block_ratio
    pooled = pool.index_pooled.reshape(-1, weights.index_dim)
    block_keys = pooled[pages[blocks // per_page] * per_page + blocks % per_page]  # (B, idim)
    products = np.einsum("hd,bd->hb", index_q, block_keys.astype(np.float64))
    scores = np.maximum(products, 0.0).sum(axis=0)  # (B,)
    return np.sort(np.argsort(-scores, kind="stable")[: weights.top_blocks])


def _positions(blocks: IndexArray, ratio: int, num_seen: int) -> IndexArray:
    """Positions of the chosen blocks' tokens and of the tail behind the last complete block."""
    inside = (blocks[:, None] * ratio + np.arange(ratio)).reshape(-1)
    return np.concatenate([inside, np.arange(num_seen // ratio * ratio, num_seen)])
